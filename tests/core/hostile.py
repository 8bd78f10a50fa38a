"""Valid, invalid and hostile values for every field of every command."""

import sys
from dataclasses import MISSING, Field, fields
from typing import Any

from hypothesis import strategies as st

from fairwarning.core import commands
from fairwarning.core.commands import Command, CreateScope
from fairwarning.core.model import (
    EvictionPolicy,
    ImpactKind,
    Machine,
    Power,
    Priority,
    Rules,
    ScaleInRule,
    ScopeKind,
    UpgradeMode,
)
from tests.fixtures.fleet import NOON

Value = st.SearchStrategy[Any]

_HOSTILE_TEXT = [
    "", " ", "a ", "\ta", "a\0b", "a\nb", "\ud800", "\u202e", "\N{SNOWMAN}", "x" * 200, "x" * 201,
    "x" * 10_000, "../../etc", "a/b", "a:b", "web/0", "up/0", "'; drop table scope; --", "None",
]  # fmt: skip
_HOSTILE_NUMBERS = [
    0, -1, 1, 2**31, 2**63, 10**30, -(10**30), True, False, 0.0, -0.0, 1.5, 1e308,
    float("nan"), float("inf"), float("-inf"), 300, 299, 901, 10**400,
]  # fmt: skip
_HOSTILE_OBJECTS: list[object] = [
    None, (), ("",), (None,), ("a", "a"), ((("a",),),), [], ["av0"], {}, {"av0": 1}, set(), b"av0",
    object(), type, Command, ImpactKind.DELETE, "freeze", ScopeKind.PLACEMENT_GROUP, Rules(),
    Machine(name="m"), range(3), lambda: None, ("x" * 10_000,), tuple(str(n) for n in range(300)),
    (0, 0), (1.5,), (True,), (-1,), (10**30,), (float("nan"),),
]  # fmt: skip

hostile: Value = st.one_of(
    st.sampled_from(_HOSTILE_TEXT),
    st.sampled_from(_HOSTILE_NUMBERS),
    st.sampled_from(_HOSTILE_OBJECTS),
    st.text(max_size=20),
    st.integers(),
    st.floats(),
    st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5).map(
        lambda value: tuple(value) if isinstance(value, list) else value
    ),
)

_SCOPES = st.sampled_from(["av", "vm", "spot", "cloud", "web/0", "nowhere"])
_NAMES = [*(f"av{n}" for n in range(6)), "vm", "spot", "web_0", "web_1", "web_2", "role_IN_0", "no"]


def _tuples(strategy: Value, max_size: int = 4) -> Value:
    return st.lists(strategy, min_size=1, max_size=max_size, unique=True).map(tuple)


def _records(kind: type[Machine] | type[Rules], **valid: Value) -> Value:
    values = st.fixed_dictionaries(
        valid,
        optional={field.name: hostile for field in fields(kind) if field.name != "name"},
    )
    return values.map(lambda chosen: kind(**chosen))


_MACHINE_NAMES = st.sampled_from(["new", "newer", "newest", "av0"])
_MACHINES = (
    _MACHINE_NAMES.map(lambda name: Machine(name=name))
    | _records(Machine, name=_MACHINE_NAMES | hostile)
)  # fmt: skip
_RULES = st.just(Rules()) | _records(Rules)

