"""The page that lists machines, with filters (O14)."""

from collections.abc import Callable
from typing import Any

from fairwarning.console.api.filters import MACHINE_FILTERS, machine_filter
from fairwarning.console.page.listing import cut_page, list_query
from fairwarning.console.page.request import PageContent, PageRequest, Views
from fairwarning.core.model import EventStatus, EventType, Power, Scope
from fairwarning.service.lookup import MachineLocation

SortKey = Callable[[Scope, MachineLocation], Any]

_NO_EVENT = 10**12  # sorts machines without events last
_SORTS: dict[str, SortKey] = {
    "number": lambda _, location: location.number,
    "machine": lambda _, location: location.machine.name,
    "scope": lambda scope, location: (scope.id, location.number),
    "power": lambda _, location: (location.machine.power, location.number),
    "schedule": lambda scope, location: (_first_start(scope, location), location.number),
}


def _first_start(scope: Scope, location: MachineLocation) -> int:
    starts = [
        event.not_before
        for event in scope.events.values()
        if location.machine.name in event.resources
    ]
    return min(starts, default=_NO_EVENT)


async def show(request: PageRequest) -> PageContent:
    """Show a page of the machines that the filter allows."""
    query = list_query(request, tuple(MACHINE_FILTERS), tuple(_SORTS))
    index = request.api.index
    await index.refresh()
    locations = index.find_machines(machine_filter(request.query))
    key = _SORTS[query.sort.removeprefix("-")]
    locations.sort(
        key=lambda location: key(index.scopes[location.scope], location),
        reverse=query.sort.startswith("-"),
    )
    shown, page = cut_page(query, locations)
    data = {
        "machines": await request.api.describe_machines(shown),
        "query": query,
        "page": page,
        "powers": list(Power),
        "types": list(EventType),
        "statuses": list(EventStatus),
    }
    return PageContent("machines.html", data)


VIEWS: Views = [("/machines", show)]
