"""Whatever is submitted: it is done, or refused with a reason and nothing has changed (IS2)."""

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
from fairwarning.core.model import (
    Entity,
    Lane,
    Machine,
    Operation,
    Priority,
    Ref,
    Resource,
    Rollout,
    ScaleSet,
    Scope,
    ScopeKind,
)
from fairwarning.store import codec
from tests.core.hostile import commands_of, every, hostile
from tests.fixtures.fleet import FleetHarness

ABSTRACT = (
    Command, ScopeCommand, SetCommand, SetOperation, RolloutCommand, LaneCommand, Operate,
    ResourceCommand,
)  # fmt: skip
CONCRETE = [kind for kind in every() if not kind.internal and kind not in ABSTRACT]
INTERNAL = [kind for kind in every() if kind.internal]
EXAMPLES = settings().max_examples // 4  # 25, and many more with profile `explore`
CODE = re.compile(r"[A-Z][A-Za-z]+")


class Crowd:
    """A fleet with something of everything, made anew once it has been changed or has failed."""

    def __init__(self) -> None:
        self._harness: FleetHarness | None = None

    @contextmanager
    def harness(self) -> Iterator[FleetHarness]:
        """The fleet as it was made; put it back with `keep` if it still is."""
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
        """Nothing has changed."""
        self._harness = harness

    def close(self) -> None:
        """No more of it."""
        if self._harness is not None:
            self._harness.__exit__(None, None, None)


def _fill(harness: FleetHarness) -> None:
    harness.availability_set()
    harness.standalone()
    harness.standalone("spot", priority=Priority.SPOT, address="10.0.0.9")
    harness.do(CreateSet(set="web", capacity=3, terminate_seconds=300))
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
def crowd() -> Iterator[Crowd]:
    """One for all tests here: it takes longer to make than to use."""
    made = Crowd()
    yield made
    made.close()


def _state(harness: FleetHarness) -> tuple[object, ...]:
    """Everything there is to see."""
    entities = harness._runner.run(_entities(harness))
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
        list(harness.driver.given),
        harness.clock.now(),
    )


async def _entities(harness: FleetHarness) -> dict[Ref, Entity | None]:
    found: dict[Ref, Entity | None] = {}
    for kind in (Scope, ScaleSet, Operation, Rollout, Lane, Resource):
        names = await harness.store.list_ids(kind, "", 10_000)
        found.update(await harness.store.load([(kind, name) for name in names]))
    return found


def _fit(harness: FleetHarness, command: Command) -> Command:
    """Put ids of real events and impacts where the command asks for some."""
    events = harness.events("av")
    impact = harness.scope("av").impacts["av0"].id
    real = {"{first}": events[0].id, "{last}": events[-1].id.lower(), "{impact}": impact}

    def fit(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(fit(one) for one in value)
        return real.get(value, value) if isinstance(value, str) else value

    named = [one.name for one in fields(command) if one.name in {"event", "events", "impact"}]
    fitting: dict[str, Any] = {name: fit(getattr(command, name)) for name in named}
    return replace(command, **fitting)


def _check_refused(harness: FleetHarness, error: FairwarningError, before: object) -> None:
    assert isinstance(error, Refused), repr(error)
    assert CODE.fullmatch(error.code), error.code
    assert 0 < len(error.message) < 2_000
    assert 400 <= error.status < 500
    error.message.encode()  # whoever passes it on can do so
    assert _state(harness) == before
    assert harness.fleet.broken is None


def _check_storable(harness: FleetHarness) -> None:
    for (kind, _), entity in harness._runner.run(_entities(harness)).items():
        assert entity is not None
        text = codec.encode(entity)
        text.encode()
        back = codec.decode_entity(kind.__name__, text)
        if isinstance(entity, Scope):
            entity = replace(entity, machines={})  # noqa: PLW2901  (kept apart by stores)
        assert back == entity
    for entry in harness.journal():
        repr(entry).encode()
        (entry.line.actor + entry.line.fact.detail).encode()


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_done_or_refused(crowd: Crowd, kind: type[Command], data: st.DataObject) -> None:
    """It is done, soundly, or it is refused with a code and a reason, and nothing has changed."""
    with crowd.harness() as harness:
        command = _fit(harness, data.draw(commands_of(kind)))
        before = _state(harness)
        try:
            harness.do(command)
        except FairwarningError as error:
            _check_refused(harness, error, before)
            crowd.keep(harness)
        else:
            harness.advance(3 * 3600)  # what was accepted does no harm later on either
            assert harness.fleet.broken is None
            _check_storable(harness)


@pytest.mark.parametrize("kind", [*INTERNAL, *ABSTRACT], ids=lambda kind: kind.__name__)
def test_messages_are_refused_from_outside(crowd: Crowd, kind: type[Command]) -> None:
    """What scopes, sets and rollouts send each other cannot be submitted, nor can a base class."""
    right: dict[str, Any] = {"scope": "av", "set": "web", "rollout": "up", "lane": "up/0"}
    right |= {"operation": "new", "machines": ("av2",)}
    with crowd.harness() as harness:
        before = _state(harness)
        error = harness.refusal(kind(**{f.name: right.get(f.name, "x") for f in fields(kind)}))
        _check_refused(harness, error, before)
        assert error.code == "BadCommand"
        crowd.keep(harness)


@pytest.mark.parametrize("error", ["caf\udce9", "\ud800", "a\0b", "x" * 1000])
def test_whatever_a_driver_says_can_be_stored(crowd: Crowd, error: str) -> None:
    """A report is refused, or kept in a form that every store can hold."""
    with crowd.harness() as harness:
        impact = harness.scope("av").impacts["av0"]
        report = ReportImpact(scope="av", machine="av0", impact=impact.id, error=error)
        with suppress(Refused):
            harness.do(report)
        _check_storable(harness)


@settings(max_examples=4 * EXAMPLES, suppress_health_check=list(HealthCheck))
@given(value=hostile)
def test_what_is_no_command_is_refused(crowd: Crowd, value: object) -> None:
    """Anything that is not a command at all is refused as politely."""
    with crowd.harness() as harness:
        before = _state(harness)
        _check_refused(harness, harness.refusal(value), before)  # type: ignore[arg-type]
        crowd.keep(harness)


def test_every_message_is_marked() -> None:
    """A class of messages.py that outsiders could submit would be a hole."""
    there = [kind for kind in vars(messages).values() if isinstance(kind, type)]
    own = {k for k in there if issubclass(k, Command) and k.__module__ == messages.__name__}
    assert own == set(INTERNAL)
