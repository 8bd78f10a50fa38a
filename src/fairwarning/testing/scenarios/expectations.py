"""What a step of a scenario may expect: of machines, sets, rollouts and operations."""

from collections.abc import Callable, Mapping
from typing import Any

from fairwarning.core.errors import NotFound
from fairwarning.core.model import ImpactKind, OperationStatus, Power, RolloutStatus
from fairwarning.core.record import record
from fairwarning.guest.events import Event, EventSource, EventStatus, EventType
from fairwarning.service.config.values import FleetFileError, Read, at, table
from fairwarning.testing.cloud import MachineHandle
from fairwarning.testing.handles import NEWEST
from fairwarning.testing.scenarios import values
from fairwarning.testing.scenarios.stage import ANSWERS, ScenarioStage, poll

_TIMES = frozenset({"not_before", "duration"})  # seconds, shown as scenarios write them


@record
class Expectation:
    """What is to hold of each of these."""

    subject: str  # one of `SUBJECTS`
    names: tuple[str, ...]
    wanted: Mapping[str, Any]
    place: str  # in its step


@record
class UnmetExpectation:
    """What does not hold: of which subject, which key, and what was found instead."""

    name: str
    key: str
    expected: str
    found: str


# --- Keys ---------------------------------------------------------------------------------------

_EVENT: dict[str, Read] = {
    "type": values.one_of(EventType),
    "status": values.one_of(EventStatus),
    "source": values.one_of(EventSource),
    "not_before": values.moment_or(""),
    "duration": values.moment_or(values.UNKNOWN),
    "description": values.text,
    "resources": values.list_of(values.name),
    "event": values.name,
}
_MACHINE: dict[str, Read] = {
    **_EVENT,
    "events": values.count,
    "sees": values.list_of(values.one_of(EventType)),
    "incarnation": values.count,
    "answer": values.one_of(ANSWERS),
    "version": values.version,
    "power": values.one_of(Power),
    "history": values.list_of(values.one_of(ImpactKind)),
    "gone": values.flag,
}
SUBJECTS: dict[str, dict[str, Read]] = {
    "machine": _MACHINE,
    "set": {"machines": values.list_of(values.name), "gone": values.flag},
    "rollout": {
        "status": values.one_of(RolloutStatus),
        **dict.fromkeys(("machines", "done", "failed", "skipped"), values.count),
    },
    "operation": {"status": values.one_of(OperationStatus)},
}
_NOTHING_EXPECTED = frozenset({"version"})  # it says how to ask


def read(raw: object) -> tuple[Expectation, ...]:
    """One, or an array of several."""
    if not isinstance(raw, list):
        return (_read(raw, "expect"),)
    found = []
    for number, one in enumerate(raw, 1):
        with at(str(number)):
            found.append(_read(one, f"expect, {number}"))
    if not found:
        raise FleetFileError("must expect something")
    return tuple(found)


def _read(raw: object, place: str) -> Expectation:
    if not isinstance(raw, dict):
        what = "a table such as { machine = 'web', events = 0 }"
        raise FleetFileError(f"must be {what}, not {values.shown(raw)}")
    subjects = [subject for subject in SUBJECTS if subject in raw]
    if len(subjects) != 1:
        raise FleetFileError(f"must be about exactly one of {', '.join(SUBJECTS)}")
    (subject,) = subjects
    given = table(raw, {subject: values.one_or_more, **SUBJECTS[subject]}, subject)
    names = given.pop(subject)
    if not given.keys() - _NOTHING_EXPECTED:
        raise FleetFileError(f"must expect something: {', '.join(SUBJECTS[subject])}")
    return Expectation(subject=subject, names=names, wanted=given, place=place)


# --- Looking ------------------------------------------------------------------------------------


def miss(stage: ScenarioStage, expectation: Expectation) -> UnmetExpectation | None:
    """The first thing that does not hold, if any."""
    look = _LOOKS[expectation.subject]
    for name in expectation.names:
        try:
            found = look(stage, name, expectation.wanted)
        except NotFound as error:
            key, value = next(iter(expectation.wanted.items()))
            found = UnmetExpectation(
                name=name, key=key, expected=_told(key, value), found=error.message
            )
        if found:
            return found
    return None


def _told(key: str, value: object) -> str:
    if key in _TIMES and isinstance(value, int):
        return repr(values.spelled(value))
    return values.shown(value)


