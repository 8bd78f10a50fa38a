"""The start page: the timeline and the machines of the fleet."""

from dataclasses import dataclass
from itertools import groupby

from fairwarning.console.api.responses import MachineInfo, ScopeInfo
from fairwarning.console.page import timeline, words
from fairwarning.console.page.render import KINDS
from fairwarning.console.page.request import PageContent, PageRequest, View

SCOPES = 20  # on a page, so that it stays small however large the fleet is
_MAX_SEARCHED = 1000  # scopes that a filter searches
_BATCH = 100  # scopes that a search reads at a time
_WINDOW_SECONDS = 3600
_STANDALONE = "Standalone"


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
    """Show the timeline and a page of scopes, filtered by name if a filter is set."""
    seconds = request.query_integer("window")
    if seconds not in timeline.WINDOWS:
        seconds = _WINDOW_SECONDS
    recent = await request.api.timeline(seconds)
    pattern = request.query("q")
    scopes, following = await _scopes(request, pattern.lower())
    data = {
        "chart": timeline.chart(recent.events, recent.now, seconds),
        "windows": timeline.WINDOWS,
        "q": pattern,
        "blocks": _blocks(scopes, pattern.lower()),
        "next": following,
        "searched": f" among the first {_MAX_SEARCHED} scopes" if following else "",
    }
    return PageContent("fleet.html", data)


async def _scopes(request: PageRequest, pattern: str) -> tuple[list[ScopeInfo], str | None]:
    """Return the scopes to show, and the id after which the next page starts."""
    after = request.query("after")
    if not pattern:
        page = await request.api.scopes(after, SCOPES)
        return page.scopes, page.next
    matches: list[ScopeInfo] = []
    following: str | None = after
    for _ in range(_MAX_SEARCHED // _BATCH):
        page = await request.api.scopes(following or "", _BATCH)
        for scope in page.scopes:
            if _matches(scope, pattern):
                matches.append(scope)
            if len(matches) == SCOPES:
                return matches, scope.id
        following = page.next
        if following is None:
            break
    return matches, following


def _matches(scope: ScopeInfo, pattern: str) -> bool:
    return pattern in scope.id.lower() or any(
        pattern in machine.name.lower() for machine in scope.machines
    )


def _blocks(scopes: list[ScopeInfo], pattern: str) -> list[ScopeBlock]:
    """Return a block for each scope, and one for each run of standalone machines."""
    blocks: list[ScopeBlock] = []
    for standalone, group in groupby(scopes, key=lambda scope: scope.kind == _STANDALONE):
        if standalone:
            blocks.append(_standalone_block(list(group)))
        else:
            blocks += [_block(scope, pattern) for scope in group]
    return blocks


def _standalone_block(scopes: list[ScopeInfo]) -> ScopeBlock:
    machines = [machine for scope in scopes for machine in scope.machines]
    polled = sum(scope.enabled for scope in scopes)
    about = f"{words.count(len(machines), 'machine')}, {polled} polling; each is its own scope"
    domains = [UpdateDomain(0, label=False, machines=machines)]
    return ScopeBlock(f"alone-{scopes[0].id}", "Standalone machines", about, "", domains)


def _block(scope: ScopeInfo, pattern: str) -> ScopeBlock:
    machines = scope.machines
    if pattern and pattern not in scope.id.lower():
        machines = [machine for machine in machines if pattern in machine.name.lower()]
    # The sort is stable: within a domain, machines keep the order of their creation.
    ordered = sorted(machines, key=lambda machine: machine.update_domain)
    domains = [
        UpdateDomain(number, label=True, machines=list(group))
        for number, group in groupby(ordered, key=lambda machine: machine.update_domain)
    ]
    polling = "polling" if scope.enabled else "not polling: machines get no notice"
    count = words.count(len(scope.machines), "machine")
    about = f"{KINDS.get(scope.kind, scope.kind)}, {count}, {polling}"
    return ScopeBlock(scope.id, scope.id, about, scope.set, domains)


VIEWS: list[tuple[str, View]] = [("/", show)]
