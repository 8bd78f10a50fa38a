"""The deployments of a client are carried out one after the other: one at a time computes (IB4)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from fairwarning.arm.http.request import ArmRequest
from fairwarning.core.errors import Refused, Unavailable
from fairwarning.service.read_share import ReadShare

WAITING_MAX = 20  # deployments of a client, each with a template of up to 4 MiB
WAIT_SECONDS = 60  # before the client is asked to try again: its connection stays open meanwhile
_DEPLOYS = "fairwarning.deploys"  # in the ASGI scope of a deployment, and of its requests


class _Turn(asyncio.Lock):
    """Held by the deployment that is carried out."""

    waiting = 0


class DeploymentQueue:
    """Lets one deployment of each client be carried out at a time."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[tuple[str, str], _Turn] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, request: ArmRequest, share: ReadShare) -> AsyncIterator[None]:
        """Wait for the client's other deployments; raises `Unavailable` if that takes too long."""
        scope, client = request.http.scope, request.principal.name
        if _DEPLOYS in scope:  # it would wait for the deployment that has sent it
            raise Refused("InvalidTemplate", "a nested deployment may not be sent as a resource")
        turn = self._turns.setdefault((client, request.principal.group), _Turn())
        if turn.waiting >= WAITING_MAX:
            raise Unavailable("TooManyDeployments", f"{WAITING_MAX} deployments of {client} wait")
        turn.waiting += 1
        try:
            with share.elsewhere():
                async with asyncio.timeout(WAIT_SECONDS):
                    await turn.acquire()
        except TimeoutError:
            text = f"another deployment of {client} is still in progress"
            raise Unavailable("TooManyDeployments", text) from None
        finally:
            turn.waiting -= 1
        scope[_DEPLOYS] = True
        try:
            yield
        finally:
            turn.release()
