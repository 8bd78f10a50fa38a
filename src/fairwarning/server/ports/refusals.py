"""Refusals by a port itself: of connections beyond its limits, and of requests before their end."""

import json
import logging
import resource
import time
from collections.abc import Callable

from fairwarning.core import limits
from fairwarning.core.record import record, short_record
from fairwarning.core.times import rfc1123
from fairwarning.metadata.answers import render

log = logging.getLogger(__name__)

_WARN_SECONDS = 60.0


@short_record
class PortRefusal:
    """The status of a refusal, with the code and message of its body."""

    status: int
    code: str
    message: str
    retry: bool = False  # whether the client may try again in a second

    def to_bytes(self, now: float) -> bytes:
        """Return the response, dated with fleet time (E11). It ends the connection."""
        body = json.dumps({"error": {"code": self.code, "message": self.message}}).encode()
        headers = f"Date: {rfc1123(int(now))}\r\n" + ("Retry-After: 1\r\n" if self.retry else "")
        return render(self.status, body, close=True, headers=headers)


OF_PORT = PortRefusal(
    503, "TooManyConnections", "the server has too many connections; try again", retry=True
)
OF_ADDRESS = PortRefusal(
    429,
    "TooManyConnections",
    "your address has too many connections; close some, or reuse them",
    retry=True,
)
MALFORMED = PortRefusal(400, "BadRequest", "the request is not valid HTTP/1.1 or HTTP/1.0")
TLS_REQUIRED = PortRefusal(
    400, "TlsRequired", "this port uses TLS; begin the URL with https:// instead of http://"
)
LATE = PortRefusal(
    408,
    "RequestTimeout",
    f"the request took too long to arrive; send its headers within {limits.PORT_HEADER_SECONDS}"
    f" seconds, and its body within another {limits.PORT_BODY_SECONDS}",
)
HEADERS_TOO_LARGE = PortRefusal(
    431,
    "HeadersTooLarge",
    f"send at most {limits.PORT_HEADER_FIELDS} headers with {limits.PORT_HEADER_BYTES} bytes, and a"
    f" path of at most {limits.PORT_PATH_BYTES} bytes",
)


@record
class PortLimits:
    """The most connections of a port."""

    connections: int
    of_address: int

    def within_descriptors(self) -> "PortLimits":
        """Return the limits that leave enough descriptors for metadata connections."""
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        share = max(1, allowed // limits.PORT_DESCRIPTORS)
        if allowed == resource.RLIM_INFINITY or self.connections <= share:
            return self
        of_address = max(1, self.of_address * share // self.connections)
        return PortLimits(connections=share, of_address=of_address)


class ConnectionCounter:
    """Counts the connections of a port, from before their TLS handshake until they are lost."""

    def __init__(self, name: str, port_limits: PortLimits) -> None:
        self.name = name
        self._limits = port_limits
        self._total = 0
        self._of_address: dict[str, int] = {}
        self._next_warning = 0.0

    def refusal(self, address: str) -> PortRefusal | None:
        """Return why another connection of this address is refused; None if it is not."""
        if self._total >= self._limits.connections:
            refusal = OF_PORT
        elif self._of_address.get(address, 0) >= self._limits.of_address:
            refusal = OF_ADDRESS
        else:
            return None
        self._warn(address)
        return refusal

    def add(self, address: str) -> Callable[[], None]:
        """Count a connection; return the function that ends it, which may be called again."""
        self._total += 1
        self._of_address[address] = self._of_address.get(address, 0) + 1
        counted = True

        def remove() -> None:
            nonlocal counted
            if counted:
                counted = False
                self._remove(address)

        return remove

    def _remove(self, address: str) -> None:
        self._total -= 1
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]

    def _warn(self, address: str) -> None:
        """Log a refused connection, at most once a minute."""
        now = time.monotonic()
        if now >= self._next_warning:
            self._next_warning = now + _WARN_SECONDS
            log.warning(
                "the %s port refuses connections, the last one from %s: %d are open, of at most %d"
                " and %d from one address; raise the limits in [%s], and that of open files",
                self.name, address, self._total, self._limits.connections,
                self._limits.of_address, self.name,
            )  # fmt: skip
