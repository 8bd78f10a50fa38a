import pytest

from fairwarning.core.commands import CreateScope, Poll
from fairwarning.core.model import Machine, Rules, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.service.polls import PollLog
from fairwarning.store.postgres.store import PostgresStore
from tests.bench.fleets import Never, serving
from tests.fixtures.fleet import NOON, FleetHarness
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.waiting import run_async

FIVE_MINUTES = 300

pytestmark = pytest.mark.spec("M14")


def _polls() -> tuple[PollLog, list[Poll]]:
    posted: list[Poll] = []
    return PollLog(posted.append), posted


def _scope(name: str, polled_at: float = 0.0) -> Scope:
    return Scope(id=name, kind=ScopeKind.STANDALONE, incarnation=1, polled_at=polled_at)


def test_polls_are_written_at_most_every_five_minutes() -> None:
    """Polls are written at most every five minutes, however often machines poll."""
    polls, posted = _polls()
    for second in range(1801):
        polls.record(_scope("vm"), NOON + second)
    assert [poll.at for poll in posted] == [NOON + n * FIVE_MINUTES for n in range(7)]
    assert polls.last("vm") == NOON + 1800


def test_polls_are_written_more_often_with_a_short_idle_limit() -> None:
    """With a short idle limit, polls are written more often, so that other processes know."""
    polls, posted = _polls()
    scope = changed(_scope("vm"), rules=Rules(idle_seconds=60))
    for second in range(61):
        polls.record(scope, NOON + second)
    assert [poll.at for poll in posted] == [NOON + n * 15 for n in range(5)]


def test_scopes_are_written_independently() -> None:
    """The polls of one scope do not delay those of another."""
    polls, posted = _polls()
    for scope in ("a", "b", "a", "b"):
        polls.record(_scope(scope), NOON)
    assert [poll.scope for poll in posted] == ["a", "b"]


def test_a_stored_poll_is_not_written_again() -> None:
    """The five minutes start at the stored poll, also if another process wrote it."""
    polls, posted = _polls()
    polls.record(_scope("vm", polled_at=NOON), NOON + FIVE_MINUTES - 1)
    assert posted == []
    polls.drop_stored(_scope("vm", polled_at=NOON + FIVE_MINUTES - 1))
    assert polls.last("vm") == 0
    assert polls.unwritten() == []
    polls.record(_scope("vm", polled_at=NOON), NOON + FIVE_MINUTES)
    assert [poll.at for poll in posted] == [NOON + FIVE_MINUTES]


def test_a_clean_stop_writes_the_rest() -> None:
    """A clean stop writes exactly the polls that are not written yet."""
    polls, _ = _polls()
    polls.record(_scope("written"), NOON)
    polls.record(_scope("kept"), NOON)
    polls.record(_scope("kept"), NOON + 10)
    (rest,) = polls.unwritten()
    assert (rest.scope, rest.at) == ("kept", NOON + 10)


def test_the_last_poll_of_an_idle_scope_is_written() -> None:
    """The last poll of an idle scope is written, because other processes disable idle scopes."""
    polls, posted = _polls()
    for scope in ("idle", "active"):
        polls.record(_scope(scope, polled_at=NOON), NOON + 10)
    polls.record(_scope("active", polled_at=NOON), NOON + 200)
    polls.write_idle(NOON + 200)
    assert posted == []
    polls.write_idle(NOON + 200 + FIVE_MINUTES - 1)
    assert posted == []
    polls.record(_scope("active", polled_at=NOON + 400), NOON + 450)
    polls.write_idle(NOON + 200 + FIVE_MINUTES)
    assert [(poll.scope, poll.at) for poll in posted] == [("idle", NOON + 10)]
    polls.write_idle(NOON + 200 + 2 * FIVE_MINUTES)
    assert [poll.scope for poll in posted] == ["idle", "active"]  # each once


def test_a_dropped_scope() -> None:
    """A deleted or disabled scope is dropped; its next poll is written at once."""
    polls, posted = _polls()
    polls.record(_scope("vm"), NOON)
    polls.record(_scope("vm"), NOON + 1)
    polls.forget("vm")
    polls.forget("vm")
    assert polls.last("vm") == 0
    assert polls.unwritten() == []
    polls.record(_scope("vm"), NOON + 2)
    assert len(posted) == 2


@pytest.mark.spec("X4")
def test_polls_of_a_fleet_cost_few_writes() -> None:
    """An hour of polls, one per second, changes the scope a dozen times."""
    with FleetHarness() as harness:
        harness.standalone()
        harness.poll("vm")
        before = harness.scope("vm").version
        for _ in range(3600):
            harness.advance(1)
            harness.poll("vm")
        assert 11 <= harness.scope("vm").version - before <= 13
        assert harness.poll("vm") == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.spec("X1")
@run_async
async def test_several_processes_write_no_more_than_one() -> None:
    """A scope that is polled through two processes is written once in five minutes."""
    url = database_or_skip()
    vm = CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=(Machine(name="vm"),))
    async with (
        serving(PostgresStore(url), Never()) as first,
        serving(PostgresStore(url), Never()) as second,
    ):
        await first.submit(vm)
        enabled = (await first.poll("vm")).scope
        for fleet in (second, first, second):
            await fleet.poll("vm")
            await fleet.settled()
        assert enabled
        assert await second.reader.read(Scope, "vm") == enabled
