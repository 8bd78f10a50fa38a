"""How many connections a port may have, in all and from one address."""

import logging
import resource
import time
from collections.abc import Callable

from fairwarning.core import limits
from fairwarning.core.record import record
from fairwarning.server.ports.refusals import OF_ADDRESS, OF_PORT, PortRefusal

log = logging.getLogger(__name__)

_WARN_SECONDS = 60.0


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
