import pytest

from fairwarning.core.commands import Poll
from fairwarning.service.polls import Polls
from tests.bed import NOON, Bed

FIVE_MINUTES = 300

pytestmark = pytest.mark.spec("M14")


def _polls() -> tuple[Polls, list[Poll]]:
    posted: list[Poll] = []
    return Polls(posted.append), posted


def test_written_at_most_once_in_five_minutes() -> None:
    """However often machines ask, it is written down every five minutes and no more."""
    polls, posted = _polls()
    for second in range(1801):
        polls.seen("vm", NOON + second)
    assert [poll.at for poll in posted] == [NOON + n * FIVE_MINUTES for n in range(7)]
    assert polls.last("vm") == NOON + 1800


def test_each_scope_by_itself() -> None:
    """One scope's polls do not keep another's from being written."""
    polls, posted = _polls()
    for scope in ("a", "b", "a", "b"):
        polls.seen(scope, NOON)
    assert [poll.scope for poll in posted] == ["a", "b"]


def test_a_clean_stop_writes_the_rest() -> None:
    """What was kept back is known, and only that."""
    polls, _ = _polls()
    polls.seen("written", NOON)
    polls.seen("kept", NOON)
    polls.seen("kept", NOON + 10)
    (rest,) = polls.unwritten()
    assert (rest.scope, rest.at) == ("kept", NOON + 10)


def test_a_scope_that_is_forgotten() -> None:
    """Nothing is kept of a scope that is gone or off; polled again, it is written at once."""
    polls, posted = _polls()
    polls.seen("vm", NOON)
    polls.seen("vm", NOON + 1)
    polls.forget("vm")
    polls.forget("vm")
    assert polls.last("vm") == 0
    assert polls.unwritten() == []
    polls.seen("vm", NOON + 2)
    assert len(posted) == 2


def test_polls_of_a_fleet_cost_few_writes() -> None:
    """An hour of polls every second changes the scope a dozen times, not thousands."""
    with Bed() as bed:
        bed.standalone()
        bed.poll("vm")
        before = bed.scope("vm").version
        for _ in range(3600):
            bed.advance(1)
            bed.poll("vm")
        assert 11 <= bed.scope("vm").version - before <= 13
        assert bed.poll("vm") == {"DocumentIncarnation": 1, "Events": []}
