"""The start page: the fleet in numbers, the timeline, and the first machines (O8, O14)."""

from dataclasses import dataclass
from itertools import groupby
from urllib.parse import urlencode

from fairwarning.console.api.responses import MachineInfo
from fairwarning.console.page import words
from fairwarning.console.page.activity import recent_timeline
from fairwarning.console.page.render import KINDS
from fairwarning.console.page.request import PageContent, PageRequest, View
from fairwarning.console.page.summary import figure_groups
from fairwarning.core.model import Scope, ScopeKind
from fairwarning.service.listing.filters import EVERY_EVENT, MachineFilter

CELLS = 15  # machines on the page, so that it stays small however large the fleet is
_ROWS = 7  # of the timeline
_SET_ASIDE = 5  # entities that are named

Members = tuple[Scope, list[MachineInfo]]


@dataclass(frozen=True)
class UpdateDomain:
    """Machines that a rollout updates together."""

    number: int
    label: bool  # whether to show the number
    machines: list[MachineInfo]


@dataclass(frozen=True)
class ScopeBlock:
    """A scope, or adjacent standalone machines."""

    id: str
    title: str
    about: str
    set: str
    domains: list[UpdateDomain]


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
        "figures": figure_groups(summary),
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
    domains = [UpdateDomain(0, label=False, machines=machines)]
    return ScopeBlock(f"alone-{shown[0][0].id}", "Standalone machines", about, "", domains)


def _block(scope: Scope, machines: list[MachineInfo]) -> ScopeBlock:
    # The sort is stable: within a domain, machines keep the order of their creation.
    ordered = sorted(machines, key=lambda machine: machine.update_domain)
    domains = [
        UpdateDomain(number, label=True, machines=list(group))
        for number, group in groupby(ordered, key=lambda machine: machine.update_domain)
    ]
    polling = "polling" if scope.enabled else "not polling: machines get no notice"
    count = words.count(len(scope.machines), "machine")
    about = f"{KINDS.get(scope.kind.value, scope.kind.value)}, {count}, {polling}"
    return ScopeBlock(scope.id, scope.id, about, scope.owner, domains)


VIEWS: list[tuple[str, View]] = [("/", show)]
