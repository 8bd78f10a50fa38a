"""The fleet, and above it the timeline."""

from dataclasses import dataclass
from itertools import groupby

from fairwarning.console.api.responses import MachineInfo, ScopeInfo
from fairwarning.console.page import timeline, words
from fairwarning.console.page.render import KINDS
from fairwarning.console.page.request import PageContent, PageRequest, View

SCOPES = 20  # on a page: however big the fleet, a page is not
_SEARCHED = 1000  # scopes that a filter looks through
_READ = 100  # of them at a time
_WINDOW = 3600
_ALONE = "Standalone"


@dataclass(frozen=True)
class UpdateDomain:
    """Machines that a rollout hits together."""

    number: int
    label: bool  # whether it is worth saying
    machines: list[MachineInfo]


@dataclass(frozen=True)
class ScopeBlock:
    """A scope, or neighbours that are a machine each."""

    id: str
    title: str
    about: str
    set: str
    domains: list[UpdateDomain]


async def show(visit: PageRequest) -> PageContent:
    """A page of scopes; with a filter, those that have it in a name."""
    seconds = visit.whole("window")
    if seconds not in timeline.WINDOWS:
        seconds = _WINDOW
    seen = await visit.api.timeline(seconds)
    sought = visit.query("q")
    scopes, following = await _scopes(visit, sought.lower())
    data = {
        "chart": timeline.chart(seen.events, seen.now, seconds),
        "windows": timeline.WINDOWS,
        "q": sought,
        "blocks": _blocks(scopes, sought.lower()),
        "next": following,
        "searched": f", among the first {_SEARCHED} scopes" if following else "",
    }
    return PageContent("fleet.html", data)


async def _scopes(visit: PageRequest, sought: str) -> tuple[list[ScopeInfo], str | None]:
    """What is shown, and after which scope to go on."""
    after = visit.query("after")
    if not sought:
        page = await visit.api.scopes(after, SCOPES)
        return page.scopes, page.next
    found: list[ScopeInfo] = []
    following: str | None = after
    for _ in range(_SEARCHED // _READ):
        page = await visit.api.scopes(following or "", _READ)
        for scope in page.scopes:
            if _matches(scope, sought):
                found.append(scope)
            if len(found) == SCOPES:
                return found, scope.id
        following = page.next
        if following is None:
            break
    return found, following


def _matches(scope: ScopeInfo, sought: str) -> bool:
    return sought in scope.id.lower() or any(sought in m.name.lower() for m in scope.machines)


def _blocks(scopes: list[ScopeInfo], sought: str) -> list[ScopeBlock]:
    """Each scope by itself, but machines that are scopes of their own side by side."""
    blocks: list[ScopeBlock] = []
    for alone, group in groupby(scopes, key=lambda scope: scope.kind == _ALONE):
        if alone:
            blocks.append(_alone(list(group)))
        else:
            blocks += [_block(scope, sought) for scope in group]
    return blocks


def _alone(scopes: list[ScopeInfo]) -> ScopeBlock:
    machines = [machine for scope in scopes for machine in scope.machines]
    polled = sum(scope.enabled for scope in scopes)
    about = f"{words.count(len(machines), 'machine')}, {polled} polled; each a scope of its own"
    domains = [UpdateDomain(0, label=False, machines=machines)]
    return ScopeBlock(f"alone-{scopes[0].id}", "Standalone", about, "", domains)


def _block(scope: ScopeInfo, sought: str) -> ScopeBlock:
    machines = scope.machines
    if sought and sought not in scope.id.lower():
        machines = [one for one in machines if sought in one.name.lower()]
    ordered = sorted(machines, key=lambda one: one.update_domain)  # stable: else as created
    domains = [
        UpdateDomain(number, label=True, machines=list(group))
        for number, group in groupby(ordered, key=lambda one: one.update_domain)
    ]
    told = "polled" if scope.enabled else "not polled: nothing is announced"
    count = words.count(len(scope.machines), "machine")
    about = f"{KINDS.get(scope.kind, scope.kind)}, {count}, {told}"
    return ScopeBlock(scope.id, scope.id, about, scope.set, domains)


VIEWS: list[tuple[str, View]] = [("/", show)]
