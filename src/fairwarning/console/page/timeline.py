"""The timeline: the position of each event's bar within a range of time. Pure.

The template draws a row as an SVG without a viewBox, with positions in percent of its width, so
that it fits any screen and text keeps its size.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from fairwarning.console.api.responses import EventHistoryInfo
from fairwarning.console.page import density, words
from fairwarning.console.page.density import Span
from fairwarning.core.rollout import rollout_of_step
from fairwarning.core.times import iso

WINDOWS = {900: "15 min", 3600: "1 h", 21600: "6 h", 86400: "24 h"}
"""The lengths of the window in seconds, with their labels."""

DEFAULT_WINDOW = 3600

_GROUP_ROWS = 20  # shown of a rollout
_TICK_SECONDS = 60, 180, 600, 1800, 3600, 14400, 43200, 86400, 259200, 604800
_MOST_TICKS = 6
_DAY = 86400
_CROWDED = 3
"""Times as many events as rows: the first rows alone would say too little."""
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
    """The rows of a rollout, which open together; the events of one set and type; or one event."""

    rollout: str  # empty: of no rollout
    rows: list[TimelineRow]
    count: int  # also of rows that are not shown
    text: str
    strip: density.Strip | None = None  # how many events there were when: of a set and type
    set: str = ""
    type: str = ""


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
    now_x: str | None
    ticks: list[TimelineTick]
    rows: list[TimelineRow]  # all that are shown, also those in groups
    groups: list["TimelineGroup"]
    more: int  # events beyond the last group


@dataclass(frozen=True)
class TimeScale:
    """Converts times to percent of a range. `offset` is that of the shown times from UTC."""

    begin: int
    end: int
    now: int
    offset: int = 0

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


def window(now: str, seconds: int, offset: int = 0) -> TimeScale:
    """Return the scale of a window around now."""
    end = words.epoch(now) + round(seconds * _FUTURE_SHARE)
    return TimeScale(end - seconds, end, words.epoch(now), offset)


def chart(
    events: Iterable[EventHistoryInfo],
    scale: TimeScale,
    *,
    rollouts: Collection[str] = (),
    rows: int,
    set_of: Callable[[str], str] = str,
) -> TimelineChart:
    """Build the chart of events within a range; live events come first.

    The events of these rollouts are grouped. A group counts as one row. If there are many more than
    fit, the other events are grouped by set, which `set_of` returns for a scope, and type.
    """
    event_rows = [row for event in sorted(events, key=_sort_key) if (row := _row(event, scale))]
    groups = _groups(event_rows, rollouts)
    if len(groups) > _CROWDED * rows:
        single = [group for group in groups if not group.rollout]
        spans = [_span(row, scale, set_of) for group in single for row in group.rows]
        aggregated = span_groups(spans, scale)
        if len(aggregated) > 1:
            groups = [group for group in groups if group.rollout] + aggregated
    return chart_of(groups, scale, rows)


def chart_of(groups: Sequence[TimelineGroup], scale: TimeScale, rows: int) -> TimelineChart:
    """Build the chart of so many of the groups."""
    return TimelineChart(
        seconds=scale.end - scale.begin,
        now=iso(scale.now),
        now_x=_percent(scale.at(scale.now)) if scale.begin <= scale.now <= scale.end else None,
        ticks=_ticks(scale),
        rows=[row for group in groups[:rows] for row in group.rows],
        groups=list(groups[:rows]),
        more=sum(group.count for group in groups[rows:]),
    )


def span_groups(spans: Iterable[Span], scale: TimeScale) -> list[TimelineGroup]:
    """Group events by set and type."""
    members: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        members.setdefault((span.set, span.type), []).append(span)
    return [
        TimelineGroup(
            rollout="",
            rows=[],
            count=len(group),
            text=_states([span.state for span in group]),
            strip=density.strip(group, scale.begin, scale.end),
            set=set_,
            type=type_,
        )
        for (set_, type_), group in sorted(members.items(), key=_group_order)
    ]


def _group_order(item: tuple[tuple[str, str], list[Span]]) -> tuple[bool, int, tuple[str, str]]:
    """Sort groups with live events first, then those with most events."""
    name, spans = item
    is_over = all(span.state in {"ended", "cancelled"} for span in spans)
    return is_over, -len(spans), name


def _span(row: TimelineRow, scale: TimeScale, set_of: Callable[[str], str]) -> Span:
    event = row.event
    started = words.epoch(event.started_at) if event.started_at else None
    created = words.epoch(event.created_at)
    until = scale.now if started or not event.not_before else words.epoch(event.not_before)
    ended = words.epoch(event.ended_at) if event.ended_at else until
    return Span(set_of(event.scope), event.type, created, started, ended, row.state)


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
            text=_states([row.state for row in group]),
        )
        for key, group in members.items()
    ]


def _states(states: Iterable[str]) -> str:
    """Count the events by state: `2 in progress, 5 scheduled`."""
    counts = Counter(states)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _sort_key(event: EventHistoryInfo) -> tuple[int, int, str]:
    """Sort events in progress first, then scheduled by NotBefore, then ended, latest first."""
    if event.ended_at:
        return 2, -words.epoch(event.ended_at), event.id
    if event.started_at:
        return 0, words.epoch(event.started_at), event.id
    return 1, words.epoch(event.not_before or event.created_at), event.id


def _row(event: EventHistoryInfo, scale: TimeScale) -> TimelineRow | None:
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
        title=_title(event, scale),
    )


def state(event: EventHistoryInfo) -> str:
    """Return the state of an event as shown to users."""
    if event.cancelled:
        return "cancelled"
    if event.ended_at:
        return "ended"
    return "in progress" if event.started_at or event.status == "Started" else "scheduled"


def _title(event: EventHistoryInfo, scale: TimeScale) -> str:
    """Describe a row in a sentence, for its tooltip and for screen readers."""

    def at(time: str) -> str:
        return words.time_of_day(time, iso(scale.now), scale.offset)

    parts = [f"created {at(event.created_at)}"]
    if event.approved_at:
        parts.append(f"approved {at(event.approved_at)}")
    if event.started_at:
        parts.append(f"started {at(event.started_at)}")
    elif event.not_before and not event.cancelled:
        parts.append(f"not before {at(event.not_before)}")
    if event.ended_at:
        verb = "cancelled" if event.cancelled else "ended"
        parts.append(f"{verb} {at(event.ended_at)}")
    return f"{event.type} of {words.join_names(event.resources)}: {', '.join(parts)}"


def _ticks(scale: TimeScale) -> list[TimelineTick]:
    seconds = scale.end - scale.begin
    longest = _TICK_SECONDS[-1]
    step = next((step for step in _TICK_SECONDS if seconds / step <= _MOST_TICKS), longest)
    first = -(-(scale.begin + scale.offset) // step) * step - scale.offset
    return [
        TimelineTick(_percent(scale.at(time)), _tick_label(time + scale.offset, step))
        for time in range(first, scale.end + 1, step)
    ]


def _tick_label(time: int, step: int) -> str:
    if step >= _DAY:
        return words.date(time)
    return f"{time // 3600 % 24:02d}:{time // 60 % 60:02d}"


def _percent(value: float) -> str:
    return f"{value:.2f}%"
