"""Adding machines to a scope and removing them (M16, IL11)."""

import pytest

from fairwarning.core.commands import AddMachines, CreateScope, Delete, ProtectInstances
from fairwarning.core.decision import FactType
from fairwarning.core.model import Machine, ScopeKind
from tests.fixtures.fleet import FleetHarness

pytestmark = pytest.mark.spec("M16")


def _add(scope: str, *names: str) -> AddMachines:
    return AddMachines(scope=scope, machines=tuple(Machine(name=name) for name in names))


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (_add("av", "new", "av1"), "MachineExists"),
        (_add("vm", "second"), "FixedScope"),
        (_add("web/0", "web_9"), "FixedScope"),
        (_add("nowhere", "new"), "UnknownScope"),
        (_add("av", *(f"new{n}" for n in range(195))), "ScopeFull"),
    ],
)
def test_machines_that_cannot_be_added(
    harness: FleetHarness, command: AddMachines, code: str
) -> None:
    """Duplicates, a second standalone machine, set members and too many are refused."""
    harness.availability_set()
    harness.standalone()
    harness.make_scale_set(1)
    assert harness.refusal(command).code == code
    assert len(harness.machines("av")) == 6


def test_a_scope_has_at_most_two_hundred_machines(harness: FleetHarness) -> None:
    """A scope has at most two hundred machines."""
    harness.availability_set()
    harness.do(_add("av", *(f"new{n}" for n in range(194))))
    assert len(harness.machines("av")) == 200
    assert harness.refusal(_add("av", "one-too-many")).code == "ScopeFull"


def test_a_standalone_scope_ends_with_its_machine(harness: FleetHarness) -> None:
    """The scope is deleted with its machine, and its name can be used for a new scope."""
    for names in ("", "ab"):
        machines = tuple(Machine(name=name) for name in names)
        command = CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=machines)
        assert harness.refusal(command).code == "OneMachine"
    harness.make_enabled("vm")
    harness.operate(Delete, "vm", "vm", name="delete")
    harness.advance(30)
    assert not harness.exists("vm")
    assert harness.succeeded("delete")
    harness.standalone()
    assert not harness.scope("vm").enabled
    assert harness.poll("vm")["DocumentIncarnation"] == 1


def test_protecting_twice_is_journaled_once(harness: FleetHarness) -> None:
    """The journal records changes, not requests (IC7)."""
    harness.make_scale_set(1)
    for _ in range(2):
        harness.do(ProtectInstances(set="web", instances=(0,)))
    assert harness.facts(FactType.MACHINE_CHANGED) == [FactType.MACHINE_CHANGED]


def test_an_address_names_one_machine(harness: FleetHarness) -> None:
    """An address belongs to one machine until that machine is deleted."""
    harness.standalone("a", address="10.0.0.1")
    machine = Machine(name="b", address="10.0.0.1")
    command = CreateScope(scope="b", kind=ScopeKind.STANDALONE, machines=(machine,))
    error = harness.refusal(command)
    assert (error.code, error.status) == ("AddressTaken", 409)
    assert not harness.exists("b")
    harness.operate(Delete, "a", "a")
    harness.advance(30)
    harness.do(command)
