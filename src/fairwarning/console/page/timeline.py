"""The live timeline: where each event's bar stands, as a share of the window. Pure.

A row is drawn by the template as an SVG without a viewBox, in percent of its width: it fits any
screen and its text keeps its size.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fairwarning.console.api.responses import EventHistoryInfo
from fairwarning.console.page import words

WINDOWS = {900: "15 min", 3600: "1 h", 21600: "6 h", 86400: "24 h"}
"""Seconds that may be looked at, and what they are called."""

ROWS = 40
_STEPS = {900: 180, 3600: 600, 21600: 3600, 86400: 14400}  # between two marks of the axis
_AHEAD = 0.5  # of the window lies in the future
_SEEN = 0.4  # percent that even the shortest bar is wide


@dataclass(frozen=True)
class TimelineBar:
    """A part of a row, in percent."""

    x: str
    width: str


@dataclass(frozen=True)
class TimelineRow:
    """One event."""

    event: EventHistoryInfo
    machines: str
    notice: TimelineBar | None  # from its creation until it started, or was to
    impact: TimelineBar | None  # from its start to its end
    approved: str | None
    not_before: str | None
    state: str
    title: str


@dataclass(frozen=True)
class TimelineTick:
    """A mark of the axis."""

    x: str
    label: str


@dataclass(frozen=True)
class TimelineChart:
    """All that is drawn."""

    seconds: int
    now: str
    now_x: str
    ticks: list[TimelineTick]
    rows: list[TimelineRow]
    more: int  # events that found no row


class _Scale:
    """Times to percent."""

    def __init__(self, now: str, seconds: int) -> None:
        self.now = words.epoch(now)
        self.end = self.now + round(seconds * _AHEAD)
        self.begin = self.end - seconds

    def at(self, time: float) -> float:
        return 100 * (time - self.begin) / (self.end - self.begin)

    def mark(self, time: str | None) -> str | None:
        """A moment, if it is in the window."""
        if not time or not self.begin <= words.epoch(time) <= self.end:
            return None
        return _percent(self.at(words.epoch(time)))

    def bar(self, begin: float, end: float) -> TimelineBar | None:
        """What of it is in the window."""
        if end < self.begin or begin > self.end:
            return None
        left, right = max(self.at(begin), 0.0), min(self.at(end), 100.0)
        return TimelineBar(_percent(left), _percent(max(right - left, _SEEN)))


def chart(events: Iterable[EventHistoryInfo], now: str, seconds: int) -> TimelineChart:
    """The window around `now`; what is coming or under way comes first."""
    scale = _Scale(now, seconds)
    drawn = [row for event in sorted(events, key=_order) if (row := _row(event, scale, now))]
    return TimelineChart(
        seconds=seconds,
        now=now,
        now_x=_percent(scale.at(scale.now)),
        ticks=_ticks(scale, seconds),
        rows=drawn[:ROWS],
        more=max(len(drawn) - ROWS, 0),
    )


def _order(event: EventHistoryInfo) -> tuple[int, int, str]:
    """What is under way, what is coming by its NotBefore, what is over from the latest on."""
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
    # What came without notice has none; what was cancelled at once is still seen.
    notice = scale.bar(created, until) if until > created or started is None else None
    impact = None
    if started is not None:
        impact = scale.bar(started, ended if ended is not None else scale.now)
    if not notice and not impact:
        return None
    return TimelineRow(
        event=event,
        machines=words.names(event.resources),
        notice=notice,
        impact=impact,
        approved=scale.mark(event.approved_at),
        not_before=None if event.cancelled or event.started_at else scale.mark(event.not_before),
        state=state(event),
        title=_title(event, now),
    )


def state(event: EventHistoryInfo) -> str:
    """In a word."""
    if event.cancelled:
        return "cancelled"
    if event.ended_at:
        return "over"
    return "under way" if event.started_at or event.status == "Started" else "coming"


def _title(event: EventHistoryInfo, now: str) -> str:
    """The row in a sentence, for who points at it or has it read aloud."""
    parts = [f"announced {words.moment(event.created_at, now)}"]
    if event.approved_at:
        parts.append(f"approved {words.moment(event.approved_at, now)}")
    if event.started_at:
        parts.append(f"started {words.moment(event.started_at, now)}")
    elif event.not_before and not event.cancelled:
        parts.append(f"not before {words.moment(event.not_before, now)}")
    if event.ended_at:
        verb = "cancelled" if event.cancelled else "over"
        parts.append(f"{verb} {words.moment(event.ended_at, now)}")
    return f"{event.type} of {words.names(event.resources)}: {', '.join(parts)}"


def _ticks(scale: _Scale, seconds: int) -> list[TimelineTick]:
    step = _STEPS[seconds]
    first = -(-scale.begin // step) * step
    return [
        TimelineTick(_percent(scale.at(time)), f"{time // 3600 % 24:02d}:{time // 60 % 60:02d}")
        for time in range(first, scale.end + 1, step)
    ]


def _percent(value: float) -> str:
    return f"{value:.2f}%"
