"""Any submitted command is carried out, or refused with a reason and without changes (IS2)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairwarning.core import messages
from fairwarning.core.commands import (
    Approve,
    Command,
    CreateScope,
    CreateSet,
    Delete,
    Drop,
    Evict,
    LaneCommand,
    Operate,
    OperateInstances,
    ReportImpact,
    ResourceCommand,
    Restart,
    RolloutCommand,
    ScopeCommand,
    SetCommand,
    SetOperation,
    StartRollout,
    Write,
)
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import Machine, Priority, Scope, ScopeKind
from fairwarning.store import codec
from tests.core.hostile import commands_of, every, hostile
from tests.fixtures.fleet import FleetHarness, all_entities

ABSTRACT = (
    Command, ScopeCommand, SetCommand, SetOperation, RolloutCommand, LaneCommand, Operate,
    ResourceCommand, Drop,
)  # fmt: skip
CONCRETE = [kind for kind in every() if not kind.internal and kind not in ABSTRACT]
INTERNAL = [kind for kind in every() if kind.internal]
EXAMPLES = settings().max_examples // 4  # 25, and many more with profile `explore`
CODE = re.compile(r"[A-Z][A-Za-z]+")


class ReusableFleet:
    """A fleet with every kind of entity, created again after a test has changed it."""

    def __init__(self) -> None:
        self._harness: FleetHarness | None = None

    @contextmanager
    def harness(self) -> Iterator[FleetHarness]:
        """The fleet in its initial state; return it with `keep` if it is unchanged."""
        harness, self._harness = self._harness, None
        if harness is None:
            harness = FleetHarness().__enter__()
            _fill(harness)
        try:
            yield harness
        finally:
            if self._harness is None:
                harness.__exit__(None, None, None)

    def keep(self, harness: FleetHarness) -> None:
        """Keep an unchanged fleet for the next test."""
        self._harness = harness

    def close(self) -> None:
        """Stop the fleet."""
        if self._harness is not None:
            self._harness.__exit__(None, None, None)


def _fill(harness: FleetHarness) -> None:
    harness.availability_set()
    harness.standalone()
    harness.standalone("spot", priority=Priority.SPOT, address="10.0.0.9")
    harness.do(CreateSet(set="web", capacity=3, terminate_seconds=300, subnet="10.0.0.0/28"))
    role = Machine(name="role_IN_0", host="h")
    harness.do(CreateScope(scope="cloud", kind=ScopeKind.CLOUD_SERVICE, machines=(role,)))
    harness.do(Write(resource="group::rg", name="rg", body="{}"))
    harness.do(Write(resource="vm:rg:vm", name="vm", body="{}", scope="vm", machine="vm"))
    harness.do(Write(resource="cs:rg:cloud", name="cloud", body="{}", scope="cloud"))
    for scope in ("av", "spot", "web/0", "cloud"):
        harness.poll(scope)
    harness.do(Restart(scope="vm", operation="ended", machines=("vm",)))
    harness.advance(60)
    harness.do(Restart(scope="av", operation="used", machines=("av0", "av1", "av3")))
    harness.do(Approve(scope="av", events=(harness.events("av")[0].id,)))
    harness.do(Evict(scope="spot", operation="evict", machines=("spot",)))
    harness.do(OperateInstances(set="web", operation="shrink", action=Delete, instances=(1,)))
    harness.do(StartRollout(rollout="up", scopes=("av", "cloud"), batch=1))


@pytest.fixture(scope="module")
def reusable() -> Iterator[ReusableFleet]:
    """A fleet for all tests of this module, because creating one is slow."""
    fleet = ReusableFleet()
    yield fleet
    fleet.close()


def _state(harness: FleetHarness) -> tuple[object, ...]:
    """The complete observable state."""
    entities = harness.run(all_entities(harness.store))
    documents = [
        published.body(version)
        for scope in ("av", "spot", "web/0", "cloud")
        if (published := harness.fleet.documents.get(scope))
        for version in ("2017-03-01", "2024-07-09")
    ]
    return (
        entities,
        documents,
        len(harness.journal()),
        list(harness.driver.impacts),
        harness.clock.now(),
    )


def _fit(harness: FleetHarness, command: Command) -> Command:
    """Replace placeholders with ids of real events and impacts."""
    events = harness.events("av")
    impact = harness.scope("av").impacts["av0"].id
    real = {"{first}": events[0].id, "{last}": events[-1].id.lower(), "{impact}": impact}

    def fit(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(fit(element) for element in value)
        return real.get(value, value) if isinstance(value, str) else value

    names = {field.name for field in fields(command)} & {"event", "events", "impact"}
    fitted: dict[str, Any] = {name: fit(getattr(command, name)) for name in names}
    return replace(command, **fitted)


def _check_refused(harness: FleetHarness, error: FairwarningError, before: object) -> None:
    assert isinstance(error, Refused), repr(error)
    assert CODE.fullmatch(error.code), error.code
    assert 0 < len(error.message) < 2_000
    assert 400 <= error.status < 500
    error.message.encode()  # no unpaired surrogates
    assert _state(harness) == before
    assert not harness.fleet.set_aside


def _check_storable(harness: FleetHarness) -> None:
    for (kind, _), entity in harness.run(all_entities(harness.store)).items():
        assert entity is not None
        text = codec.encode(entity)
        text.encode()
        decoded = codec.decode_entity(kind.__name__, text)
        if isinstance(entity, Scope):
            entity = replace(entity, machines={})  # noqa: PLW2901  (stores keep machines separately)
        assert decoded == entity
    for entry in harness.journal():
        repr(entry).encode()
        (entry.line.actor + entry.line.fact.detail).encode()


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_command_is_carried_out_or_refused(
    reusable: ReusableFleet, kind: type[Command], data: st.DataObject
) -> None:
    """A command is carried out, or refused with a code and a reason and without changes."""
    with reusable.harness() as harness:
        command = _fit(harness, data.draw(commands_of(kind)))
        before = _state(harness)
        try:
            harness.do(command)
        except FairwarningError as error:
            _check_refused(harness, error, before)
            reusable.keep(harness)
        else:
            harness.advance(3 * 3600)  # an accepted command must not fail later either
            assert not harness.fleet.set_aside
            _check_storable(harness)


@pytest.mark.parametrize("kind", [*INTERNAL, *ABSTRACT], ids=lambda kind: kind.__name__)
def test_internal_messages_are_refused(reusable: ReusableFleet, kind: type[Command]) -> None:
    """Internal messages and base classes cannot be submitted."""
    values: dict[str, Any] = {"scope": "av", "set": "web", "rollout": "up", "lane": "up/0"}
    values |= {"operation": "new", "machines": ("av2",)}
    with reusable.harness() as harness:
        before = _state(harness)
        names = [field.name for field in fields(kind)]
        error = harness.refusal(kind(**{name: values.get(name, "x") for name in names}))
        _check_refused(harness, error, before)
        assert error.code == "BadCommand"
        reusable.keep(harness)


@pytest.mark.parametrize("error", ["caf\udce9", "\ud800", "a\0b", "x" * 1000])
def test_any_driver_text_can_be_stored(reusable: ReusableFleet, error: str) -> None:
    """A report is refused, or stored in a form that every store supports."""
    with reusable.harness() as harness:
        impact = harness.scope("av").impacts["av0"]
        report = ReportImpact(scope="av", machine="av0", impact=impact.id, error=error)
        with suppress(Refused):
            harness.do(report)
        _check_storable(harness)


@settings(max_examples=4 * EXAMPLES, suppress_health_check=list(HealthCheck))
@given(value=hostile)
def test_an_object_that_is_no_command_is_refused(reusable: ReusableFleet, value: object) -> None:
    """Any object that is not a command is refused with a code and a reason."""
    with reusable.harness() as harness:
        before = _state(harness)
        _check_refused(harness, harness.refusal(value), before)  # type: ignore[arg-type]
        reusable.keep(harness)


def test_every_message_is_internal() -> None:
    """Every command class of messages.py is internal, so clients cannot submit it."""
    classes = [kind for kind in vars(messages).values() if isinstance(kind, type)]
    defined = {
        kind
        for kind in classes
        if issubclass(kind, Command) and kind.__module__ == messages.__name__
    }
    assert defined == set(INTERNAL)
