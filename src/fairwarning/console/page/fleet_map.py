"""The map of the fleet: a small square for each machine, grouped, coloured by its state (O14).

An SVG, whose unit is a square with the space beside it, draws a part of a group. A path in it draws
all machines of one state: a line for machines that are beside each other, which dashes cut into
squares. So ten thousand machines are a page of 60 kB. A group is drawn again only when one of its
scopes has changed.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from markupsafe import Markup

from fairwarning.console.page.request import PageContent, PageRequest
from fairwarning.console.page.words import machine_path
from fairwarning.core.errors import NotFound
from fairwarning.core.model import ScopeKind
from fairwarning.service.listing.filters import has_text
from fairwarning.service.listing.groups import (
    MachineGroup,
    MachineGroups,
    MachineState,
    machine_states,
)

MACHINES = 12_000  # squares on a page
GROUPS = 250  # drawn by themselves: the largest
_OTHERS = "others"  # the other groups together; which ones these are depends on the filter
_STEP = 300  # machines looked at in one go
_LARGE_SQUARES = 1500  # machines of a fleet that has room for larger squares
_PART = 600  # machines of a group that are drawn together; a larger group has several parts
_NARROW, _WIDE = 10, 20  # squares in a row
_NARROW_MACHINES = 100  # of a group that is drawn in narrow rows
_DOMAIN_SPACE = 0.4  # between update domains

_PART_MARKUP = Markup(
    '<li data-key="{begin} {key}"><a href="{link}"><span>{title}</span>'
    '<svg width="{width}em" height="{height}em" viewBox="0 -.4 {width} {height}" role="img"'
    ' aria-label="{counts}" data-domains="{domains}">{paths}</svg></a></li>'
)
_PATH = Markup('<path class="{}" d="{}"/>')

STATES = (
    MachineState.RUNNING,
    MachineState.NOTICE,
    MachineState.IMPACT,
    MachineState.FAILED,
    MachineState.STOPPED,
    MachineState.NO_POLLS,
)
"""In the order of the legend and of the table."""


class Square(NamedTuple):
    """A machine on the map."""

    scope: str
    name: str
    domain: int
    state: MachineState


@dataclass(frozen=True)
class Block:
    """A group as drawn. It is still right if the group has these versions."""

    versions: object
    squares: Sequence[Square]
    counts: Counter[MachineState]
    parts: list[Markup]
    row: Markup  # of the table


_drawn: WeakKeyDictionary[MachineGroups, dict[str, Block]] = WeakKeyDictionary()


async def show(request: PageRequest) -> PageContent:
    """Show the groups whose names contain the filter: as squares, or in numbers as a table."""
    pattern = request.query("q")
    blocks = await _blocks(request, pattern)
    counts = sum((block.counts for block in blocks), Counter[MachineState]())
    total, drawn = counts.total(), sum(len(block.squares) for block in blocks)
    query = {"q": pattern} if pattern else {}
    data = {
        "q": pattern,
        "as_table": request.query("view") == "table",
        "total": total,
        "left": total - drawn,
        "large": total <= _LARGE_SQUARES,
        "states": [(state, counts[state]) for state in STATES],
        "parts": [part for block in blocks for part in block.parts],
        "rows": [block.row for block in blocks],
        "map_path": f"/map?{urlencode(query)}",
        "table_path": f"/map?{urlencode({**query, 'view': 'table'})}",
    }
    return PageContent("map.html", data)


async def show_machine(request: PageRequest) -> PageContent:
    """Show the name and the state of the machine at a place of a group, as last drawn."""
    group, place = request.query("group"), request.query_integer("place") or 0
    if group not in _drawn.get(request.api.index.groups, {}):
        await _blocks(request, request.query("q"))
    block = _drawn.get(request.api.index.groups, {}).get(group)
    if block is None or place >= len(block.squares):
        raise NotFound("UnknownMachine", f"the group {group[:60]!r} has no machine {place}")
    square = block.squares[place]
    return PageContent("map_machine.html", {"square": square, "path": machine_path(*square[:2])})


async def _blocks(request: PageRequest, pattern: str) -> list[Block]:
    await request.api.index.refresh()
    await request.api.recent.refresh()
    every = request.api.index.groups
    drawn = _drawn.setdefault(every, {})
    chosen = _chosen(every, pattern)
    for key in drawn.keys() - every.by_key.keys() - chosen.keys():
        del drawn[key]
    blocks: list[Block] = []
    left = MACHINES
    for key, groups in chosen.items():
        blocks.append(await _block(request, key, groups, left))
        left -= len(blocks[-1].squares)
    return blocks


def _chosen(every: MachineGroups, pattern: str) -> dict[str, list[MachineGroup]]:
    """Return what each block shows: a group by itself, or all the smaller ones together."""
    groups = [group for group in every.by_key.values() if has_text(pattern, (_title(group),))]
    groups.sort(key=lambda group: (group.kind is ScopeKind.STANDALONE, group.name))
    largest = sorted(groups, key=attrgetter("machines"), reverse=True)[:GROUPS]
    shown = {group.key for group in largest}
    chosen = {group.key: [group] for group in groups if group.key in shown}
    others = [group for group in groups if group.key not in shown]
    return chosen | ({f"{_OTHERS} {pattern}".rstrip(): others} if others else {})


def _title(group: MachineGroup) -> str:
    return group.name or "Standalone machines"


async def _block(
    request: PageRequest, key: str, groups: Sequence[MachineGroup], most: int
) -> Block:
    """Return a block with at most so many squares, drawn anew if it has changed."""
    drawn = _drawn.setdefault(request.api.index.groups, {})
    most = min(most, sum(group.machines for group in groups))
    versions = [(group.key, group.version) for group in groups], most
    if key not in drawn or drawn[key].versions != versions:
        every = await _squares(request, groups)
        counts = Counter(square.state for square in every)
        is_one = key == groups[0].key
        title = _title(groups[0]) if is_one else f"{len(groups):,} smaller groups"
        link = _link(groups[0]) if is_one else "/machines"
        parts = [
            _PART_MARKUP.format(key=key, title=title, link=link, **part)
            async for part in _parts(request, every[:most])
        ]
        drawn[key] = Block(versions, every[:most], counts, parts, _row(title, link, counts))
    return drawn[key]


def _link(group: MachineGroup) -> str:
    """Return the list of the machines of a group."""
    kind, _, name = group.key.partition(" ")
    return f"/machines?{urlencode({kind: name})}" if name else "/machines"


def _row(title: str, link: str, counts: Counter[MachineState]) -> Markup:
    cells = Markup("").join(Markup("<td>{:,}").format(counts[state]) for state in STATES)
    name = Markup('<tr><th scope="row"><a href="{}">{}</a><td>{:,}')
    return name.format(link, title, counts.total()) + cells


async def _squares(request: PageRequest, groups: Sequence[MachineGroup]) -> list[Square]:
    """Return the machines of a group by update domain, or of several groups; oldest first."""
    index, failed = request.api.index, request.api.recent.day.failed
    found: list[tuple[int, int, Square]] = []
    looked_at = 0
    for name in [name for group in groups for name in group.scopes]:
        scope = index.scopes.get(name)
        together = len(groups) > 1 or not scope or scope.kind is ScopeKind.STANDALONE
        for machine, state in machine_states(scope, failed) if scope else ():
            domain = 0 if together else machine.update_domain
            square = Square(name, machine.name, domain, state)
            found.append((domain, index.number(name, machine.name), square))
        if len(found) - looked_at >= _STEP:
            looked_at = len(found)
            await request.fleet.reader.share.turn()
    found.sort(key=itemgetter(0, 1))
    return [square for _, _, square in found]


# --- Drawing ---


async def _parts(request: PageRequest, shown: Sequence[Square]) -> AsyncIterator[dict[str, object]]:
    """Draw a group, a part at a time."""
    columns = _NARROW if len(shown) <= _NARROW_MACHINES else _WIDE
    for begin in range(0, len(shown), _PART):
        await request.fleet.reader.share.turn()
        yield {"begin": begin, **draw(shown[begin : begin + _PART], columns)}


def draw(squares: Sequence[Square], columns: int) -> dict[str, object]:
    """Draw a part of a group: update domains and states, in order."""
    lines: dict[MachineState, list[str]] = {}
    domains: list[int] = []
    y = 0.0
    for _, domain in groupby(squares, key=attrgetter("domain")):
        states = [square.state for square in domain]
        domains.append(len(states))
        for row in range(0, len(states), columns):
            x = 0
            for state, run in groupby(states[row : row + columns]):
                length = len(list(run))
                lines.setdefault(state, []).append(f"M{x} {y:g}h{length}")
                x += length
            y = round(y + 1, 1)
        y = round(y + _DOMAIN_SPACE, 1)
    counts = Counter(square.state for square in squares)
    paths = (_PATH.format(state.replace(" ", "-"), "".join(d)) for state, d in lines.items())
    return {
        "width": columns,
        "height": f"{y - _DOMAIN_SPACE:g}",
        "counts": ", ".join(f"{count} {state}" for state, count in counts.items()),
        "domains": ",".join(map(str, domains)),
        "paths": Markup("").join(paths),
    }


VIEWS = (("/map", show), ("/map/machine", show_machine))
