import pytest

from fairwarning.core.commands import CreateScope, Poll
from fairwarning.core.model import Machine, Rules, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.service import polls as polls_module
from fairwarning.service.polls import STATEMENT_SCOPES, PollLog
from fairwarning.store.postgres.store import PostgresStore
from tests.bench.fleets import Never, serving
from tests.fixtures.fleet import NOON, FleetHarness
from tests.fixtures.postgres.database import database_or_skip

FIVE_MINUTES = 300

pytestmark = pytest.mark.spec("M14")


class RecordedPolls(PollLog):
    """A log of polls, and what it recorded and posted."""

    def __init__(self) -> None:
        self.posted: list[Poll] = []
        self.woken = 0
        super().__init__(self.posted.append, self._count)

    def _count(self) -> None:
        self.woken += 1

    def times(self) -> list[float]:
        """Take what waits to be recorded."""
        return list(self.take_waiting().values())


def _scope(name: str, polled_at: float = NOON - 1000) -> Scope:
    return Scope(id=name, kind=ScopeKind.STANDALONE, incarnation=1, polled_at=polled_at)


def test_polls_are_recorded_at_most_every_five_minutes() -> None:
    """Polls are recorded at most every five minutes, however often machines poll."""
    polls, recorded = RecordedPolls(), []
    for second in range(1801):
        polls.record(_scope("vm"), NOON + second)
        recorded += polls.times()
    assert recorded == [NOON + n * FIVE_MINUTES for n in range(7)]
    assert polls.last("vm") == NOON + 1800
    assert polls.posted == []


def test_polls_are_recorded_more_often_with_a_short_idle_limit() -> None:
    """With a short idle limit, polls are recorded more often, so that other processes know."""
    polls, recorded = RecordedPolls(), []
    scope = changed(_scope("vm", NOON - 20), rules=Rules(idle_seconds=60))
    for second in range(10):
        polls.record(scope, NOON + second)
        recorded += polls.times()
    assert recorded == [NOON]
    assert polls.posted == []


def test_scopes_are_recorded_together() -> None:
    """Polls that wait are recorded by one statement, each scope once; the writer is woken."""
    polls = RecordedPolls()
    for scope in ("a", "b", "a", "b"):
        polls.record(_scope(scope), NOON)
    assert polls.woken == 2
    assert polls.take_waiting() == {"a": NOON, "b": NOON}
    assert not polls.has_waiting


def test_a_statement_records_a_limited_number_of_scopes() -> None:
    """Commands wait for a statement, so a long list of polls takes several."""
    polls = RecordedPolls()
    for number in range(STATEMENT_SCOPES + 1):
        polls.record(_scope(f"vm-{number}"), NOON)
    assert len(polls.take_waiting()) == STATEMENT_SCOPES
    assert polls.take_waiting() == {f"vm-{STATEMENT_SCOPES}": NOON}


def test_polls_that_could_not_be_recorded_wait_again() -> None:
    """A newer poll of the same scope is not replaced by the older one."""
    polls = RecordedPolls()
    polls.record(_scope("a"), NOON)
    polls.record(_scope("b"), NOON)
    taken = polls.take_waiting()
    polls.record(_scope("a"), NOON + FIVE_MINUTES)
    polls.put_back(taken)
    assert polls.take_waiting() == {"a": NOON + FIVE_MINUTES, "b": NOON}


def test_a_poll_that_the_scope_includes_is_not_recorded() -> None:
    """The five minutes start at the scope's own time, also if another process wrote it."""
    polls = RecordedPolls()
    polls.record(_scope("vm", NOON), NOON + FIVE_MINUTES - 1)
    assert not polls.has_waiting
    polls.drop_stored(_scope("vm", NOON + FIVE_MINUTES - 1))
    assert polls.last("vm") == 0
    polls.record_all()
    assert not polls.has_waiting
    polls.record(_scope("vm", NOON), NOON + FIVE_MINUTES)
    assert polls.times() == [NOON + FIVE_MINUTES]


