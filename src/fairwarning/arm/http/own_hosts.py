"""The hosts under which clients reach this service, so that its links never lead elsewhere."""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address

from starlette.requests import Request

from fairwarning.arm.http.errors import azure_error

_HOST = re.compile(
    r"(?P<name>[A-Za-z0-9._\-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?", re.ASCII
)
_KEPT = 100  # URLs that were computed before


class OwnHosts:
    """The configured names, localhost, loopback addresses, and the address of the connection."""

    def __init__(self, names: Iterable[str]) -> None:
        lower = [name.lower() for name in names]
        self._names = frozenset({"localhost", *(name for name in lower if name[:2] != "*.")})
        self._domains = frozenset(name[2:] for name in lower if name[:2] == "*.")
        self._url = lru_cache(_KEPT)(self._compute)

    def base_url(self, request: Request) -> str:
        """Return the URL of this service: on the host that the client used, if it is our own.

        Any port is accepted: a forwarded port differs from the one that is listened on.
        """
        address, port = request.scope.get("server") or ("localhost", None)
        return self._url(request.headers.get("host", ""), address, port)

    def _compute(self, host: str, address: str, port: int | None) -> str:
        match = _HOST.fullmatch(host)
        if not match:
            raise azure_error("InvalidHost")
        if self._is_own(match["name"].strip("[]").lower().removesuffix("."), address):
            return f"https://{host}"
        own = f"[{address}]" if ":" in address else address
        return f"https://{own}:{port}" if port else f"https://{own}"

    def _is_own(self, name: str, address: str) -> bool:
        if name in self._names or name.partition(".")[2] in self._domains:
            return True
        try:
            ip = ip_address(name)
            return ip.is_loopback or ip == ip_address(address)
        except ValueError:
            return False
