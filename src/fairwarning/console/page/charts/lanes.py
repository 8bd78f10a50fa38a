"""The lanes of a rollout as a grid that fills up: one cell for each lane, bounded."""

from dataclasses import dataclass
from urllib.parse import quote

from fairwarning.console.page import words
from fairwarning.console.page.request import PageRequest
from fairwarning.core.errors import NotFound
from fairwarning.core.model import Rollout
from fairwarning.service.listing.lanes import LaneState, LaneSummary, read_lanes

CELLS = 200
_CLASSES = {
    LaneState.DONE: "done",
    LaneState.IN_PROGRESS: "impacted",
    LaneState.DEFERRED: "deferred",
    LaneState.PAUSED: "deferred",
    LaneState.NOT_STARTED: "off",
}


@dataclass(frozen=True)
class LaneCell:
    """A lane in the grid. `link` leads to the machines of its scopes; empty if it is done."""

    number: int
    label: str
    state: str
    css: str
    link: str
    waits_for: str


@dataclass(frozen=True)
class LaneGrid:
    """Cells in order, and how many lanes are left out, by state."""

    cells: list[LaneCell]
    done: int
    not_started: int


async def lane_grid(request: PageRequest, name: str) -> LaneGrid:
    """Build the grid of a rollout."""
    rollout = await request.fleet.reader.read(Rollout, name)
    if rollout is None:
        raise NotFound("UnknownRollout", f"there is no rollout {name[:60]!r}")
    shown = lanes_shown(rollout)
    lanes = await read_lanes(request.fleet, rollout, shown)
    over = rollout.next_lane - len(rollout.running)
    not_started = rollout.lanes - rollout.next_lane
    return LaneGrid(
        cells=[_cell(lane) for lane in lanes],
        done=over - sum(n < rollout.next_lane and n not in rollout.running for n in shown),
        not_started=not_started - sum(n >= rollout.next_lane for n in shown),
    )


def lanes_shown(rollout: Rollout, most: int = CELLS) -> list[int]:
    """Choose the lanes to show: those in progress, then as many done as not started ones."""
    running = set(rollout.running)
    over = [n for n in range(rollout.next_lane) if n not in running]
    room = max(most - len(running), 0)
    to_come = range(rollout.next_lane, rollout.lanes)
    later = min(len(to_come), max(room // 2, room - len(over)))
    recent = over[max(len(over) - (room - later), 0) :]
    return sorted([*recent, *running, *to_come[:later]])


def _cell(lane: LaneSummary) -> LaneCell:
    scopes = lane.scopes
    return LaneCell(
        number=lane.number,
        label=words.join_names(scopes, 1) if scopes else f"Lane {lane.number}",
        state=_state(lane),
        css=_CLASSES[lane.state],
        link=f"/machines?scope={quote(scopes[0], safe='')}" if scopes else "",
        waits_for="; ".join(lane.waits_for),
    )


def _state(lane: LaneSummary) -> str:
    step = f"step {lane.position + 1} of {len(lane.steps)}"
    match lane.state:
        case LaneState.DONE:
            return "done"
        case LaneState.IN_PROGRESS:
            return step
        case LaneState.DEFERRED:
            return f"{step} deferred"
        case LaneState.PAUSED:
            return f"paused before {step}"
        case LaneState.NOT_STARTED:
            return "not started"