def _differs(
    name: str, wanted: Mapping[str, Any], found: Mapping[str, object]
) -> list[UnmetExpectation]:
    """What is wanted and was found otherwise, in the order of the file."""
    return [
        UnmetExpectation(
            name=name, key=key, expected=_told(key, value), found=_told(key, found[key])
        )
        for key, value in wanted.items()
        if key in found and found[key] != value
    ]


def _first(
    name: str, wanted: Mapping[str, Any], found: Mapping[str, object]
) -> UnmetExpectation | None:
    return next(iter(_differs(name, wanted, found)), None)


def _machine(stage: ScenarioStage, name: str, wanted: Mapping[str, Any]) -> UnmetExpectation | None:
    machine = stage.machine(name)
    gone = not machine.exists
    state = {
        "gone": gone,
        "events": len(machine.events),
        "history": tuple(machine.history),
        "power": "gone" if gone else machine.power,
    }
    return (
        _first(name, wanted, state) or _event(stage, machine, wanted) or _document(machine, wanted)
    )


def _event(
    stage: ScenarioStage, machine: MachineHandle, wanted: Mapping[str, Any]
) -> UnmetExpectation | None:
    """Whether one of the events announced for it is as wanted; else how the nearest differs."""
    asked = {key: value for key, value in wanted.items() if key in _EVENT}
    if not asked:
        return None
    events = machine.events
    if not events:
        key, value = next(iter(asked.items()))
        found = "nothing is announced for it"
        return UnmetExpectation(name=machine.name, key=key, expected=_told(key, value), found=found)
    label = asked.get("event", "")
    misses = {one.id: _differs(machine.name, asked, _seen(stage, one, label)) for one in events}
    nearest = min(misses, key=lambda one: len(misses[one]))
    if label and not misses[nearest]:
        stage.events[label] = nearest
    return next(iter(misses[nearest]), None)


def _seen(stage: ScenarioStage, event: Event, label: str) -> dict[str, object]:
    """An event as expectations have it. A name that no event has had yet fits any."""
    known = {one: name for name, one in stage.events.items()}
    at_seconds = stage.since(event.not_before.timestamp()) if event.not_before else ""
    lasts = int(event.duration.total_seconds()) if event.duration is not None else values.UNKNOWN
    return {
        "type": str(event.type),
        "status": str(event.status),
        "source": str(event.source),
        "not_before": at_seconds,
        "duration": lasts,
        "description": event.description,
        "resources": event.resources,
        "event": known.get(event.id, "another" if label in stage.events else label),
    }


def _document(machine: MachineHandle, wanted: Mapping[str, Any]) -> UnmetExpectation | None:
    """What it reads, if that is wanted: to look is a poll."""
    key = next((key for key in wanted if key in {"sees", "incarnation", "answer"}), "")
    if not key:
        return None
    answer, document = poll(machine, wanted.get("version", NEWEST))
    if answer != wanted.get("answer", "document"):
        told = _told(key, wanted[key])
        return UnmetExpectation(
            name=machine.name, key=key, expected=told, found=f"its poll met: {answer}"
        )
    sees = tuple(str(event.type) for event in document.events)
    return _first(machine.name, wanted, {"sees": sees, "incarnation": document.incarnation})


def _set(stage: ScenarioStage, name: str, wanted: Mapping[str, Any]) -> UnmetExpectation | None:
    try:
        scale_set = stage.scale_set(name)
    except NotFound:
        return _first(name, wanted, {"gone": True, "machines": "the set is gone"})
    machines = tuple(machine.name for machine in scale_set.machines)
    return _first(name, wanted, {"gone": False, "machines": machines})


def _rollout(stage: ScenarioStage, name: str, wanted: Mapping[str, Any]) -> UnmetExpectation | None:
    state = stage.rollout(name).state
    counts = {key: getattr(state, key) for key in ("machines", "done", "failed", "skipped")}
    return _first(name, wanted, {"status": state.status.value, **counts})


def _operation(
    stage: ScenarioStage, name: str, wanted: Mapping[str, Any]
) -> UnmetExpectation | None:
    for operation in stage.operation(name):
        if found := _first(name, wanted, {"status": operation.status}):
            return found
    return None


_LOOKS: dict[str, Callable[[ScenarioStage, str, Mapping[str, Any]], UnmetExpectation | None]] = {
    "machine": _machine,
    "set": _set,
    "rollout": _rollout,
    "operation": _operation,
}
