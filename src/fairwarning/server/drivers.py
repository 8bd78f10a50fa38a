"""Creates the driver that the fleet file selects."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from fairwarning.machines.driver import Driver
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.service.clock import Clock
from fairwarning.service.config.settings import DriverKind, DriverSettings
from fairwarning.service.health import PartHealth


@runtime_checkable
class CloseableDriver(Protocol):
    """A driver that must be closed."""

    async def close(self) -> None:
        """Stop starting impacts, and release resources."""


@runtime_checkable
class ReportingDriver(Protocol):
    """A driver that may be unable to execute impacts."""

    problem: str


def driver_health(driver: Driver) -> PartHealth:
    """Whether the driver can execute impacts."""
    problem = driver.problem if isinstance(driver, ReportingDriver) else ""
    return PartHealth(name="driver", problem=problem)


def driver_for(settings: DriverSettings, clock: Clock, folder: Path) -> Driver:
    """Return the driver; import only its own module."""
    match settings.kind:
        case DriverKind.COMMAND:
            from fairwarning.machines.command.driver import CommandDriver  # noqa: PLC0415  (see above)

            return CommandDriver(
                settings.program,
                check=settings.check,
                timeout_seconds=settings.timeout_seconds,
                state=folder / "impacts",
                now=clock.now,
            )
        case DriverKind.LIBVIRT:
            from fairwarning.machines.libvirt.driver import LibvirtDriver  # noqa: PLC0415  (see above)

            return LibvirtDriver(
                settings.uri,
                destination=settings.destination,
                grace_seconds=settings.grace_seconds,
                timeout_seconds=settings.timeout_seconds,
            )
        case DriverKind.SIMULATED:
            return SimulatedDriver(lambda s, call: clock.call_at(clock.now() + s, call))
