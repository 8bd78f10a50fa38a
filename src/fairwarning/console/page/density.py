"""Counts over time, for the charts of the timeline. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairwarning.service.history.events import EventHistory

COLUMNS = 60  # of a strip
_STEPS = 60, 300, 900, 1800, 3600, 7200, 21600, 43200, 86400
_MOST_BARS = 96


class Span(NamedTuple):
    """An event in time: notice until it starts, then its impact."""

    history: EventHistory
    set: str
    created: float
    started: float | None
    ended: float  # or will start, or now
    state: str  # "scheduled", "in progress", "ended" or "cancelled"


@dataclass(frozen=True)
class Strip:
    """How many events there were at each time, as areas of 60 by 10; the impact is below."""

    notice: str
    impact: str
    most: int


@dataclass(frozen=True)
class Bar:
    """A bar of a chart: what has happened, and above it what is to come, in percent of the most."""

    begin: int  # time
    end: int
    done: int
    due: int
    x: str
    width: str
    done_height: float
    due_height: float


def strip(spans: Iterable[Span], begin: float, end: float) -> Strip:
    """Count events in notice and with an impact in progress, in each column of a range."""
    width = (end - begin) / COLUMNS
    changes = {"notice": [0] * (COLUMNS + 1), "impact": [0] * (COLUMNS + 1)}

    def add(what: str, since: float, until: float) -> None:
        if until < begin or since >= end:
            return
        changes[what][max(int((since - begin) // width), 0)] += 1
        changes[what][min(int((until - begin) // width) + 1, COLUMNS)] -= 1

    for span in spans:
        if span.started is None or span.started > span.created:
            add("notice", span.created, span.ended if span.started is None else span.started)
        if span.started is not None:
            add("impact", span.started, span.ended)
    notice, impact = (_sums(changes[what]) for what in ("notice", "impact"))
    both = [a + b for a, b in zip(notice, impact, strict=True)]
    most = max(*both, 1)
    return Strip(_area(both, most), _area(impact, most), most)


def _sums(changes: Sequence[int]) -> list[int]:
    total, sums = 0, []
    for change in changes[:-1]:
        total += change
        sums.append(total)
    return sums


def _area(counts: Sequence[int], most: int) -> str:
    """Return the path of an area; what is not zero can be seen."""
    if not any(counts):
        return ""
    path, before = "M0 10", 0
    for column, count in enumerate([*counts, 0]):
        if count != before:
            height = max(10 * count / most, 1.2) if count else 0
            path += f"H{column}V{10 - height:.3g}"
            before = count
    return f"{path}z"


def step_of(seconds: float) -> int:
    """Return how long a bar of a range is: a minute, if there are not too many."""
    return next((step for step in _STEPS if seconds / step <= _MOST_BARS), _STEPS[-1])


def bars(
    done: Mapping[int, int], due: Mapping[int, int], begin: int, end: int, step: int
) -> list[Bar]:
    """Return a bar for each step of a range; the counts are by the time at which a step begins."""
    times = range(begin // step * step, end, step)
    most = max([done.get(time, 0) + due.get(time, 0) for time in times], default=0) or 1
    length = end - begin
    return [
        Bar(
            begin=time,
            end=time + step,
            done=done.get(time, 0),
            due=due.get(time, 0),
            x=f"{100 * (time - begin) / length:.2f}%",
            width=f"{max(100 * step / length - 0.15, 0.2):.2f}%",
            done_height=_height(done.get(time, 0), most),
            due_height=_height(due.get(time, 0), most),
        )
        for time in times
    ]


def _height(count: int, most: int) -> float:
    return round(max(100 * count / most, 2), 1) if count else 0
