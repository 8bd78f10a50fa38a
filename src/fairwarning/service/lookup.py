"""Look up machines by name."""

from fairwarning.core.errors import NotFound, Refused
from fairwarning.service.fleet import Fleet
from fairwarning.store.store import MachineLocation

__all__ = ["MachineLocation", "find_machine"]


async def find_machine(fleet: Fleet, name: str) -> MachineLocation:
    """Return the machine of this name; `scope/name` (`web/0/web_3`) if several share the name."""
    locations = await fleet.reader.find_machines(name=name)
    if not locations and "/" in name:
        scope, _, machine = name.rpartition("/")
        locations = await fleet.reader.find_machines(name=machine)
        locations = [location for location in locations if location.scope == scope]
    if not locations:
        raise NotFound("UnknownMachine", f"there is no machine {name[:60]!r}")
    if len(locations) > 1:
        names = ", ".join(f"{location.scope}/{name}" for location in locations)
        raise Refused("SeveralMachines", f"several machines are called {name!r}: {names}")
    return locations[0]
