"""The start page: the fleet in numbers, the timeline and the first machines (O8, O14)."""

from dataclasses import dataclass
from itertools import groupby
from urllib.parse import urlencode

from fairwarning.console.api.responses import MachineInfo, SummaryInfo
from fairwarning.console.page import words
from fairwarning.console.page.activity import recent_timeline
from fairwarning.console.page.request import PageContent, PageRequest
from fairwarning.console.page.words import KINDS
from fairwarning.core.model import Scope, ScopeKind
from fairwarning.service.listing.filters import EVERY_EVENT, MachineFilter
from fairwarning.service.listing.summary import SOON_SECONDS

CELLS = 15  # machines on the page, so that it stays small however large the fleet is
_ROWS = 7  # of the timeline
_SET_ASIDE = 5  # entities that are named
_ROLLOUTS = "Running", "Paused"

Members = tuple[Scope, list[MachineInfo]]


@dataclass(frozen=True)
class ScopeBlock:
    """A scope, or adjacent standalone machines."""

    id: str
    title: str
    about: str
    set: str
    domains: list[tuple[int | None, list[MachineInfo]]]  # a number is shown, unless it is None


async def show(request: PageRequest) -> PageContent:
    """Show the counts, the timeline, and the first machines whose names contain the filter."""
    summary = await request.api.summary()
    pattern = request.query("q")
    index = request.api.index
    locations = await index.find_machines(MachineFilter(text=pattern))
    members: dict[str, list[MachineInfo]] = {}
    for machine in await request.api.describe_machines(locations[:CELLS]):
        members.setdefault(machine.scope, []).append(machine)
    shown = [
        (index.scopes[name], machines) for name, machines in members.items() if name in index.scopes
    ]
    data = {
        "summary": summary,
        "set_aside": (await request.api.set_aside()).set_aside[:_SET_ASIDE],
        "figures": _figures(summary),
        "q": pattern,
        "blocks": _blocks(shown),
        "more": max(len(locations) - CELLS, 0),
        "timeline_path": f"/?{urlencode({'q': pattern})}" if pattern else "/",
    }
    return PageContent("fleet.html", data | await recent_timeline(request, EVERY_EVENT, _ROWS))


def _blocks(shown: list[Members]) -> list[ScopeBlock]:
    """Return a block for each scope, and one for each run of standalone machines."""
    blocks: list[ScopeBlock] = []
    for standalone, group in groupby(shown, key=lambda each: each[0].kind is ScopeKind.STANDALONE):
        if standalone:
            blocks.append(_standalone_block(list(group)))
        else:
            blocks += [_block(scope, machines) for scope, machines in group]
    return blocks


def _standalone_block(shown: list[Members]) -> ScopeBlock:
    machines = [machine for _, machines in shown for machine in machines]
    polled = sum(scope.enabled for scope, _ in shown)
    about = f"{words.count(len(machines), 'machine')}, {polled} polling; each is its own scope"
    block = f"alone-{shown[0][0].id}"
    return ScopeBlock(block, "Standalone machines", about, "", [(None, machines)])


def _block(scope: Scope, machines: list[MachineInfo]) -> ScopeBlock:
    # The sort is stable: within a domain, machines keep the order of their creation.
    ordered = sorted(machines, key=lambda machine: machine.update_domain)
    domains: list[tuple[int | None, list[MachineInfo]]] = [
        (number, list(group))
        for number, group in groupby(ordered, key=lambda machine: machine.update_domain)
    ]
    polling = "polling" if scope.enabled else "not polling: machines get no notice"
    count = words.count(len(scope.machines), "machine")
    about = f"{KINDS.get(scope.kind.value, scope.kind.value)}, {count}, {polling}"
    return ScopeBlock(scope.id, scope.id, about, scope.owner, domains)


# --- The fleet in numbers: each number is a link to the list that it counts ---


@dataclass(frozen=True)
class Figure:
    """A number, what it counts, and the list of that. `warns`: it asks for attention."""

    count: int
    text: str
    link: str
    warns: bool = False


def _figures(summary: SummaryInfo) -> dict[str, list[Figure]]:
    """Return the numbers of the start page by their headings."""
    machines = [
        Figure(count, power, _link("/machines", power=power))
        for power, count in summary.power.items()
    ]
    rollouts = [
        Figure(summary.rollouts.get(status, 0), status.lower(), _link("/rollouts", status=status))
        for status in _ROLLOUTS
    ]
    return {
        "Machines": machines or [Figure(0, "machines", "/machines")],
        "Notice": _notice(summary),
        "Events": _events(summary),
        "Rollouts": rollouts,
    }


def _notice(summary: SummaryInfo) -> list[Figure]:
    unpolled = summary.scopes_not_polled
    machines = words.count(summary.machines_not_polled, "machine")
    text = f"{words.noun(unpolled, 'scope')} that nobody polls"
    if unpolled:
        text += f": {machines} without notice"
    polled = summary.scopes - unpolled
    return [
        Figure(unpolled, text, _link("/machines", not_polled="true"), warns=bool(unpolled)),
        Figure(polled, f"{words.noun(polled, 'scope')} polled", "/machines"),
    ]


def _events(summary: SummaryInfo) -> list[Figure]:
    waiting = summary.unapproved
    soon = _link("/events", status="Scheduled", within=str(SOON_SECONDS))
    return [
        Figure(summary.soon, "start within an hour", soon, warns=bool(summary.soon)),
        Figure(waiting, "approved by nobody", _link("/events", unapproved="true")),
        *(
            Figure(
                each.count,
                f"{each.type} {each.status.lower()}",
                _link("/events", type=each.type, status=each.status),
            )
            for each in summary.events
        ),
    ]


def _link(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}"


VIEWS = (("/", show),)
