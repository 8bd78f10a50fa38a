"""Machines by the names that people give them."""

from fairwarning.core.errors import NotFound, Refused
from fairwarning.service.fleet import Fleet
from fairwarning.store.store import MachineLocation

__all__ = ["MachineLocation", "machine_called"]


async def machine_called(fleet: Fleet, name: str) -> MachineLocation:
    """The machine of this name, or of this scope and name (`web/0/web_3`) where several have it."""
    places = await fleet.reader.find_machines(name=name)
    if not places and "/" in name:
        scope, _, machine = name.rpartition("/")
        places = await fleet.reader.find_machines(name=machine)
        places = [place for place in places if place.scope == scope]
    if not places:
        raise NotFound("UnknownMachine", f"there is no machine {name[:60]!r}")
    if len(places) > 1:
        names = ", ".join(f"{place.scope}/{name}" for place in places)
        raise Refused("SeveralMachines", f"several machines are called {name!r}: {names}")
    return places[0]
