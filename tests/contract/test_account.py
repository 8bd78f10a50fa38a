"""A busy fleet: what each command journals and changes, field by field, as `account.txt` tells it.

`pytest tests/contract --rewrite` writes it; review the diff.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.commands import (
    AbortRollout,
    AddMachines,
    Command,
    Configure,
    CreateScope,
    CreateSet,
    Degrade,
    Delete,
    DeleteSet,
    Evict,
    Fail,
    JoinSet,
    Maintain,
    OperateInstances,
    PauseRollout,
    Poll,
    ProtectInstances,
    Recommend,
    Redeploy,
    Remove,
    Restart,
    ResumeRollout,
    Scale,
    Start,
    StartRollout,
    Stop,
    UpdateMachine,
    UpdateSet,
    UpgradeInstances,
    Write,
)
from fairwarning.core.errors import Refused
from fairwarning.core.model import (
    EvictionPolicy,
    ImpactKind,
    Machine,
    Priority,
    Rules,
    ScaleInRule,
    ScopeKind,
    UpgradeMode,
)
from tests.contract.transcript import since_start
from tests.contract.units import DAY, HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness, all_entities

FILE = Path(__file__).parent / "account.txt"
RULES = Rules(approve_redeploy=True, impact_limit_seconds=5000)
LATE = Rules(impact_limit_seconds=20)  # the simulated impacts take longer
AV = "av0", "av1", "av2"


def _machine(name: str, domain: int = 0, **more: Any) -> Machine:  # noqa: ANN401  (any field)
    return Machine(name=name, update_domain=domain, **more)


STEPS: list[Command | int | str] = [  # seconds to wait, or a machine whose driver fails from now on
    # A machine with everything.
    CreateScope(
        scope="vm",
        kind=ScopeKind.STANDALONE,
        group="rg",
        rules=RULES,
        machines=(
            _machine(
                "vm", host="h1", address="10.0.0.4", subnet="10.0.0.0/29", size="S", tags={"a": "b"}
            ),
        ),
        actor="ada",
    ),
    Poll(scope="vm", actor="vm"),
    UpdateMachine(scope="vm", machine="vm", size="L", address="10.0.0.5", terminate_seconds=300),
    UpdateMachine(scope="vm", machine="vm", tags={"c": "d"}),
    Redeploy(scope="vm", machines=("vm",), operation="approved", actor="ben", request="PUT vm"),
    HOUR,
    Degrade(scope="vm", machines=("vm",), operation="worn", not_before=int(NOON) + DAY),
    Restart(scope="vm", machines=("vm",), operation="in the way"),
    Stop(scope="vm", machines=("vm",), operation="off"),
    MINUTE,
    Start(scope="vm", machines=("vm",), operation="on"),
    MINUTE,
    Delete(scope="vm", machines=("vm",), operation="gone"),
    HOUR,
    # Machines in three update domains.
    CreateScope(
        scope="av",
        kind=ScopeKind.AVAILABILITY_SET,
        machines=(_machine("av0", host="h1"), _machine("av1", 1, host="h2")),
    ),
    AddMachines(scope="av", machines=(_machine("av2", 2, host="h3"), _machine("av3"))),
    Poll(scope="av"),
    Restart(scope="av", machines=("av0", "av3"), operation="both"),
    Delete(scope="av", machines=("av3",), operation="one of them"),
    HOUR,
    Restart(scope="av", machines=AV[:2], operation="restart"),
    Fail(scope="av", machines=("av2",), operation="broken"),
    HOUR,
    # A rollout over two scopes: waves, a pause, and an end before its time.
    CreateScope(
        scope="solo", kind=ScopeKind.CLOUD_SERVICE, machines=(_machine("solo", host="h2"),)
    ),
    StartRollout(rollout="up", scopes=("av", "solo"), by_host=True, batch=1, actor="eve"),
    PauseRollout(rollout="up"),
    20 * MINUTE,
    ResumeRollout(rollout="up"),
    AbortRollout(rollout="up"),
    HOUR,
    StartRollout(
        rollout="all",
        scopes=("av", "solo"),
        kind=ImpactKind.REBOOT,
        duration_seconds=60,
        halt_percent=50,
        operation="key",
        request="rollout all",
    ),
    3 * HOUR,
    # A driver that is late.
    Configure(scope="solo", rules=LATE),
    Maintain(scope="solo", machines=("solo",), operation="slow", kind=ImpactKind.REBOOT),
    HOUR,
    # A rollout that comes while another domain is under maintenance.
    Maintain(scope="av", machines=("av1",), operation="by hand"),
    StartRollout(rollout="behind", scopes=("av",), hosts=("h1",)),
    HOUR,
    # Spot machines.
    CreateScope(
        scope="spot",
        kind=ScopeKind.STANDALONE,
        machines=(_machine("spot", priority=Priority.SPOT, eviction=EvictionPolicy.DELETE),),
    ),
    Poll(scope="spot"),
    Recommend(scope="spot", machines=("spot",), operation="advice"),
    Evict(scope="spot", machines=("spot",), operation="evicted"),
    MINUTE,
    # A scale set, and the resources that describe it.
    Write(resource="group::rg", name="rg", body="{}"),
    Write(
        resource="set:rg:web",
        name="web",
        group="rg",
        body="{}",
        set="web",
        within="group::rg",
        operation="write",
        follow=(
            CreateSet(
                set="web",
                name="www",
                group="rg",
                prefix="w",
                capacity=2,
                terminate_seconds=300,
                scale_in=ScaleInRule.NEWEST,
                update_domains=3,
                fault_domains=2,
                size="S",
                zones=("1", "2"),
                windows=True,
                tags={"a": "b"},
                flexible=True,
                subnet="10.1.0.0/24",
            ),
        ),
    ),
    Poll(scope="web/0"),
    UpdateSet(set="web", size="L", upgrade=UpgradeMode.MANUAL, rules=RULES),
    UpgradeInstances(set="web", instances=(1,)),
    ProtectInstances(set="web", instances=(0,), protected=False, shielded=True),
    JoinSet(set="web", scope="web/0", machine=_machine("db", size="S"), resource="vm:rg:db"),
    OperateInstances(set="web", operation="restart web", action=Restart),
    Scale(set="web", operation="scale in", capacity=2),
    Scale(set="web", operation="scale out", capacity=3),
    OperateInstances(set="web", operation="one fewer", action=Delete, instances=(3,)),
    HOUR,
    CreateSet(
        set="cheap",
        capacity=1,
        priority=Priority.SPOT,
        eviction=EvictionPolicy.DELETE,
        upgrade=UpgradeMode.AUTOMATIC,
        rules=RULES,
    ),
    UpdateSet(set="cheap", tags={"a": "b"}, scale_in=ScaleInRule.OLDEST, renewed=True),
    "www_1",
    DeleteSet(set="web", operation="kept"),
    10 * MINUTE,
    "",
    Remove(
        resource="set:rg:web",
        operation="remove",
        follow=(DeleteSet(set="web", operation="remove"),),
    ),
    HOUR,
    # A machine whose network interface goes with it, after a driver that failed.
    Write(resource="nic:rg:nic", name="nic", group="rg", body="{}"),
    Write(
        resource="vm:rg:db",
        name="db",
        group="rg",
        body="{}",
        scope="db",
        machine="db",
        uses=("nic:rg:nic",),
        owns=("nic:rg:nic",),
        follow=(CreateScope(scope="db", kind=ScopeKind.STANDALONE, machines=(_machine("db"),)),),
    ),
    "db",
    Remove(
        resource="vm:rg:db",
        operation="first",
        follow=(Delete(scope="db", machines=("db",), operation="first"),),
    ),
    Remove(resource="group::rg", operation="group", awaits=("vm:rg:db",)),
    MINUTE,
    "",
    Remove(
        resource="vm:rg:db",
        operation="second",
        follow=(Delete(scope="db", machines=("db",), operation="second"),),
    ),
    MINUTE,
    # A rollout that waits for a window.
    Configure(scope="av", rules=Rules(maintenance_window="Daily 23:00Z PT1H")),
    StartRollout(rollout="night", scopes=("av",), hosts=("h1", "h2")),
    HOUR,
    # A day later nobody polls.
    DAY,
]


# --- What has changed -----------------------------------------------------------------------------


def _shown(value: object) -> str:
    """A value without what is as usual, with short ids and times since noon."""
    if isinstance(value, type):
        return value.__name__
    if is_dataclass(value):
        parts = (f"{name}={_shown(part)}" for name, part in _unusual(value))
        return f"{type(value).__name__}({' '.join(parts)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_shown(key)}: {_shown(part)}' for key, part in value.items())}}}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, int | float) and value > NOON - DAY:
        return since_start(value)
    return re.sub(r"([0-9A-F]{4})[0-9A-F]{4}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", r"\1", str(value))


def _unusual(record: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401  (any record)
    for field in fields(record):
        value = getattr(record, field.name)
        usual = field.default if field.default_factory is MISSING else field.default_factory()
        if value != usual:
            yield field.name, value


def _differences(name: str, before: Any, after: Any) -> Iterator[str]:  # noqa: ANN401  (any value)
    if before is None or after is None:
        yield f"{name} = {_shown(after)}"
    elif isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            if before.get(key) != after.get(key):
                yield from _differences(f"{name}.{_shown(key)}", before.get(key), after.get(key))
    else:
        nested = [
            part.name for part in fields(after) if isinstance(getattr(after, part.name), Mapping)
        ]
        simple = [
            f"{part.name}={_shown(value)}"
            for part in fields(after)
            if part.name not in nested
            and (value := getattr(after, part.name)) != getattr(before, part.name)
        ]
        if simple:
            yield f"{name}: {' '.join(simple)}"
        for part in nested:
            yield from _differences(f"{name}.{part}", getattr(before, part), getattr(after, part))


def _account(harness: FleetHarness) -> Iterator[str]:
    """Run the steps; yield each with its journal lines and what it changed."""
    known: dict[Any, Any] = {}
    journaled = 0
    for step in STEPS:
        if isinstance(step, int):
            harness.advance(step)
            yield f"\n# {since_start(NOON + step)} later"
        elif isinstance(step, str):
            harness.driver.failing = {step: "no power"}
        else:
            yield f"\n# {_shown(step)}"
            try:
                harness.do(step)
            except Refused as refused:
                yield f"{refused.status} {refused}"
        entries = harness.journal()
        for line in (entry.line for entry in entries[journaled:]):
            kind, name = line.entity
            yield f"{since_start(line.at)} {line.actor} {kind.__name__}/{name} {_shown(line.fact)}"
        journaled = len(entries)
        entities = harness.run(all_entities(harness.store))
        for kind, name in sorted({*known, *entities}, key=lambda ref: (ref[0].__name__, ref[1])):
            before, after = known.get((kind, name)), entities.get((kind, name))
            if before != after:
                yield from _differences(f"{kind.__name__}/{name}", before, after)
        known = entities


@pytest.mark.spec("O7")
def test_what_each_command_changes(harness: FleetHarness, request: pytest.FixtureRequest) -> None:
    """Every field of every journal line and of every entity."""
    text = "\n".join(_account(harness)).strip() + "\n"
    if request.config.getoption("--rewrite", default=False):
        FILE.write_text(text, "utf-8")
    assert text == FILE.read_text("utf-8")
