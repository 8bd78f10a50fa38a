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


def test_written_at_most_once_in_five_minutes() -> None:
    """However often machines ask, it is written down every five minutes and no more."""
    polls, posted = _polls()
    for second in range(1801):
        polls.seen(_scope("vm"), NOON + second)
    assert [poll.at for poll in posted] == [NOON + n * FIVE_MINUTES for n in range(7)]
    assert polls.last("vm") == NOON + 1800


def test_written_more_often_where_silence_is_short() -> None:
    """Who knows only what is written, another process or the next one, sees that it is in use."""
    polls, posted = _polls()
    restless = changed(_scope("vm"), rules=Rules(idle_seconds=60))
    for second in range(61):
        polls.seen(restless, NOON + second)
    assert [poll.at for poll in posted] == [NOON + n * 15 for n in range(5)]


def test_each_scope_by_itself() -> None:
    """One scope's polls do not keep another's from being written."""
    polls, posted = _polls()
    for scope in ("a", "b", "a", "b"):
        polls.seen(_scope(scope), NOON)
    assert [poll.scope for poll in posted] == ["a", "b"]


def test_what_is_on_record_is_not_written_again() -> None:
    """Whoever wrote it, before a restart or beside this process: five minutes count from there."""
    polls, posted = _polls()
    polls.seen(_scope("vm", polled_at=NOON), NOON + FIVE_MINUTES - 1)
    assert posted == []
    polls.recorded(_scope("vm", polled_at=NOON + FIVE_MINUTES - 1))
    assert polls.last("vm") == 0
    assert polls.unwritten() == []
    polls.seen(_scope("vm", polled_at=NOON), NOON + FIVE_MINUTES)
    assert [poll.at for poll in posted] == [NOON + FIVE_MINUTES]


def test_a_clean_stop_writes_the_rest() -> None:
    """What was kept back is known, and only that."""
    polls, _ = _polls()
    polls.seen(_scope("written"), NOON)
    polls.seen(_scope("kept"), NOON)
    polls.seen(_scope("kept"), NOON + 10)
    (rest,) = polls.unwritten()
    assert (rest.scope, rest.at) == ("kept", NOON + 10)


def test_who_fell_quiet_is_written_late() -> None:
    """Another process may switch the feature off a day after the last poll, and must know of it."""
    polls, posted = _polls()
    for scope in ("quiet", "asks"):
        polls.seen(_scope(scope, polled_at=NOON), NOON + 10)
    polls.seen(_scope("asks", polled_at=NOON), NOON + 200)
    polls.write_late(NOON + 200)
    assert posted == []
    polls.write_late(NOON + 200 + FIVE_MINUTES - 1)
    assert posted == []
    polls.seen(_scope("asks", polled_at=NOON + 400), NOON + 450)
    polls.write_late(NOON + 200 + FIVE_MINUTES)
    assert [(poll.scope, poll.at) for poll in posted] == [("quiet", NOON + 10)]
    polls.write_late(NOON + 200 + 2 * FIVE_MINUTES)
    assert [poll.scope for poll in posted] == ["quiet", "asks"]  # each once


def test_a_scope_that_is_forgotten() -> None:
    """Nothing is kept of a scope that is gone or off; polled again, it is written at once."""
    polls, posted = _polls()
    polls.seen(_scope("vm"), NOON)
    polls.seen(_scope("vm"), NOON + 1)
    polls.forget("vm")
    polls.forget("vm")
    assert polls.last("vm") == 0
    assert polls.unwritten() == []
    polls.seen(_scope("vm"), NOON + 2)
    assert len(posted) == 2


@pytest.mark.spec("X4")
def test_polls_of_a_fleet_cost_few_writes() -> None:
    """An hour of polls every second changes the scope a dozen times, not thousands."""
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
    """Asked for through both, the scope is written once in five minutes."""
    url = database_or_skip()
    vm = CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=(Machine(name="vm"),))
    async with (
        serving(PostgresStore(url), Never()) as one,
        serving(PostgresStore(url), Never()) as other,
    ):
        await one.submit(vm)
        enabled = (await one.poll("vm")).scope
        for fleet in (other, one, other):
            await fleet.poll("vm")
            await fleet.settled()
        assert enabled
        assert await other.reader.read(Scope, "vm") == enabled
