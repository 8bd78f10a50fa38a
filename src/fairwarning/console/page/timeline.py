"""The timeline: the position of each event's bar within a range of time.

The template draws a row as an SVG without a viewBox, with positions in percent of its width, so
that it fits any screen and text keeps its size.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from fairwarning.console.page import density, words
from fairwarning.console.page.density import Span
from fairwarning.core.decision import FactType
from fairwarning.core.model import Event, EventStatus
from fairwarning.core.rollout import rollout_of_step
from fairwarning.core.times import iso
from fairwarning.service.history.events import EventHistory

WINDOWS = {900: "15 min", 3600: "1 h", 21600: "6 h", 86400: "24 h"}
"""The lengths of the window in seconds, with their labels."""

DEFAULT_WINDOW = 3600

_GROUP_ROWS = 20  # shown of a rollout
_TICK_SECONDS = 60, 180, 600, 1800, 3600, 14400, 43200, 86400, 259200, 604800
_MOST_TICKS = 6
_DAY = 86400
_FUTURE_SHARE = 0.5  # of the window
_MIN_WIDTH_PERCENT = 0.4  # of a bar


@dataclass(frozen=True)
class TimelineBar:
    """A bar in a row, in percent of its width."""

    x: str
    width: str


@dataclass(frozen=True)
class TimelineRow:
    """The row of an event: its bars and marks, and its times in the API's format."""

    id: str
    type: str
    machines: str
    state: str
    title: str
    notice: TimelineBar | None  # from creation to start; before the start, to NotBefore
    impact: TimelineBar | None  # from start to end
    approved: str | None
    due: str | None
    times: dict[str, str | None]  # "created", "approved", "not before", "started", "ended"


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
class TimelineChart:
    """The whole chart."""

    seconds: int
    now_x: str | None
    ticks: list[tuple[str, str]]  # of the time axis: position and label
    groups: list[TimelineGroup]
    more: int  # events beyond the last group

    @property
    def rows(self) -> list[TimelineRow]:
        """All rows, also those in groups."""
        return [row for group in self.groups for row in group.rows]


@dataclass(frozen=True)
class TimeScale:
    """Converts times to percent of a range."""

    begin: int
    end: int
    now: int

    def at(self, time: float) -> float:
        return 100 * (time - self.begin) / (self.end - self.begin)

    def mark(self, time: float | None) -> str | None:
        """Return the position of a time, or None outside the range."""
        if time is None or not self.begin <= time <= self.end:
            return None
        return _percent(self.at(time))

    def bar(self, begin: float, end: float) -> TimelineBar | None:
        """Return the part of a bar inside the range, or None."""
        if end < self.begin or begin > self.end:
            return None
        left, right = max(self.at(begin), 0.0), min(self.at(end), 100.0)
        return TimelineBar(_percent(left), _percent(max(right - left, _MIN_WIDTH_PERCENT)))


def window(now: int, seconds: int) -> TimeScale:
    """Return the scale of a window around now."""
    end = now + round(seconds * _FUTURE_SHARE)
    return TimeScale(end - seconds, end, now)


def span_of(history: EventHistory, live: Event | None, set_: str, now: float) -> Span:
    """Place an event in time; `live` is None if it has ended."""
    created = history.created_at or 0.0
    if history.ended_at is not None:
        ends, state = history.ended_at, "ended"
        state = "cancelled" if history.ended is FactType.CANCELLED else state
    elif history.started_at is not None or (live and live.status is EventStatus.STARTED):
        ends, state = now, "in progress"
    else:
        ends, state = history.not_before or created, "scheduled"
    return Span(history, set_, created, history.started_at, ends, state)


def chart(
    spans: Iterable[Span], scale: TimeScale, *, rows: int, rollouts: Collection[str] = ()
) -> TimelineChart:
    """Build the chart of events within a range; live events come first.

    The events of these rollouts are a group, which counts as one row. If there are more than fit,
    the other events are grouped by set and type.
    """
    shown = [span for span in spans if span.ended >= scale.begin and span.created <= scale.end]
    members: dict[str, list[Span]] = {}
    for span in sorted(shown, key=_order):
        rollout = rollout_of_step(span.history.operation)
        members.setdefault(rollout if rollout in rollouts else f"/{span.history.id}", []).append(
            span
        )
    single = [group[0] for key, group in members.items() if key.startswith("/")]
    aggregated = _set_groups(single, scale) if len(members) > rows else []
    if len(aggregated) > 1:
        members = {key: group for key, group in members.items() if not key.startswith("/")}
    groups = [
        _group("" if key.startswith("/") else key, group, scale)
        for key, group in islice(members.items(), rows)
    ]
    groups += aggregated if len(aggregated) > 1 else []
    return TimelineChart(
        seconds=scale.end - scale.begin,
        now_x=scale.mark(scale.now),
        ticks=_ticks(scale),
        groups=groups[:rows],
        more=len(shown) - sum(group.count for group in groups[:rows]),
    )


