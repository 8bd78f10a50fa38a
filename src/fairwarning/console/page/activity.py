"""The timeline page: what happened and will happen in any range of time (O8, O14)."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from fairwarning.console.api import views
from fairwarning.console.api.filters import event_filter
from fairwarning.console.page import density, timeline
from fairwarning.console.page.density import Span
from fairwarning.console.page.request import PageContent, PageRequest, Views
from fairwarning.console.page.time_range import TimeRange, time_range
from fairwarning.core.decision import FactType
from fairwarning.core.model import Event, EventStatus
from fairwarning.core.times import iso
from fairwarning.service.history.events import EventHistory
from fairwarning.service.listing.ended import allows
from fairwarning.service.listing.filters import EVERY_EVENT
from fairwarning.service.listing.recent import DAY_SECONDS, LINES, HistoryRange

FILTERS = ("set", "scope", "type", "machine", "rollout", "operation", "q")
_ROWS = 20
_NEWEST = 100  # events of which the rows are chosen, if they are not grouped
_UNPOLLED_STEP = 1800

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
    """Show a range: impact over time, events or groups of them, notice used, polls."""
    range_ = time_range(request, FILTERS)
    scale = range_.scale
    await request.api.index.refresh()
    history = await request.api.recent.between(scale.begin, scale.end)
    events = await _events(request, history, scale)
    tenths, uses = density.notice_use(history for history, _ in events)
    query = {name: value for name, value in range_.values.items() if name in FILTERS}
    data = {
        "range": range_,
        "query": query,
        "field": lambda time: iso(time + scale.offset).removesuffix("Z"),
        "offset": scale.offset,
        "windows": timeline.WINDOWS,
        "density": await _density(request, range_, history, events),
        "chart": await _chart(request, events, scale),
        "set_link": lambda group: range_.here(set=group.set, type=group.type),
        "tenths": tenths,
        "most_tenths": max(tenths) or 1,
        "uses": uses,
        "unpolled": await _unpolled(request),
        "read_from": iso(int(history.begins)) if history.begins > scale.begin else "",
        "lines": LINES,
    }
    return PageContent("activity.html", data)


async def _events(request: PageRequest, history: HistoryRange, scale: timeline.TimeScale) -> Events:
    """Return the events that existed within the range and that the filter allows."""
    live = {event.id: (scope.id, event) for scope, event in request.api.index.events()}
    wanted = event_filter(request.query, request.fleet.clock.now())
    events = dict(history.events)
    for name, (scope, event) in live.items():
        if name not in events:
            events[name] = EventHistory(id=name, scope=scope)
        events[name].complete_from(event)

    def is_shown(each: EventHistory) -> bool:
        if each.created_at is None or (each.ended_at is None and each.id not in live):
            return False
        ends = scale.now if each.ended_at is None else each.ended_at
        ends = max(ends, each.not_before or 0) if each.started_at is None else ends
        in_range = each.created_at <= scale.end and ends >= scale.begin
        return in_range and (wanted == EVERY_EVENT or allows(wanted, each))

    every = list(events.values())
    shown = await request.fleet.reader.share.map(is_shown, every)
    return [
        (each, live[each.id][1] if each.id in live else None)
        for each, is_wanted in zip(every, shown, strict=True)
        if is_wanted
    ]


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


async def _chart(
    request: PageRequest, events: Events, scale: timeline.TimeScale
) -> timeline.TimelineChart:
    """Return a row for each event, or for each set and type if there are too many."""
    if len(events) > _ROWS:
        index = request.api.index

        def span(pair: tuple[EventHistory, Event | None]) -> Span:
            return _span(pair[0], pair[1], index.set_of(pair[0].scope), scale)

        spans = await request.fleet.reader.share.map(span, events)
        groups = timeline.span_groups(spans, scale)
        if len(groups) > 1:
            return timeline.chart_of(groups, scale, _ROWS)
    newest = sorted(events, key=lambda pair: pair[1] is not None)[-_NEWEST:]
    infos = [views.event_history_info(*pair) for pair in newest]
    chart = timeline.chart(infos, scale, rows=_ROWS)
    return replace(chart, more=chart.more + len(events) - len(newest))


def _span(each: EventHistory, live: Event | None, set_: str, scale: timeline.TimeScale) -> Span:
    created = each.created_at or 0.0
    until = each.not_before if live and not each.started_at and each.not_before else scale.now
    ended = until if each.ended_at is None else each.ended_at
    return Span(set_, each.type or "", created, each.started_at, ended, _state(each, live))


def _state(each: EventHistory, live: Event | None) -> str:
    if each.ended_at is not None:
        return "cancelled" if each.ended is FactType.CANCELLED else "ended"
    started = each.started_at is not None or (live and live.status is EventStatus.STARTED)
    return "in progress" if started else "scheduled"


async def _unpolled(request: PageRequest) -> dict[str, Any]:
    """Return the chart of machines without polls, of the last day."""
    index, day = request.api.index, await request.api.recent.refresh()
    now = int(request.fleet.clock.now())
    begin = max(now - int(DAY_SECONDS), int(day.begins))
    scopes = index.scopes
    machines = sum(len(scopes[name].machines) for name in index.unpolled)
    unpolled = density.Unpolled(
        machines,
        now,
        _UNPOLLED_STEP,
        lambda name: len(scopes[name].machines) if name in scopes else 0,
        lambda name: name in scopes and scopes[name].enabled,
    )
    changes = [change for change in reversed(day.polling) if change[0] >= begin]
    await request.fleet.reader.share.map(unpolled.undo, changes)
    unpolled.go_back(begin)
    first = now - int(DAY_SECONDS)
    return {
        "now": machines,
        "bars": density.bars(unpolled.most, {}, first, now, _UNPOLLED_STEP),
        "most": max(unpolled.most.values()),
        "read_from": iso(begin) if begin > first else "",
    }


VIEWS: Views = [("/timeline", show)]