def test_the_last_poll_of_an_idle_scope_is_recorded() -> None:
    """The last poll of an idle scope is recorded, because other processes disable idle scopes."""
    polls = RecordedPolls()
    for scope in ("idle", "active"):
        polls.record(_scope(scope, NOON), NOON + 10)
    polls.record(_scope("active", NOON), NOON + 200)
    polls.record_idle(NOON + 200)
    assert not polls.has_waiting
    polls.record_idle(NOON + 200 + FIVE_MINUTES - 1)
    assert not polls.has_waiting
    polls.record(_scope("active", NOON + 400), NOON + 450)
    polls.record_idle(NOON + 200 + FIVE_MINUTES)
    assert polls.take_waiting() == {"idle": NOON + 10}
    polls.record_idle(NOON + 200 + 2 * FIVE_MINUTES)
    assert polls.take_waiting() == {"active": NOON + 450}  # each once
    polls.record_idle(NOON + 200 + 3 * FIVE_MINUTES)
    # Another process may have removed the scopes: nothing is remembered of them for ever (IC9).
    assert not polls._last
    assert not polls._recorded


def test_idle_scopes_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each heartbeat looks at some of them: a fleet may have a million (IB7)."""
    monkeypatch.setattr(polls_module, "_CHECKED_AT_ONCE", 2)
    polls = RecordedPolls()
    for number in range(5):
        polls.record(_scope(f"vm{number}", NOON), NOON + 10)
    recorded = []
    for _ in range(4):
        polls.record_idle(NOON + 10 + FIVE_MINUTES)
        recorded.append(len(polls.take_waiting()))
    assert recorded == [2, 2, 1, 0]


def test_a_dropped_scope() -> None:
    """A deleted or disabled scope is dropped; its next poll is recorded at once."""
    polls = RecordedPolls()
    polls.record(_scope("vm"), NOON)
    polls.forget("vm")
    polls.forget("vm")
    assert polls.last("vm") == 0
    assert not polls.has_waiting
    polls.record(_scope("vm"), NOON + 2)
    assert polls.times() == [NOON + 2]


def test_the_scope_itself_is_renewed_in_time() -> None:
    """Once a day a command renews a scope, at an age that differs from scope to scope."""
    polls = RecordedPolls()
    ages = []
    for name in (f"vm-{number}" for number in range(100)):
        for hours in range(24):
            polls.record(_scope(name, NOON), NOON + hours * 3600)
            if polls.posted:
                ages.append(hours)
                polls.posted.clear()
                break
    assert len(ages) == 100
    assert set(ages) == {13, 14, 15, 16, 17, 18}  # the first whole hour after 12 to 18


@pytest.mark.spec("X4", "X5")
def test_polls_of_a_fleet_change_no_scope() -> None:
    """Hours of polls are recorded, but neither decided nor journaled."""
    with FleetHarness() as harness:
        harness.standalone()
        harness.poll("vm")
        before, lines = harness.scope("vm"), len(harness.journal())
        for _ in range(660):
            harness.advance(60)
            harness.poll("vm")
        assert harness.scope("vm") == before
        assert len(harness.journal()) == lines
        assert harness.poll("vm") == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.spec("X5")
def test_a_recorded_poll_enables_nothing() -> None:
    """A scope that went off stays off until a machine polls again."""
    with FleetHarness() as harness:
        harness.standalone()
        harness.poll("vm")
        harness.advance(3600)
        harness.poll("vm")
        harness.advance(25 * 3600)
        assert not harness.scope("vm").enabled
        harness.do(Poll(scope="vm", at=harness.clock.now() - 1800))
        assert not harness.scope("vm").enabled
        harness.poll("vm")
        assert harness.scope("vm").enabled


@pytest.mark.spec("X1")
async def test_a_process_relies_on_the_polls_of_another() -> None:
    """What one process recorded, another knows; the scope is not changed for it."""
    url = database_or_skip()
    vm = CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=(Machine(name="vm"),))
    async with (
        serving(PostgresStore(url), Never()) as first,
        serving(PostgresStore(url), Never()) as second,
    ):
        await first.submit(vm)
        enabled = (await first.poll("vm")).scope
        assert enabled is not None
        later = changed(enabled, polled_at=enabled.polled_at - 1000)
        first.polls.record(later, first.clock.now())
        await first.settled()
        (polled_at,) = await second.polled_at([enabled])
        assert polled_at > enabled.polled_at
        assert await second.reader.read(Scope, "vm") == enabled
