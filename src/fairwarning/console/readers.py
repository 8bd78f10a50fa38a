"""Where the reader of a response is: the URLs of machines must work from there (M22)."""

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fairwarning.core.record import record
from fairwarning.service.lookup import MachineLocation

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


@record
class Reader:
    """Where a reader is. The default is a reader on the host of the service."""

    host: str = ""  # under which it reaches this host; empty: by any of its addresses
    address: str = ""  # from which its connections come
    is_local: bool = True  # whether it is on this host, and reaches loopback addresses


FindUrls = Callable[[Sequence[MachineLocation], Reader], Awaitable[list[str | None]]]
"""Returns the URL of each machine that answers this reader; None if there is none."""

READER: ContextVar[Reader] = ContextVar("READER")


async def no_urls(locations: Sequence[MachineLocation], _: Reader) -> list[str | None]:
    """Return no URL: there is no metadata endpoint."""
    return [None] * len(locations)


class ReaderContext:
    """Middleware that sets `READER` for each request."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Note where the request comes from, and pass it on."""
        READER.set(_reader(scope))
        await self._app(scope, receive, send)


def _reader(scope: "Scope") -> Reader:
    headers = dict(scope.get("headers", ()))
    name = urlsplit(f"//{headers.get(b'host', b'').decode('latin-1')}").hostname or ""
    server, client = (_plain(scope.get(side)) for side in ("server", "client"))
    is_local = bool(client) and (client == server or client.startswith("127.") or client == "::1")
    return Reader(host=name, address=client, is_local=is_local)


def _plain(side: tuple[str, int] | None) -> str:
    """Return an address without its zone, and as IPv4 if it is one."""
    return side[0].partition("%")[0].removeprefix("::ffff:") if side else ""