_VALID: dict[str, Value] = {
    "actor": st.just("caller"),
    "request": st.sampled_from(["", "this", "that"]),
    "scope": _SCOPES,
    "set": st.sampled_from(["web", "none"]),
    "rollout": st.sampled_from(["up", "down"]),
    "lane": st.sampled_from(["up/0", "up/1", "down/0"]),
    "operation": st.sampled_from(["one", "two", "used", "ended"]),
    "machines": _tuples(st.sampled_from(_NAMES)),
    "rules": _RULES,
    "group": st.sampled_from(["", "rg"]),
    "at": st.none() | st.sampled_from([0.0, NOON, NOON + 1e6]),
    "before": st.sampled_from([0.0, NOON, NOON + 1e6]),
    "event": st.sampled_from(["{first}", "{last}", "0" * 36]),
    "events": st.sampled_from([("{first}",), ("{first}", "{last}"), ("{last}", "0" * 36)]),
    "machine": st.sampled_from(["av0", "vm", "no"]),
    "impact": st.sampled_from(["{impact}", "no"]),
    "error": st.sampled_from(["", "it broke", "caf\udce9", "a\0b"]),
    "reason": st.sampled_from(["", "no header", "caf\udce9", "a\0b"]),
    "not_before": st.none() | st.sampled_from([0, int(NOON) + 700, int(NOON) + 10**6]),
    "kind": st.sampled_from([ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY]),
    "duration_seconds": st.sampled_from([-1, 0, 5, 86_400]),
    "capacity": st.sampled_from([0, 1, 5, 120]),
    "name": st.sampled_from(["", "shown"]),
    "prefix": st.sampled_from(["", "host"]),
    "terminate_seconds": st.sampled_from([0, 300, 900]),
    "upgrade": st.sampled_from(UpgradeMode),
    "scale_in": st.sampled_from(ScaleInRule),
    "priority": st.sampled_from(Priority),
    "eviction": st.sampled_from(EvictionPolicy),
    "update_domains": st.sampled_from([1, 5, 20]),
    "fault_domains": st.sampled_from([1, 5, 20]),
    "instances": st.none() | _tuples(st.sampled_from([0, 1, 2, 7])),
    "action": st.sampled_from([commands.Restart, commands.Delete, commands.Evict]),
    "scopes": _tuples(_SCOPES),
    "hosts": st.none() | _tuples(st.sampled_from(["av-host0", "av-host1", "h"])),
    "halt_percent": st.sampled_from([None, 0, 100]),
    "batch": st.sampled_from([1, 2, 100]),
    "pause_seconds": st.sampled_from([0, 60, 86_400]),
    "upgrades": st.sampled_from(["", "web", "none"]),
    "power": st.sampled_from(Power),
    "size": st.sampled_from(["", "Standard_B1s"]),
    "zones": st.sampled_from([(), ("1",), ("1", "2", "3")]),
    "tags": st.sampled_from([{}, {"team": "web", "empty": ""}]),
    "subnet": st.sampled_from(["", "10.0.0.0/28", "10.0.0.0/29", "10.0.0.0/16"]),
    "address": st.sampled_from(["", "10.0.0.4", "10.0.0.9", "10.0.1.4", "fd00::4"]),
    "resource": st.sampled_from(["vm:rg:vm", "group::rg", "cs:rg:cloud", "vm:rg:none"]),
    "within": st.sampled_from(["", "group::rg", "group::none"]),
    "body": st.sampled_from(["{}", '{"a": 1}']),
    "others": st.sampled_from([(), ("vm:rg:vm",), ("vm:rg:none", "cs:rg:cloud")]),
    "entity": st.sampled_from(["Scope/vm", "Lane/none", "nonsense", "None/vm", "/"]),
    "uses": st.sampled_from([(), ("vm:rg:vm",), ("cs:rg:cloud", "vm:rg:none")]),
    "owns": st.sampled_from([(), ("vm:rg:vm",)]),
    "awaits": st.sampled_from([(), ("vm:rg:vm",), ("vm:rg:none",)]),
}


def _valid(kind: type[Command], field: "Field[Any]") -> Value:
    if field.name == "machines" and kind in {CreateScope, commands.AddMachines}:
        return _MACHINE_TUPLES
    if field.name == "machine" and kind is commands.JoinSet:
        return _MACHINES
    if field.name == "kind" and kind is CreateScope:
        return st.sampled_from(ScopeKind)
    if field.name == "at" and kind is commands.Write:
        return st.none() | st.sampled_from([0, 1, 2])
    if field.name == "follow":
        return st.lists(_FOLLOWING, max_size=3).map(tuple)
    if isinstance(field.default, bool):
        return st.booleans()
    return _VALID[field.name]


_FOLLOWING = st.sampled_from(
    [
        commands.Restart(scope="vm", operation="one", machines=("vm",)),
        commands.Delete(scope="av", operation="one", machines=("av4", "av5")),
        commands.Delete(scope="cloud", operation="ended", machines=("role_IN_0",)),
        commands.DeleteSet(set="web", operation="two"),
        commands.CreateSet(set="new", capacity=2),
        commands.Write(resource="vm:rg:none", body="{}", scope="av", machine="av0"),
        commands.Write(resource="vm:rg:vm", body="{}", scope="spot", machine="spot"),
        commands.Poll(scope="vm"),
        commands.AdvanceTime(scope="av"),
        commands.Command(),
    ]
)  # fmt: skip
_MACHINE_TUPLES = st.lists(_MACHINES, min_size=1, max_size=3).map(tuple)


@st.composite
def commands_of(draw: st.DrawFn, kind: type[Command]) -> Command:
    """A command of a kind: most fields are valid, some are hostile."""
    known = fields(kind)
    invalid = draw(st.sets(st.sampled_from([field.name for field in known]), max_size=2))
    values = {}
    for field in known:
        if field.name in invalid:
            values[field.name] = draw(hostile)
        elif _is_required(field) or draw(st.booleans()):
            values[field.name] = draw(_valid(kind, field))
    return kind(**values)


def _is_required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def every(kind: type[Command] = Command) -> list[type[Command]]:
    """All classes of commands and messages."""
    subclasses = [subclass for child in kind.__subclasses__() for subclass in every(child)]
    # A class with slots replaces one without, which exists until it is garbage-collected.
    is_current = getattr(sys.modules[kind.__module__], kind.__name__) is kind
    return [kind, *subclasses] if is_current else subclasses
