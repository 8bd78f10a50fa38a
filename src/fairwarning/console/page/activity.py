"""The timeline page: what happened and will happen in any range of time (O8, O14)."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any
from urllib.parse import urlencode

from fairwarning.console.api.filters import OVER, event_filter
from fairwarning.console.page import density, timeline
from fairwarning.console.page.density import Span
from fairwarning.console.page.request import PageContent, PageRequest
from fairwarning.console.page.timeline import TimeScale
from fairwarning.core.errors import Refused
from fairwarning.core.model import Event, EventStatus, Rollout, Scope
from fairwarning.core.rollout import rollout_of_step
from fairwarning.core.times import iso, parse_date
from fairwarning.service.history.events import EventHistory
from fairwarning.service.listing.ended import allows
from fairwarning.service.listing.filters import EventFilter
from fairwarning.service.listing.recent import LINES, HistoryRange

FILTERS = ("set", "scope", "type", "machine", "rollout", "operation", "q")
_ROWS = 20
_SHORTEST, _LONGEST = 60, 31 * 86400  # seconds of a range
_DRAWN_AT_ONCE = 500  # events: on the event loop, in a millisecond or two

Events = list[tuple[EventHistory, Event | None]]


@dataclass(frozen=True)
class TimeRange:
    """A range with links to others; `values` are the filters that the links keep."""

    values: Mapping[str, str]
    scale: TimeScale
    window: int  # seconds around now; 0: absolute

    def here(self, **changes: str) -> str:
        """Return the same range with other filters; an empty value leaves one out."""
        values = {name: value for name, value in {**self.values, **changes}.items() if value}
        if self.window:
            return _link({**values, "window": str(self.window)})
        return _link({**values, "from": iso(self.scale.begin), "to": iso(self.scale.end)})

    def link(self, begin: float, end: float) -> str:
        """Return the same page of another range."""
        return _link({**self.values, "from": iso(int(begin)), "to": iso(int(end))})

    def window_link(self, seconds: int) -> str:
        """Return the same page of a window around now."""
        return _link({**self.values, "window": str(seconds)})

    def links(self) -> list[tuple[str, str]]:
        """Return the ways to go on from here."""
        begin, end = self.scale.begin, self.scale.end
        half = (end - begin) / 2
        ways = [("Earlier", self.link(begin - half, end - half))]
        if half * 2 > _SHORTEST * 2:
            ways.append(("Zoom in", self.link(begin + half / 2, end - half / 2)))
        if half * 4 <= _LONGEST:
            ways.append(("Zoom out", self.link(begin - half, end + half)))
        return [*ways, ("Later", self.link(begin + half, end + half))]


def _link(values: Mapping[str, str]) -> str:
    return f"/timeline?{urlencode(values)}"


async def show(request: PageRequest) -> PageContent:
    """Show a range: impact over time, and events or groups of them."""
    range_ = _time_range(request)
    scale = range_.scale
    wanted = event_filter(request.query, request.fleet.clock.now())
    history, events = await _events(request, scale, wanted)
    data = {
        "range": range_,
        "field": lambda time: iso(time).removesuffix("Z"),
        "windows": timeline.WINDOWS,
        "density": await _density(request, range_, history, events),
        "chart": await _chart(request, events, scale, _ROWS),
        "set_link": lambda group: range_.here(set=group.set, type=group.type),
        "read_from": iso(int(history.begins)) if history.begins > scale.begin else "",
        "lines": LINES,
    }
    return PageContent("activity.html", data)


def _time_range(request: PageRequest) -> TimeRange:
    """Read the range of a query: `from` and `to`, or `window`."""
    values = {name: value for name in FILTERS if (value := request.query(name))}
    if request.query("from") or request.query("to"):
        if not (request.query("from") and request.query("to")):
            raise Refused("BadQuery", "from and to belong together")
        begin, end = (parse_date(request.query(name)) for name in ("from", "to"))
        if not _SHORTEST <= end - begin <= _LONGEST:
            raise Refused("BadQuery", "to must be a minute to 31 days after from")
        return TimeRange(values, TimeScale(begin, end, int(request.fleet.clock.now())), 0)
    scale = _window(request)
    return TimeRange(values, scale, scale.end - scale.begin)


def _window(request: PageRequest) -> TimeScale:
    """Return the window around now that the query asks for."""
    seconds = request.query_integer("window")
    if seconds not in timeline.WINDOWS:
        seconds = timeline.DEFAULT_WINDOW
    return timeline.window(int(request.fleet.clock.now()), seconds)


async def _events(
    request: PageRequest, scale: TimeScale, wanted: EventFilter
) -> tuple[HistoryRange, Events]:
    """Return the history of a range, and its events that the filter allows."""
    await request.api.index.refresh()
    history = await request.api.recent.between(scale.begin, scale.end)
    share = request.fleet.reader.share
    live = {event.id: (scope, event) for scope, event in request.api.index.events()}
    events = dict(history.events)

    def complete(place: tuple[Scope, Event]) -> None:
        scope, event = place
        events.setdefault(event.id, EventHistory(id=event.id, scope=scope.id)).complete_from(event)

    await share.map(complete, list(live.values()))

    def is_shown(each: EventHistory) -> bool:
        if each.created_at is None or (each.ended_at is None and each.id not in live):
            return False
        ends = scale.now if each.ended_at is None else each.ended_at
        ends = max(ends, each.not_before or 0) if each.started_at is None else ends
        if each.created_at > scale.end or ends < scale.begin:
            return False
        if each.id in live:
            return wanted.allows(*live[each.id])
        return wanted.status in {"", OVER} and allows(wanted, each)

    every = list(events.values())
    shown = await share.map(is_shown, every)
    return history, [
        (each, live[each.id][1] if each.id in live else None) for each in compress(every, shown)
    ]


async def _chart(
    request: PageRequest, events: Events, scale: TimeScale, rows: int
) -> timeline.TimelineChart:
    """Return a row for each event and each rollout, or for each set and type if there are many."""
    set_of = request.api.index.set_of

    def span(pair: tuple[EventHistory, Event | None]) -> Span:
        return timeline.span_of(*pair, set_of(pair[0].scope), scale.now)

    spans = await request.fleet.reader.share.map(span, events)
    names = {rollout_of_step(history.operation) for history, _ in events} - {""}
    rollouts = {name for name in names if await request.fleet.reader.read(Rollout, name)}
    draw = partial(timeline.chart, spans, scale, rows=rows, rollouts=rollouts)
    return draw() if len(spans) <= _DRAWN_AT_ONCE else await asyncio.to_thread(draw)


async def recent_timeline(request: PageRequest, wanted: EventFilter, rows: int) -> dict[str, Any]:
    """Return the timeline of the events around now that a filter allows, for other pages."""
    scale = _window(request)
    _, events = await _events(request, scale, wanted)
    chart = await _chart(request, events, scale, rows)
    return {"chart": chart, "windows": timeline.WINDOWS}


async def _density(
    request: PageRequest, range_: TimeRange, history: HistoryRange, events: Events
) -> dict[str, Any]:
    """Count the machines that start impact in each step of the range."""
    scale = range_.scale
    step = density.step_of(scale.end - scale.begin)
    done: Counter[int] = Counter()
    due: Counter[int] = Counter()

    def count(pair: tuple[EventHistory, Event | None]) -> None:
        each, live = pair
        for at in each.impact_began.values():
            done[int(at) // step * step] += 1
        if live and live.status is EventStatus.SCHEDULED and live.impact:
            due[max(live.not_before, scale.now) // step * step] += len(live.resources)

    await request.fleet.reader.share.map(count, events)
    if not any(request.query(name) for name in FILTERS):
        for at, _, machines in history.sudden:
            done[int(at) // step * step] += machines
    bars = density.bars(done, due, scale.begin, scale.end, step)
    return {
        # With the time as text, and a link that zooms in
        "bars": [(bar, iso(bar.begin), range_.link(bar.begin, bar.end)) for bar in bars],
        "step": step,
        "most": max((bar.done + bar.due for bar in bars), default=0),
        "done": sum(bar.done for bar in bars),
        "due": sum(bar.due for bar in bars),
    }


VIEWS = (("/timeline", show),)
