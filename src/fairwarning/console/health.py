"""Whether the service accepts commands, and how its parts are; polls are always answered (IS4)."""

from fairwarning.service.fleet import Fleet
from fairwarning.service.health import HealthSource, PartHealth


class ServiceHealth:
    """The parts of the service, some of which may have a problem."""

    def __init__(self, parts: list[PartHealth]) -> None:
        self.parts = parts
        self.problem = next((part.problem for part in parts if part.stops_writes), "")
        """Why the service does not accept commands now."""
        self.degraded = {
            part.name: part.problem for part in parts if part.problem and not part.stops_writes
        }

    @property
    def status(self) -> str:
        """One word for all parts."""
        return "unavailable" if self.problem else "degraded" if self.degraded else "ok"


async def read_health(fleet: Fleet, others: HealthSource) -> ServiceHealth:
    """Ask the fleet and the other parts."""
    if not fleet.following:  # else the heartbeat writes to the store
        await fleet.store_check.error()
    return ServiceHealth([*others(), *fleet.health()])
