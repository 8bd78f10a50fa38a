"""The expectations of scenario steps, about machines, sets, rollouts and operations."""

from collections.abc import Callable, Mapping
from typing import Any

from fairwarning.core.configuration import (
    ConfigurationError,
    Read,
    at,
    describe,
    flag,
    list_of,
    table,
)
from fairwarning.core.errors import NotFound
from fairwarning.core.model import ImpactKind, OperationStatus, Power, RolloutStatus
from fairwarning.core.record import record
from fairwarning.guest.events import Event, EventSource, EventStatus, EventType
from fairwarning.testing.cloud import MachineHandle
from fairwarning.testing.handles import NEWEST
from fairwarning.testing.scenarios import values
from fairwarning.testing.scenarios.environment import ANSWERS, ScenarioEnvironment, poll

_TIMES = frozenset({"not_before", "duration"})  # seconds, shown in the format of scenarios


@record
class Expectation:
    """The values that each of the named objects must have."""

    subject: str  # one of `SUBJECTS`
    names: tuple[str, ...]
    expected: Mapping[str, Any]
    place: str  # in its step


@record
class UnmetExpectation:
    """A value that differs: the name of the object, the key, and both values."""

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
    "resources": list_of(values.name),
    "event": values.name,
}
_MACHINE: dict[str, Read] = {
    **_EVENT,
    "events": values.count,
    "sees": list_of(values.one_of(EventType)),
    "incarnation": values.count,
    "answer": values.one_of(ANSWERS),
    "version": values.version,
    "power": values.one_of(Power),
    "history": list_of(values.one_of(ImpactKind)),
    "gone": flag,
}
SUBJECTS: dict[str, dict[str, Read]] = {
    "machine": _MACHINE,
    "set": {"machines": list_of(values.name), "gone": flag},
    "rollout": {
        "status": values.one_of(RolloutStatus),
        **dict.fromkeys(("machines", "done", "failed", "skipped"), values.count),
    },
    "operation": {"status": values.one_of(OperationStatus)},
}
_PARAMETERS = frozenset({"version"})  # how to poll; expects nothing by itself


def read(raw: object) -> tuple[Expectation, ...]:
    """Read one expectation, or an array of them."""
    if not isinstance(raw, list):
        return (_read(raw, "expect"),)
    expectations = []
    for number, item in enumerate(raw, 1):
        with at(str(number)):
            expectations.append(_read(item, f"expect, {number}"))
    if not expectations:
        raise ConfigurationError("must not be empty")
    return tuple(expectations)


def _read(raw: object, place: str) -> Expectation:
    if not isinstance(raw, dict):
        allowed = "a table such as { machine = 'web', events = 0 }"
        raise ConfigurationError(f"must be {allowed}, not {describe(raw)}")
    subjects = [subject for subject in SUBJECTS if subject in raw]
    if len(subjects) != 1:
        raise ConfigurationError(f"must have exactly one of {', '.join(SUBJECTS)}")
    (subject,) = subjects
    expected = table(raw, {subject: values.one_or_more, **SUBJECTS[subject]}, subject)
    names = expected.pop(subject)
    if not expected.keys() - _PARAMETERS:
        raise ConfigurationError(f"must expect at least one of {', '.join(SUBJECTS[subject])}")
    return Expectation(subject=subject, names=names, expected=expected, place=place)


# --- Checks -------------------------------------------------------------------------------------


def first_unmet(
    environment: ScenarioEnvironment, expectation: Expectation
) -> UnmetExpectation | None:
    """Return the first value that differs from the expectation, if any."""
    check = _CHECKS[expectation.subject]
    for name in expectation.names:
        try:
            unmet = check(environment, name, expectation.expected)
        except NotFound as error:
            key, value = next(iter(expectation.expected.items()))
            unmet = UnmetExpectation(
                name=name, key=key, expected=_format(key, value), found=error.message
            )
        if unmet:
            return unmet
    return None


def _format(key: str, value: object) -> str:
    if key in _TIMES and isinstance(value, int):
        return repr(values.spelled(value))
    return values.shown(value)


def _compare(
    name: str, expected: Mapping[str, Any], actual: Mapping[str, object]
) -> list[UnmetExpectation]:
    """Return the values that differ, in the order of the file."""
    return [
        UnmetExpectation(
            name=name, key=key, expected=_format(key, value), found=_format(key, actual[key])
        )
        for key, value in expected.items()
        if key in actual and actual[key] != value
    ]