def _order(span: Span) -> tuple[int, float, str]:
    """Sort events in progress first, then scheduled by NotBefore, then ended, latest first."""
    if span.history.ended_at is not None:
        return 2, -span.ended, span.history.id
    if span.started is not None:
        return 0, span.started, span.history.id
    return 1, span.ended, span.history.id


def _group(rollout: str, spans: Sequence[Span], scale: TimeScale) -> TimelineGroup:
    rows = [_row(span, scale) for span in spans[:_GROUP_ROWS]]
    return TimelineGroup(rollout, rows, len(spans), _states(spans))


def _states(spans: Iterable[Span]) -> str:
    """Count events by state: `2 in progress, 5 scheduled`."""
    counts = Counter(span.state for span in spans)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _set_groups(spans: Iterable[Span], scale: TimeScale) -> list[TimelineGroup]:
    """Group events by set and type: groups with live events first, then those with most events."""
    members: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        members.setdefault((span.set, span.history.type or ""), []).append(span)

    def order(item: tuple[tuple[str, str], list[Span]]) -> tuple[bool, int, tuple[str, str]]:
        name, group = item
        is_over = all(span.history.ended_at is not None for span in group)
        return is_over, -len(group), name

    return [
        TimelineGroup(
            rollout="",
            rows=[],
            count=len(group),
            text=_states(group),
            strip=density.strip(group, scale.begin, scale.end),
            set=set_,
            type=type_,
        )
        for (set_, type_), group in sorted(members.items(), key=order)
    ]


def _row(span: Span, scale: TimeScale) -> TimelineRow:
    history, started = span.history, span.started
    until = span.ended if started is None else started
    # An event without notice has no notice bar; an event cancelled at once has a short one.
    has_notice = until > span.created or started is None
    due = history.not_before if span.state == "scheduled" else None
    times = {
        "created": history.created_at,
        "approved": history.approved_at,
        "not before": history.not_before,
        "started": started,
        "ended": history.ended_at,
    }
    shown = {name: None if time is None else iso(int(time)) for name, time in times.items()}
    what = f"{history.type} of {words.join_names(history.resources)}"
    return TimelineRow(
        id=history.id,
        type=history.type or "",
        machines=words.join_names(history.resources),
        state=span.state,
        title=f"{what}: {_describe(shown, span.state, scale)}",
        notice=scale.bar(span.created, until) if has_notice else None,
        impact=None if started is None else scale.bar(started, span.ended),
        approved=scale.mark(history.approved_at),
        due=scale.mark(due),
        times=shown,
    )


def _describe(times: dict[str, str | None], state: str, scale: TimeScale) -> str:
    """Describe a row in a sentence, for its tooltip and for screen readers."""
    said = times if state == "scheduled" else {**times, "not before": None}
    if state == "cancelled":
        said = {**said, "ended": None, "cancelled": times["ended"]}
    return ", ".join(
        f"{what} {words.time_of_day(time, iso(scale.now))}" for what, time in said.items() if time
    )


def _ticks(scale: TimeScale) -> list[tuple[str, str]]:
    seconds = scale.end - scale.begin
    longest = _TICK_SECONDS[-1]
    step = next((step for step in _TICK_SECONDS if seconds / step <= _MOST_TICKS), longest)
    first = -(-scale.begin // step) * step
    return [
        (_percent(scale.at(time)), _tick_label(time, step))
        for time in range(first, scale.end + 1, step)
    ]


def _tick_label(time: int, step: int) -> str:
    if step >= _DAY:
        return words.date(time)
    return f"{time // 3600 % 24:02d}:{time // 60 % 60:02d}"


def _percent(value: float) -> str:
    return f"{value:.2f}%"
