"""What a rollout waits for, in sentences about its lanes (O14)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fairwarning.core import limits
from fairwarning.core.decision import FactType
from fairwarning.core.lanes import step_id
from fairwarning.core.lifecycle import domains_under_maintenance
from fairwarning.core.model import (
    Event,
    EventStatus,
    Impact,
    Lane,
    Ref,
    Rollout,
    RolloutStatus,
    Scope,
)
from fairwarning.core.rollout import lane_id
from fairwarning.core.times import iso
from fairwarning.service.fleet import Fleet
from fairwarning.service.history.explanations import join_names

_SENTENCES = 10  # about one rollout
_LINES = 100  # of a rollout, searched for who paused it


def _time(moment: float, now: float) -> str:
    """The time of day, `20:36:00Z`, with the date unless it is that of now."""
    date, _, time = iso(int(moment)).partition("T")
    return time if iso(int(now)).startswith(date) else f"{date} {time}"


async def waits_for(fleet: Fleet, rollout: Rollout) -> list[str]:
    """What a rollout waits for, the most serious first, in a few sentences."""
    if rollout.ended_at is not None:
        return []
    sentences = []
    if rollout.status is RolloutStatus.PAUSED:
        sentences.append(await _pause_sentence(fleet, rollout))
    lanes = await _running_lanes(fleet, rollout)
    scopes = await _scopes(fleet, {scope for lane in lanes for scope in lane.steps[lane.position]})
    now = fleet.clock.now()
    for lane in lanes:
        if lane.retry_at is not None:
            sentences += _in_the_way(lane, lane.retry_at, scopes, now)
    for lane in lanes:
        if lane.retry_at is None:
            sentences += _awaited_by_step(lane, scopes, now)
    more = len(sentences) - _SENTENCES
    if more > 0:
        sentences = [*sentences[: _SENTENCES - 1], f"{more + 1} more events and impacts"]
    return sentences


async def _running_lanes(fleet: Fleet, rollout: Rollout) -> list[Lane]:
    """The lanes in progress, without those that are paused between two steps."""
    numbers = [number for number in rollout.running if number not in rollout.waiting]
    refs: list[Ref] = [(Lane, lane_id(rollout.id, number)) for number in numbers]
    entities = (await fleet.reader.read_all(refs)).values()
    return [lane for lane in entities if isinstance(lane, Lane)]


async def _scopes(fleet: Fleet, names: Iterable[str]) -> dict[str, Scope]:
    refs: list[Ref] = [(Scope, name) for name in names]
    entities = (await fleet.reader.read_all(refs)).values()
    return {scope.id: scope for scope in entities if isinstance(scope, Scope)}


async def _pause_sentence(fleet: Fleet, rollout: Rollout) -> str:
    lines = await fleet.reader.latest_lines(_LINES, entity=(Rollout, rollout.id))
    paused = (entry.line for entry in lines if entry.line.fact.type is FactType.ROLLOUT_PAUSED)
    line = next(paused, None)
    at = f" at {_time(line.at, fleet.clock.now())}" if line else ""
    if rollout.why:
        return f"the rollout to be resumed: it paused itself{at}, because {rollout.why}"
    by = f" by {line.actor}" if line else ""
    return f"the rollout to be resumed: it was paused{by}{at}"


def _awaited_by_step(lane: Lane, scopes: Mapping[str, Scope], now: float) -> Iterator[str]:
    """The events of the step that are scheduled, and its impacts in progress."""
    operation = step_id(lane)
    for name in lane.steps[lane.position]:
        if scope := scopes.get(name):
            for event in scope.events.values():
                if event.operation == operation and event.status is EventStatus.SCHEDULED:
                    yield _event_sentence(scope, event, now)
            impacts = [
                impact
                for impact in (*scope.impacts.values(), *scope.delayed.values())
                if impact.operation == operation and impact.in_progress
            ]
            if impacts:
                yield _impact_sentence(scope, impacts, now)


def _in_the_way(
    lane: Lane, retry_at: float, scopes: Mapping[str, Scope], now: float
) -> Iterator[str]:
    """The events and impacts because of which the next step was deferred."""
    again = f"tried again at {_time(retry_at, now)}"
    if lane.window_at is not None:
        yield _window_sentence(lane.window_at, now)
        return
    sentences = dict.fromkeys(
        sentence
        for name, machines in lane.steps[lane.position].items()
        if (scope := scopes.get(name))
        for sentence in _obstacles(scope, machines, now)
    )
    for sentence in sentences:
        yield f"{sentence}, which is in the way; {again}"
    if not sentences:
        yield f"its next step, {again}"


def _window_sentence(opens_at: float, now: float) -> str:
    if not opens_at:
        return "a time when the maintenance windows of all its scopes are open; there is none"
    return f"the maintenance window, which opens at {_time(opens_at, now)}"


def _obstacles(scope: Scope, machines: Sequence[str], now: float) -> Iterator[str]:
    if len(scope.events) >= limits.SCOPE_EVENTS:
        yield f"the end of one of the {len(scope.events)} events in scope {scope.id}"
        return
    for name in (*machines, *_in_other_domains(scope, machines)):
        impact = scope.impacts.get(name)
        if impact and impact.in_progress:
            yield _impact_sentence(scope, [impact], now)
        elif impact and impact.event in scope.events:
            yield _event_sentence(scope, scope.events[impact.event], now)


def _in_other_domains(scope: Scope, machines: Sequence[str]) -> Iterable[str]:
    """The machines of other update domains that the platform maintains, or is about to (IC6)."""
    own = {scope.machines[name].update_domain for name in machines if name in scope.machines}
    others = domains_under_maintenance(scope) - own
    for name, impact in scope.impacts.items():
        if impact.keeps_power and scope.machines[name].update_domain in others:
            yield name


def _event_sentence(scope: Scope, event: Event, now: float) -> str:
    """A scheduled event: when it starts, and whose approval it still needs."""
    text = f"{event.type} of {join_names(event.resources)} in scope {scope.id}"
    if event.approved_by and not event.awaits and now < event.opens_at:
        opens_at = _time(event.opens_at, now)
        return f"{text}, approved: starts when its maintenance window opens, at {opens_at}"
    until = _time(event.not_before, now)
    peers = f", approval in {join_names(event.awaits)}" if event.awaits else ""
    return f"{text}{peers}, until {until} at the latest"


def _impact_sentence(scope: Scope, impacts: Sequence[Impact], now: float) -> str:
    """Impacts in progress in one scope: until when they end or count as failed."""
    until = _time(max(impact.deadline or 0.0 for impact in impacts), now)
    names = join_names([impact.machine for impact in impacts])
    return f"the impact on {names} in scope {scope.id}, until {until} at the latest"
