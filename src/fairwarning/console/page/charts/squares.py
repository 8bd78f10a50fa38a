"""Draws machines as squares, in an SVG whose unit is a square with the space beside it. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from markupsafe import Markup

from fairwarning.service.listing.groups import MachineState

PART = 600
"""Machines of a group that are drawn together; a larger group has several parts."""
_NARROW, _WIDE = 10, 20  # squares in a row
_NARROW_MACHINES = 100  # of a group that is drawn in narrow rows
_DOMAIN_SPACE = 0.4  # between update domains

_PART = Markup(
    '<li data-key="{begin} {key}"><a href="{link}"><span>{title}</span>'
    '<svg width="{width}em" height="{height}em" viewBox="0 -.4 {width} {height}" role="img"'
    ' aria-label="{counts}" data-domains="{domains}">{paths}</svg></a></li>'
)
_PATH = Markup('<path class="{}" d="{}"/>')


@dataclass(frozen=True)
class Heading:
    """What a group is called, and the list of its machines."""

    key: str
    title: str
    link: str


def columns(machines: int) -> int:
    """Return how many squares a row of a group has."""
    return _NARROW if machines <= _NARROW_MACHINES else _WIDE


def draw(
    heading: Heading, begin: int, columns: int, cells: Sequence[tuple[int, MachineState]]
) -> Markup:
    """Draw a part of a group, from its machine `begin` on: update domains and states, in order."""
    lines: dict[MachineState, list[str]] = {}
    domains: list[int] = []
    y = 0.0
    for _, domain in groupby(cells, key=itemgetter(0)):
        states = [state for _, state in domain]
        domains.append(len(states))
        for row in range(0, len(states), columns):
            for x, length, state in _runs(states[row : row + columns]):
                lines.setdefault(state, []).append(f"M{x} {y:g}h{length}")
            y = round(y + 1, 1)
        y = round(y + _DOMAIN_SPACE, 1)
    counts = Counter(state for _, state in cells)
    return _PART.format(
        begin=begin,
        key=heading.key,
        link=heading.link,
        title=heading.title,
        width=columns,
        height=f"{y - _DOMAIN_SPACE:g}",
        counts=", ".join(f"{count} {state}" for state, count in counts.items()),
        domains=",".join(map(str, domains)),
        paths=Markup("").join(_PATH.format(css(state), "".join(d)) for state, d in lines.items()),
    )


def _runs(states: Sequence[MachineState]) -> list[tuple[int, int, MachineState]]:
    """Return where machines of the same state begin, and how many there are beside each other."""
    runs: list[tuple[int, int, MachineState]] = []
    x = 0
    for state, run in groupby(states):
        length = len(list(run))
        runs.append((x, length, state))
        x += length
    return runs


def css(state: MachineState) -> str:
    """Return the class of a state."""
    return state.replace(" ", "-")