def _first(
    name: str, expected: Mapping[str, Any], actual: Mapping[str, object]
) -> UnmetExpectation | None:
    return next(iter(_compare(name, expected, actual)), None)


def _machine(
    environment: ScenarioEnvironment, name: str, expected: Mapping[str, Any]
) -> UnmetExpectation | None:
    machine = environment.machine(name)
    gone = not machine.exists
    state = {
        "gone": gone,
        "events": len(machine.events),
        "history": tuple(machine.history),
        "power": "gone" if gone else machine.power,
    }
    return (
        _first(name, expected, state)
        or _event(environment, machine, expected)
        or _document(machine, expected)
    )


def _event(
    environment: ScenarioEnvironment, machine: MachineHandle, expected: Mapping[str, Any]
) -> UnmetExpectation | None:
    """Return None if an event of the machine matches, else how the closest event differs."""
    event_keys = {key: value for key, value in expected.items() if key in _EVENT}
    if not event_keys:
        return None
    events = machine.events
    if not events:
        key, value = next(iter(event_keys.items()))
        return UnmetExpectation(
            name=machine.name, key=key, expected=_format(key, value), found="it has no event"
        )
    label = event_keys.get("event", "")
    unmet = {
        event.id: _compare(machine.name, event_keys, _event_values(environment, event, label))
        for event in events
    }
    closest = min(unmet, key=lambda id_: len(unmet[id_]))
    if label and not unmet[closest]:
        environment.events[label] = closest
    return next(iter(unmet[closest]), None)


def _event_values(environment: ScenarioEnvironment, event: Event, label: str) -> dict[str, object]:
    """Return an event with the keys of expectations. A new label matches any event."""
    labels = {id_: name for name, id_ in environment.events.items()}
    at_seconds = environment.since(event.not_before.timestamp()) if event.not_before else ""
    lasts = int(event.duration.total_seconds()) if event.duration is not None else values.UNKNOWN
    return {
        "type": str(event.type),
        "status": str(event.status),
        "source": str(event.source),
        "not_before": at_seconds,
        "duration": lasts,
        "description": event.description,
        "resources": event.resources,
        "event": labels.get(event.id, "another" if label in environment.events else label),
    }


def _document(machine: MachineHandle, expected: Mapping[str, Any]) -> UnmetExpectation | None:
    """Poll as the machine, and check its document; without such an expectation, do not poll."""
    key = next((key for key in expected if key in {"sees", "incarnation", "answer"}), "")
    if not key:
        return None
    answer, document = poll(machine, expected.get("version", NEWEST))
    if answer != expected.get("answer", "document"):
        return UnmetExpectation(
            name=machine.name,
            key=key,
            expected=_format(key, expected[key]),
            found=f"its poll was answered: {answer}",
        )
    sees = tuple(str(event.type) for event in document.events)
    return _first(machine.name, expected, {"sees": sees, "incarnation": document.incarnation})


def _set(
    environment: ScenarioEnvironment, name: str, expected: Mapping[str, Any]
) -> UnmetExpectation | None:
    try:
        scale_set = environment.scale_set(name)
    except NotFound:
        return _first(name, expected, {"gone": True, "machines": "the set is gone"})
    machines = tuple(machine.name for machine in scale_set.machines)
    return _first(name, expected, {"gone": False, "machines": machines})


def _rollout(
    environment: ScenarioEnvironment, name: str, expected: Mapping[str, Any]
) -> UnmetExpectation | None:
    state = environment.rollout(name).state
    counts = {key: getattr(state, key) for key in ("machines", "done", "failed", "skipped")}
    return _first(name, expected, {"status": state.status.value, **counts})


def _operation(
    environment: ScenarioEnvironment, name: str, expected: Mapping[str, Any]
) -> UnmetExpectation | None:
    for operation in environment.operation(name):
        if unmet := _first(name, expected, {"status": operation.status}):
            return unmet
    return None


_Check = Callable[[ScenarioEnvironment, str, Mapping[str, Any]], UnmetExpectation | None]
_CHECKS: dict[str, _Check] = {
    "machine": _machine,
    "set": _set,
    "rollout": _rollout,
    "operation": _operation,
}
