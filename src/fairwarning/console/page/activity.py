"""The timeline page: what happened and will happen in any range of time (O8, O14)."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairwarning.console.api.filters import OVER, event_filter
from fairwarning.console.page.charts import density, timeline
from fairwarning.console.page.charts.density import Span
from fairwarning.console.page.charts.time_range import TimeRange, time_range
from fairwarning.console.page.charts.timeline import TimeScale
from fairwarning.console.page.request import PageContent, PageRequest, Views
from fairwarning.core.model import Event, EventStatus, Rollout, Scope
from fairwarning.core.rollout import rollout_of_step
from fairwarning.core.times import iso
from fairwarning.service.history.events import EventHistory
from fairwarning.service.listing.ended import allows
from fairwarning.service.listing.filters import EventFilter
from fairwarning.service.listing.recent import LINES, HistoryRange

FILTERS = ("set", "scope", "type", "machine", "rollout", "operation", "q")
_ROWS = 20
_DRAWN_AT_ONCE = 500  # events: on the event loop, in a millisecond or two

Events = list[tuple[EventHistory, Event | None]]


@dataclass(frozen=True)
class DensityChart:
    """How many machines start impact when."""

    bars: list[tuple[density.Bar, str, str]]  # with the time as text, and a link that zooms in
    step: int
    most: int
    done: int
    due: int


async def show(request: PageRequest) -> PageContent:
    """Show a range: impact over time, and events or groups of them."""
    range_ = time_range(request, FILTERS)
    scale = range_.scale
    await request.api.index.refresh()
    history = await request.api.recent.between(scale.begin, scale.end)
    wanted = event_filter(request.query, request.fleet.clock.now())
    events = await find_events(request, history, scale, wanted)
    query = {name: value for name, value in range_.values.items() if name in FILTERS}
    data = {
        "range": range_,
        "query": query,
        "field": lambda time: iso(time).removesuffix("Z"),
        "windows": timeline.WINDOWS,
        "density": await _density(request, range_, history, events),
        "chart": await timeline_chart(request, events, scale, _ROWS),
        "set_link": lambda group: range_.here(set=group.set, type=group.type),
        "read_from": iso(int(history.begins)) if history.begins > scale.begin else "",
        "lines": LINES,
    }
    return PageContent("activity.html", data)


async def find_events(
    request: PageRequest, history: HistoryRange, scale: TimeScale, wanted: EventFilter
) -> Events:
    """Return the events that existed within the range and that the filter allows."""
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
    return [
        (each, live[each.id][1] if each.id in live else None)
        for each, is_wanted in zip(every, shown, strict=True)
        if is_wanted
    ]


async def timeline_chart(
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
    seconds = request.query_integer("window")
    if seconds not in timeline.WINDOWS:
        seconds = timeline.DEFAULT_WINDOW
    scale = timeline.window(int(request.fleet.clock.now()), seconds)
    await request.api.index.refresh()
    history = await request.api.recent.between(scale.begin, scale.end)
    events = await find_events(request, history, scale, wanted)
    chart = await timeline_chart(request, events, scale, rows)
    return {"chart": chart, "windows": timeline.WINDOWS}


async def _density(
    request: PageRequest, range_: TimeRange, history: HistoryRange, events: Events
) -> DensityChart:
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
    return DensityChart(
        bars=[(bar, iso(bar.begin), range_.link(bar.begin, bar.end)) for bar in bars],
        step=step,
        most=max((bar.done + bar.due for bar in bars), default=0),
        done=sum(bar.done for bar in bars),
        due=sum(bar.due for bar in bars),
    )


VIEWS: Views = [("/timeline", show)]
