"""The live timeline: the position of each event's bar within the window. Pure.

The template draws a row as an SVG without a viewBox, with positions in percent of its width, so
that it fits any screen and text keeps its size.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fairwarning.console.api.responses import EventHistoryInfo
from fairwarning.console.page import words
from fairwarning.core.rollout import rollout_of_step

WINDOWS = {900: "15 min", 3600: "1 h", 21600: "6 h", 86400: "24 h"}
"""The lengths of the window in seconds, with their labels."""

DEFAULT_WINDOW = 3600

_GROUP_ROWS = 20  # shown of a rollout
_TICK_SECONDS = {900: 180, 3600: 600, 21600: 3600, 86400: 14400}  # by length of the window
_FUTURE_SHARE = 0.5  # of the window
_MIN_WIDTH_PERCENT = 0.4  # of a bar


@dataclass(frozen=True)
class TimelineBar:
    """A bar in a row, in percent of its width."""

    x: str
    width: str


@dataclass(frozen=True)
class TimelineRow:
    """The row of an event."""

    event: EventHistoryInfo
    machines: str
    notice: TimelineBar | None  # from creation to start; before the start, to NotBefore
    impact: TimelineBar | None  # from start to end
    approved: str | None
    not_before: str | None
    state: str
    title: str


@dataclass(frozen=True)
class TimelineGroup:
    """The rows of a rollout, which open together; or the row of one event."""

    rollout: str  # empty: of one event
    rows: list[TimelineRow]
    count: int  # also of rows that are not shown
    text: str


@dataclass(frozen=True)
class TimelineTick:
    """A tick of the time axis."""

    x: str
    label: str


@dataclass(frozen=True)
class TimelineChart:
    """The whole chart."""

    seconds: int
    now: str
    now_x: str
    ticks: list[TimelineTick]
    rows: list[TimelineRow]  # all that are shown, also those in groups
    groups: list["TimelineGroup"]
    more: int  # events beyond the last group


class _Scale:
    """Converts times to percent of the window."""

    def __init__(self, now: str, seconds: int) -> None:
        self.now = words.epoch(now)
        self.end = self.now + round(seconds * _FUTURE_SHARE)
        self.begin = self.end - seconds

    def at(self, time: float) -> float:
        return 100 * (time - self.begin) / (self.end - self.begin)

    def mark(self, time: str | None) -> str | None:
        """Return the position of a time, or None outside the window."""
        if not time or not self.begin <= words.epoch(time) <= self.end:
            return None
        return _percent(self.at(words.epoch(time)))

    def bar(self, begin: float, end: float) -> TimelineBar | None:
        """Return the part of a bar inside the window, or None."""
        if end < self.begin or begin > self.end:
            return None
        left, right = max(self.at(begin), 0.0), min(self.at(end), 100.0)
        return TimelineBar(_percent(left), _percent(max(right - left, _MIN_WIDTH_PERCENT)))


def chart(
    events: Iterable[EventHistoryInfo],
    now: str,
    seconds: int,
    *,
    rollouts: Collection[str] = (),
    rows: int,
) -> TimelineChart:
    """Build the chart of the window around `now`; live events come first.

    The events of these rollouts are grouped. A group counts as one row.
    """
    scale = _Scale(now, seconds)
    event_rows = [
        row for event in sorted(events, key=_sort_key) if (row := _row(event, scale, now))
    ]
    groups = _groups(event_rows, rollouts)
    return TimelineChart(
        seconds=seconds,
        now=now,
        now_x=_percent(scale.at(scale.now)),
        ticks=_ticks(scale, seconds),
        rows=[row for group in groups[:rows] for row in group.rows],
        groups=groups[:rows],
        more=sum(group.count for group in groups[rows:]),
    )


def _groups(rows: list[TimelineRow], rollouts: Collection[str]) -> list[TimelineGroup]:
    members: dict[str, list[TimelineRow]] = {}
    for row in rows:
        rollout = rollout_of_step(row.event.operation)
        members.setdefault(rollout if rollout in rollouts else f"/{row.event.id}", []).append(row)
    return [
        TimelineGroup(
            rollout="" if key.startswith("/") else key,
            rows=group[:_GROUP_ROWS],
            count=len(group),
            text=_states(group),
        )
        for key, group in members.items()
    ]


def _states(rows: list[TimelineRow]) -> str:
    """Count the rows by state: `2 in progress, 5 scheduled`."""
    counts = Counter(row.state for row in rows)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _sort_key(event: EventHistoryInfo) -> tuple[int, int, str]:
    """Sort events in progress first, then scheduled by NotBefore, then ended, latest first."""
    if event.ended_at:
        return 2, -words.epoch(event.ended_at), event.id
    if event.started_at:
        return 0, words.epoch(event.started_at), event.id
    return 1, words.epoch(event.not_before or event.created_at), event.id


def _row(event: EventHistoryInfo, scale: _Scale, now: str) -> TimelineRow | None:
    created = words.epoch(event.created_at)
    due = words.epoch(event.not_before) if event.not_before else created
    started = words.epoch(event.started_at) if event.started_at else None
    ended = words.epoch(event.ended_at) if event.ended_at else None
    until = started if started is not None else ended if ended is not None else due
    # An event without notice has no notice bar; an event cancelled at once has a short one.
    notice = scale.bar(created, until) if until > created or started is None else None
    impact = None
    if started is not None:
        impact = scale.bar(started, ended if ended is not None else scale.now)
    if not notice and not impact:
        return None
    return TimelineRow(
        event=event,
        machines=words.join_names(event.resources),
        notice=notice,
        impact=impact,
        approved=scale.mark(event.approved_at),
        not_before=None if event.cancelled or event.started_at else scale.mark(event.not_before),
        state=state(event),
        title=_title(event, now),
    )


def state(event: EventHistoryInfo) -> str:
    """Return the state of an event as shown to users."""
    if event.cancelled:
        return "cancelled"
    if event.ended_at:
        return "ended"
    return "in progress" if event.started_at or event.status == "Started" else "scheduled"


def _title(event: EventHistoryInfo, now: str) -> str:
    """Describe a row in a sentence, for its tooltip and for screen readers."""
    parts = [f"created {words.time_of_day(event.created_at, now)}"]
    if event.approved_at:
        parts.append(f"approved {words.time_of_day(event.approved_at, now)}")
    if event.started_at:
        parts.append(f"started {words.time_of_day(event.started_at, now)}")
    elif event.not_before and not event.cancelled:
        parts.append(f"not before {words.time_of_day(event.not_before, now)}")
    if event.ended_at:
        verb = "cancelled" if event.cancelled else "ended"
        parts.append(f"{verb} {words.time_of_day(event.ended_at, now)}")
    return f"{event.type} of {words.join_names(event.resources)}: {', '.join(parts)}"


def _ticks(scale: _Scale, seconds: int) -> list[TimelineTick]:
    step = _TICK_SECONDS[seconds]
    first = -(-scale.begin // step) * step
    return [
        TimelineTick(_percent(scale.at(time)), f"{time // 3600 % 24:02d}:{time // 60 % 60:02d}")
        for time in range(first, scale.end + 1, step)
    ]


def _percent(value: float) -> str:
    return f"{value:.2f}%"
