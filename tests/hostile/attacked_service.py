"""A service with two tenants, and all its ports in this process."""

from typing import Any
from urllib.parse import quote

from fairwarning.arm.app import application
from fairwarning.metadata.callers import loopback_address
from fairwarning.service.config.settings import CloudSettings
from fairwarning.service.tokens import Principal
from tests.arm.everything import FleetSnapshot
from tests.fixtures.arm import HOST as ARM_HOST
from tests.fixtures.arm import PORT
from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.fleet import all_entities
from tests.fixtures.http import LOOPBACK, Response, asgi_request, asgi_scope
from tests.fixtures.tokens import sign_token
from tests.hostile.arm_requests import MutatedRequest
from tests.hostile.test_arm_consistency import (
    DAY_SECONDS,
    DAYS,
    Entities,
    assert_all_done,
    assert_consistent,
)


class AttackedService(ConsoleHarness):
    """A filled fleet with all its ports. Ann's group and Bob's have the same resources."""

    def __init__(self, snapshot: FleetSnapshot) -> None:
        super().__init__(store=snapshot.store())

    async def _start(self) -> None:
        await super()._start()
        self.arm = application(self.fleet, CloudSettings(), self.issued_tokens)

    def control(self, sent: MutatedRequest, principal: Principal) -> Response:
        token = sign_token(self.tokens, principal)
        headers = {"host": ARM_HOST, "authorization": f"Bearer {token}", **sent.headers}
        target = f"{quote(sent.path)}?{sent.query}"
        scope = asgi_scope(
            sent.method, target, headers.items(), scheme="https", server=(LOOPBACK, PORT)
        )
        return self.run(self._control(scope, sent.body))

    async def _control(self, scope: Any, body: bytes) -> Response:  # noqa: ANN401  (of ASGI)
        response = await asgi_request(self.arm, scope, body)
        await self.fleet.settled()
        return response

    def machines(self, group: str) -> dict[str, tuple[str, str]]:
        return {
            location.machine.name: (location.scope, loopback_address(location.number) or "")
            for location in self.run(self._store.list_machines(0, 100_000))
            if location.scope.startswith(f"{group}:")
        }

    def learn_address(self, machine: str, address: str) -> None:
        self._addresses[machine] = address

    def events(self, group: str) -> list[str]:
        scopes = {scope for scope, _ in self.machines(group).values()}
        return [event for scope in sorted(scopes) for event in self.scope(scope).events]

    def assert_healthy(self) -> None:
        """Check that every part of the service works and that its resources are consistent."""
        assert self.fleet.broken is None
        assert self.fleet.set_aside.all() == []
        assert_consistent(self._entities())
        ready = self.send("GET", "/readyz", [("Host", HOST)])
        assert (ready.status, ready.json["status"]) == (200, "ok"), ready.body

    def assert_all_done(self) -> None:
        """Check that nothing is in progress any more after some weeks."""
        for _ in range(DAYS):
            self.advance(DAY_SECONDS)
        assert_all_done(self._entities())

    def _entities(self) -> Entities:
        return self.run(all_entities(self._store))
