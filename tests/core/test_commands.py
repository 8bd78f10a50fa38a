"""Immutable records, and the validation of commands."""

from typing import Any

import pytest

from fairwarning.core.commands import (
    AddMachines,
    Command,
    Configure,
    CreateScope,
    CreateSet,
    Degrade,
    OperateInstances,
    Poll,
    Restart,
    StartRollout,
    validate,
)
from fairwarning.core.errors import Refused
from fairwarning.core.messages import MaintainForRollout
from fairwarning.core.model import Machine, Rules, ScopeKind, guid
from fairwarning.core.record import changed


def test_changed_refuses_an_unknown_field() -> None:
    """A misspelt field is an error, not a new field."""
    with pytest.raises(AttributeError):
        changed(Machine(name="a"), hots="h")
    with pytest.raises(AttributeError):
        changed(Rules(), reboot_second=1)


def test_changed_keeps_the_class() -> None:
    """A copy of a command has the same class."""
    command = MaintainForRollout(scope="s", operation="o", machines=("m",), lane="l")
    other = changed(command, lane="k")
    assert type(other) is MaintainForRollout
    assert other.lane == "k"


def test_ids_depend_on_their_parts() -> None:
    """The same parts give the same id; the same letters in other parts give another."""
    assert guid("a", "b") == guid("a", "b")
    assert len({guid("a", "b", "c"), guid("ab", "c"), guid("a", "bc"), guid("abc")}) == 4


def _machine(**parts: Any) -> AddMachines:  # noqa: ANN401  (deliberately invalid)
    return AddMachines(scope="s", machines=(Machine(**{"name": "m", **parts}),))


def _rules(**parts: Any) -> Configure:  # noqa: ANN401  (deliberately invalid)
    return Configure(scope="s", rules=Rules(**parts))


def _restart(**parts: Any) -> Restart:  # noqa: ANN401  (deliberately invalid)
    return Restart(**{"scope": "s", "operation": "o", "machines": ("m",), **parts})


NAN = float("nan")
INVALID: list[tuple[Command, str]] = [
    (_restart(scope=""), "scope must be"),
    (_restart(operation="a/b"), "without '/'"),
    (_restart(actor=""), "actor must be"),
    (_restart(machines=()), "1 to 200 different names"),
    (Poll(scope="s", at=NAN), "at must be"),
    (OperateInstances(set="s", operation="o", action=Degrade), "action must be"),
    (OperateInstances(set="s", operation="o", action=Restart, instances=()), "different whole"),
    (AddMachines(scope="s", machines=()), "1 to 200 machines"),
    (_machine(name=""), "whose name is"),
    *((_machine(name=name), "whose name is") for name in (".", "..", "a b", "a,b")),
    *((CreateSet(set=name, capacity=1), "set must be") for name in (".", "..", "a b", "a,b")),
    *((CreateScope(scope=name, kind=ScopeKind.STANDALONE, machines=()), "scope must be")
      for name in (".", "..", "a b")),
    *((_restart(operation=name), "operation must be") for name in (".", "..")),
    *((StartRollout(rollout=name, scopes=("a",)), "rollout must be") for name in (".", "..")),
    (_machine(update_domain=20), "whose update_domain is"),
    (_machine(instance=0), "whose instance is"),
    (_machine(model=1), "whose model is"),
    (_rules(idle_seconds=59), "whose idle_seconds is"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "text"), INVALID)
def test_invalid_commands(command: Command, text: str) -> None:
    """The refusal names the field and its allowed values, which `contract/fields.txt` lists."""
    with pytest.raises(Refused) as refused:
        validate(command)
    assert (refused.value.code, refused.value.status) == ("BadCommand", 400)
    assert text in refused.value.message
