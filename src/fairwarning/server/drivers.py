"""Who carries impacts out, as the fleet file says."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from fairwarning.machines.driver import Driver
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.service.clock import Clock
from fairwarning.service.config.settings import DriverKind, DriverSettings


@runtime_checkable
class CloseableDriver(Protocol):
    """A driver that has something to let go of."""

    async def close(self) -> None:
        """Begin nothing more."""


def driver_for(driving: DriverSettings, clock: Clock, folder: Path) -> Driver:
    """The driver; what is not asked for is not loaded."""
    match driving.kind:
        case DriverKind.COMMAND:
            from fairwarning.machines.command.driver import CommandDriver  # noqa: PLC0415  (see above)

            return CommandDriver(
                driving.program,
                check=driving.check,
                timeout_seconds=driving.timeout_seconds,
                state=folder / "impacts",
                now=clock.now,
            )
        case DriverKind.LIBVIRT:
            from fairwarning.machines.libvirt.driver import LibvirtDriver  # noqa: PLC0415  (see above)

            return LibvirtDriver(
                driving.uri,
                destination=driving.destination,
                grace_seconds=driving.grace_seconds,
                timeout_seconds=driving.timeout_seconds,
            )
        case DriverKind.SIMULATED:
            return SimulatedDriver(lambda s, call: clock.call_at(clock.now() + s, call))
