"""The page that lists machines, with filters (O14)."""

from fairwarning.console.api.filters import MACHINE_FILTERS, machine_filter
from fairwarning.console.page.listing import ListQuery, cut_page, list_query
from fairwarning.console.page.request import PageContent, PageRequest, Views
from fairwarning.core.model import EventStatus, EventType, Power, Scope
from fairwarning.service.listing.filters import MachineFilter
from fairwarning.service.listing.index import SortKey
from fairwarning.service.lookup import MachineLocation

_NO_EVENT = 10**12  # sorts machines without events last
_SORTS: dict[str, SortKey] = {
    "number": lambda _, location: location.number,
    "machine": lambda _, location: (location.machine.name, location.number),
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


def query_of(request: PageRequest) -> ListQuery:
    """Read the query of the list."""
    return list_query(request, tuple(MACHINE_FILTERS), tuple(_SORTS))


async def find(
    request: PageRequest, query: ListQuery, wanted: MachineFilter
) -> list[MachineLocation]:
    """Return the machines that the filter allows, in the order of the list."""
    index = request.api.index
    await index.refresh()
    locations = await index.find_machines(wanted, _SORTS[query.sort.removeprefix("-")])
    return locations[::-1] if query.sort.startswith("-") else locations


async def show(request: PageRequest) -> PageContent:
    """Show a page of the machines that the filter allows."""
    query = query_of(request)
    locations = await find(request, query, machine_filter(request.query))
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
