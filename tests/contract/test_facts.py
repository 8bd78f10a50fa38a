"""What the journal says of a change: its fields, and who asked for it (O7, IC7)."""

import pytest

from fairwarning.core.commands import RecordDelivery, RecordRefusal, Restart
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.errors import Refused
from tests.fixtures.fleet import FleetHarness

pytestmark = pytest.mark.spec("O7")


def newest(harness: FleetHarness, kind: FactType) -> list[Fact]:
    """The facts of a type, in order."""
    return [entry.line.fact for entry in harness.journal() if entry.line.fact.type is kind]


def test_a_delivery(harness: FleetHarness) -> None:
    """It names the event, its readers and the operation; nothing is journaled once it has ended."""
    harness.availability_set("av", 2)
    harness.poll("av")
    harness.operate(Restart, "av", "av0", name="restart")
    event = harness.only_event("av").id
    before = harness.scope("av")
    harness.do(RecordDelivery(scope="av", event=event, machines=("av0", "av1")))
    expected = Fact(FactType.DELIVERED, event, ("av0", "av1"), "restart")
    assert newest(harness, FactType.DELIVERED) == [expected]
    assert harness.scope("av").incarnation == before.incarnation
    harness.cancel("av", "av0")
    harness.do(RecordDelivery(scope="av", event=event, machines=("av0",)))
    assert newest(harness, FactType.DELIVERED) == [expected]


def test_a_refused_approval(harness: FleetHarness) -> None:
    """It names the machine and the reason, and changes nothing."""
    harness.standalone("vm")
    before = harness.scope("vm")
    harness.do(RecordRefusal(scope="vm", machine="vm", reason="no header"))
    (fact,) = newest(harness, FactType.APPROVAL_REFUSED)
    assert fact == Fact(FactType.APPROVAL_REFUSED, machines=("vm",), detail="no header")
    harness.do(RecordRefusal(scope="vm", machine="gone", reason="no header"))
    assert newest(harness, FactType.APPROVAL_REFUSED) == [fact]
    assert harness.scope("vm") == before


def test_an_unknown_event_is_named(harness: FleetHarness) -> None:
    """The refusal shows the start of the id, and where the known ones are."""
    harness.make_enabled("vm")
    with pytest.raises(Refused, match=r"this scope has no event 'E{60}'; its document lists those"):
        harness.approve_as_machine("vm", "E" * 100)
