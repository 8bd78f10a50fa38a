"""The lanes of a rollout: how far each of them is, and what it waits for (O14)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from fairwarning.core import limits
from fairwarning.core.decision import FactType
from fairwarning.core.lanes import step_id
from fairwarning.core.lifecycle import domains_under_maintenance
from fairwarning.core.model import EventStatus, Lane, Ref, Rollout, RolloutStatus, Scope
from fairwarning.core.record import record
from fairwarning.core.rollout import lane_id
from fairwarning.service.fleet import Fleet
from fairwarning.service.listing.waiting import Moments, event_sentence, impact_sentence

_SENTENCES = 10  # about one rollout
_LINES = 100  # of a rollout, searched for who paused it


class LaneState(StrEnum):
    """How far a lane is."""

    DONE = "Done"
    IN_PROGRESS = "InProgress"
    DEFERRED = "Deferred"  # a machine of its next step is busy
    PAUSED = "Paused"  # between two steps
    NOT_STARTED = "NotStarted"


@record
class LaneSummary:
    """A lane. The steps of one that is done are no longer known."""

    number: int
    state: LaneState
    steps: tuple[Mapping[str, tuple[str, ...]], ...] = ()  # machines by scope
    position: int = 0  # of the step in progress, or of the next one
    waits_for: tuple[str, ...] = ()

    @property
    def scopes(self) -> list[str]:
        """The scopes of all steps."""
        return list(dict.fromkeys(scope for step in self.steps for scope in step))


async def read_lanes(fleet: Fleet, rollout: Rollout, numbers: Iterable[int]) -> list[LaneSummary]:
    """The lanes with these numbers."""
    numbers = list(numbers)
    refs: dict[int, Ref] = {
        number: (Lane, lane_id(rollout.id, number))
        for number in numbers
        if number in rollout.running or number >= rollout.next_lane
    }
    lanes = await fleet.reader.read_all(refs.values())
    started = [lane for lane in lanes.values() if isinstance(lane, Lane) and _is_started(lane)]
    scopes = await _scopes(
        fleet, {scope for lane in started for scope in lane.steps[lane.position]}
    )
    moments = Moments(fleet.clock.now())
    summaries = []
    for number in numbers:
        lane = lanes[refs[number]] if number in refs else None
        assert lane is None or isinstance(lane, Lane)
        summaries.append(_summary(rollout, number, lane, scopes, moments))
    return summaries


def _is_started(lane: Lane) -> bool:
    return lane.in_progress or lane.retry_at is not None


async def _scopes(fleet: Fleet, names: Iterable[str]) -> dict[str, Scope]:
    refs: list[Ref] = [(Scope, name) for name in names]
    entities = (await fleet.reader.read_all(refs)).values()
    return {scope.id: scope for scope in entities if isinstance(scope, Scope)}


def _summary(
    rollout: Rollout,
    number: int,
    lane: Lane | None,
    scopes: Mapping[str, Scope],
    moments: Moments,
) -> LaneSummary:
    state = _state(rollout, number, lane)
    if lane is None:
        return LaneSummary(number=number, state=state)
    return LaneSummary(
        number=number,
        state=state,
        steps=lane.steps,
        position=lane.position,
        waits_for=tuple(_awaited(rollout, state, lane, scopes, moments)),
    )


def _state(rollout: Rollout, number: int, lane: Lane | None) -> LaneState:
    if lane is None:
        return LaneState.DONE
    if number >= rollout.next_lane:
        return LaneState.NOT_STARTED
    if number in rollout.waiting:
        return LaneState.PAUSED
    return LaneState.IN_PROGRESS if lane.retry_at is None else LaneState.DEFERRED


# --- What a lane waits for -----------------------------------------------------------------------


def _awaited(
    rollout: Rollout,
    state: LaneState,
    lane: Lane,
    scopes: Mapping[str, Scope],
    moments: Moments,
) -> Iterator[str]:
    if state is LaneState.IN_PROGRESS:
        yield from _awaited_by_step(lane, scopes, moments)
    elif state is LaneState.DEFERRED:
        yield from _in_the_way(lane, scopes, moments)
    elif rollout.status is RolloutStatus.PAUSED:
        yield "the rollout to be resumed"
    elif rollout.status is RolloutStatus.RUNNING and state is LaneState.NOT_STARTED:
        yield f"one of the {len(rollout.running)} lanes in progress to end"


def _awaited_by_step(lane: Lane, scopes: Mapping[str, Scope], moments: Moments) -> Iterator[str]:
    """The events of the step that are scheduled, and its impacts in progress."""
    operation = step_id(lane)
    for name in lane.steps[lane.position]:
        if scope := scopes.get(name):
            for event in scope.events.values():
                if event.operation == operation and event.status is EventStatus.SCHEDULED:
                    yield event_sentence(scope, event, moments)
            impacts = [
                impact
                for impact in (*scope.impacts.values(), *scope.delayed.values())
                if impact.operation == operation and impact.in_progress
            ]
            if impacts:
                yield impact_sentence(scope, impacts, moments)


def _in_the_way(lane: Lane, scopes: Mapping[str, Scope], moments: Moments) -> Iterator[str]:
    """The events and impacts because of which the next step was deferred."""
    assert lane.retry_at is not None
    again = f"tried again at {moments.text(lane.retry_at)}"
    if lane.window_at is not None:
        yield _window_sentence(lane.window_at, moments)
        return
    sentences = dict.fromkeys(
        sentence
        for name, machines in lane.steps[lane.position].items()
        if (scope := scopes.get(name))
        for sentence in _obstacles(scope, machines, moments)
    )
    for sentence in sentences:
        yield f"{sentence}, which is in the way; {again}"
    if not sentences:
        yield f"its next step, {again}"


def _window_sentence(opens_at: float, moments: Moments) -> str:
    if not opens_at:
        return "a time when the maintenance windows of all its scopes are open; there is none"
    return f"the maintenance window, which opens at {moments.text(opens_at)}"


def _obstacles(scope: Scope, machines: Sequence[str], moments: Moments) -> Iterator[str]:
    if len(scope.events) >= limits.SCOPE_EVENTS:
        yield f"the end of one of the {len(scope.events)} events in scope {scope.id}"
        return
    for name in (*machines, *_in_other_domains(scope, machines)):
        impact = scope.impacts.get(name)
        if impact and impact.in_progress:
            yield impact_sentence(scope, [impact], moments)
        elif impact and impact.event in scope.events:
            yield event_sentence(scope, scope.events[impact.event], moments)


def _in_other_domains(scope: Scope, machines: Sequence[str]) -> Iterable[str]:
    """The machines of other update domains that the platform maintains, or is about to (IC6)."""
    own = {scope.machines[name].update_domain for name in machines if name in scope.machines}
    others = domains_under_maintenance(scope) - own
    for name, impact in scope.impacts.items():
        if impact.keeps_power and scope.machines[name].update_domain in others:
            yield name


# --- What a rollout waits for --------------------------------------------------------------------


async def waits_for(fleet: Fleet, rollout: Rollout) -> list[str]:
    """What a rollout waits for, the most serious first, in a few sentences."""
    if rollout.ended_at is not None:
        return []
    sentences = []
    if rollout.status is RolloutStatus.PAUSED:
        sentences.append(await _pause_sentence(fleet, rollout))
    lanes = await read_lanes(fleet, rollout, rollout.running)
    for state in (LaneState.DEFERRED, LaneState.IN_PROGRESS):
        sentences += [text for lane in lanes if lane.state is state for text in lane.waits_for]
    more = len(sentences) - _SENTENCES
    if more > 0:
        sentences = [*sentences[: _SENTENCES - 1], f"{more + 1} more events and impacts"]
    return sentences


async def _pause_sentence(fleet: Fleet, rollout: Rollout) -> str:
    lines = await fleet.reader.latest_lines(_LINES, entity=(Rollout, rollout.id))
    paused = (entry.line for entry in lines if entry.line.fact.type is FactType.ROLLOUT_PAUSED)
    line = next(paused, None)
    at = f" at {Moments(fleet.clock.now()).text(line.at)}" if line else ""
    if rollout.why:
        return f"the rollout to be resumed: it paused itself{at}, because {rollout.why}"
    by = f" by {line.actor}" if line else ""
    return f"the rollout to be resumed: it was paused{by}{at}"
