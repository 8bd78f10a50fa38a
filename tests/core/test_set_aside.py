"""When due work on an entity that is set aside is tried again (IB1)."""

import pytest

from fairwarning.core import set_aside
from fairwarning.core.commands import Release
from fairwarning.core.decision import FactType
from fairwarning.core.messages import ReportBug
from fairwarning.core.model import Entity, Lane, Operation, Scope, ScopeKind, SetAside
from fairwarning.core.record import changed

pytestmark = pytest.mark.spec("X7")

SCOPE = Scope(id="s", kind=ScopeKind.STANDALONE)
LANE = Lane(id="r/0", rollout="r", number=0, steps=())
WAITING = changed(LANE, retry_at=5.0)
OPERATION = Operation(id="o", kind="Restart", actor="a", accepted_at=0)
REPORT = ReportBug(entity="Scope/s", reason="a bug", software="1.0")


@pytest.mark.parametrize(
    ("entity", "others"),
    [
        (SCOPE, (changed(SCOPE, retry_at=101.0),)),
        (WAITING, (changed(LANE, retry_at=101.0),)),
        (LANE, ()),
        (OPERATION, ()),
        (None, ()),
    ],
)
def test_work_is_due_after_the_pause(entity: Entity | None, others: tuple[Entity, ...]) -> None:
    """Only a scope, and a lane that waits, have work that becomes due."""
    decision = set_aside.decide(None, REPORT, entity, 100.0)
    assert decision.others == others
    assert [(fact.type, fact.detail) for fact in decision.facts] == [(FactType.SET_ASIDE, "a bug")]


def test_pauses_grow_up_to_five_minutes() -> None:
    """Twice as long after each failure; the first one keeps its time."""
    current: SetAside | None = None
    pauses = []
    for _ in range(11):
        decided = set_aside.decide(current, REPORT, SCOPE, 100.0).entity
        assert isinstance(decided, SetAside)
        current = decided
        pauses.append(current.retry_at - 100.0)
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert current
    assert (current.since, current.attempts, current.software) == (100.0, 11, "1.0")


def test_a_release_makes_work_due_now() -> None:
    """The entity is no longer set aside."""
    decided = set_aside.decide(None, Release(entity="Scope/s"), SCOPE, 7.0)
    assert (decided.entity, decided.others) == (None, (changed(SCOPE, retry_at=7.0),))


def test_work_that_cannot_be_moved_is_not_counted_twice() -> None:
    """What is due on an entity that does not exist is tried again before its time."""
    first = set_aside.decide(None, REPORT, None, 100.0).entity
    assert isinstance(first, SetAside)
    assert set_aside.decide(first, REPORT, None, first.retry_at - 0.5).entity is first
    again = set_aside.decide(first, REPORT, None, first.retry_at).entity
    assert isinstance(again, SetAside)
    assert again.attempts == 2
