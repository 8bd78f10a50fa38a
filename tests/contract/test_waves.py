"""Machines of several scopes on one host are affected together (E10)."""

import pytest

from fairwarning.core.commands import (
    AbortRollout,
    CreateScope,
    Delete,
    PauseRollout,
    StartRollout,
)
from fairwarning.core.model import (
    EventStatus,
    EventType,
    ImpactKind,
    Machine,
    OperationStatus,
    RolloutStatus,
    Rules,
    ScopeKind,
)
from fairwarning.core.rollout import progress
from tests.contract.units import HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
ABC = ("a", "b", "c")


def _roll(harness: FleetHarness, *scopes: str) -> None:
    harness.do(StartRollout(rollout="up", scopes=scopes, by_host=True))


def _wave(harness: FleetHarness) -> None:
    """Create three standalone machines on one host, and a rollout of that host."""
    harness.make_enabled(*ABC, host="h")
    _roll(harness, *ABC)


def _statuses(harness: FleetHarness, *scopes: str) -> list[EventStatus]:
    return [event.status for scope in scopes for event in harness.events(scope)]


@pytest.mark.spec("E10")
def test_a_wave_starts_when_all_have_approved() -> None:
    """Each scope has its own event; the impacts begin with the last approval."""
    with FleetHarness() as harness:
        _wave(harness)
        assert len({harness.only_event(scope).id for scope in ABC}) == 3
        for scope in "ca":
            harness.approve(scope)
            harness.advance(60)
            assert _statuses(harness, *ABC) == [SCHEDULED] * 3
        assert harness.impacts() == []
        harness.approve("b")
        assert _statuses(harness, *ABC) == [STARTED] * 3
        assert harness.impact_times() == dict.fromkeys(ABC, 120)
        harness.advance(9)
        assert harness.rollout("up").status is RolloutStatus.DONE


@pytest.mark.spec("E10")
@pytest.mark.parametrize("approving", ["", "a", "bc"])
def test_a_wave_starts_at_not_before_otherwise(approving: str) -> None:
    """At NotBefore the wave starts without the missing approvals, for all together."""
    with FleetHarness() as harness:
        _wave(harness)
        for scope in approving:
            harness.approve(scope)
        harness.advance(15 * MINUTE - 1)
        assert harness.impacts() == []
        harness.advance(1)
        assert harness.impact_times() == dict.fromkeys(ABC, 15 * MINUTE)
        assert sorted(harness.impacted()) == list(ABC)


@pytest.mark.spec("E10", "E1")
def test_the_longest_notice_counts_for_the_whole_wave() -> None:
    """All events of a wave share one NotBefore, so that no scope gets too little notice."""
    with FleetHarness() as harness:
        for scope, seconds in (("a", 60), ("b", 600), ("c", 1)):
            harness.standalone(scope, host="h", rules=Rules(freeze_seconds=seconds))
            harness.poll(scope)
        _roll(harness, *ABC)
        assert {harness.only_event(scope).not_before for scope in ABC} == {NOON + 600}


@pytest.mark.spec("E10", "M15")
def test_a_scope_that_is_off_is_not_waited_for() -> None:
    """A disabled scope needs no approval; all three machines are affected together."""
    with FleetHarness() as harness:
        harness.make_enabled("a", "b", host="h")
        harness.standalone("c", host="h")
        _roll(harness, *ABC)
        assert harness.impacts() == []
        harness.approve("a")
        assert harness.impacts() == []
        harness.advance(7)
        harness.approve("b")
        assert harness.impact_times() == dict.fromkeys(ABC, 7)


@pytest.mark.spec("E10", "M15")
def test_a_wave_of_disabled_scopes_starts_at_once() -> None:
    """If all scopes are disabled, the wave starts at once."""
    with FleetHarness() as harness:
        for scope in ABC:
            harness.standalone(scope, host="h")
        _roll(harness, *ABC)
        assert harness.impact_times() == dict.fromkeys(ABC, 0)


@pytest.mark.spec("E10")
def test_a_scope_enabled_during_a_wave_sees_its_event() -> None:
    """A scope that is enabled during a wave sees its event, but its approval is not needed."""
    with FleetHarness() as harness:
        harness.make_enabled("a", host="h")
        harness.standalone("b", host="h")
        _roll(harness, "a", "b")
        (seen,) = harness.poll("b")["Events"]
        assert (seen["EventStatus"], seen["Resources"]) == ("Scheduled", ["b"])
        harness.approve("b")  # allowed, without effect
        assert harness.impacts() == []
        harness.approve("a")
        assert sorted(harness.impacted()) == ["a", "b"]


@pytest.mark.spec("E10", "E5")
@pytest.mark.parametrize("approved_before", [True, False])
def test_a_machine_that_is_deleted_leaves_the_wave(approved_before: bool) -> None:
    """The remaining scopes no longer wait for the deleted machine."""
    with FleetHarness() as harness:
        _wave(harness)
        if approved_before:
            harness.approve("a")
        harness.operate(Delete, "b", "b", name="delete")
        harness.advance(30)
        assert not harness.exists("b")
        if not approved_before:
            harness.approve("a")
        assert harness.impacted() == ["b"]
        harness.approve("c")
        assert sorted(harness.impacts()[1:]) == [("a", ImpactKind.FREEZE), ("c", ImpactKind.FREEZE)]
        harness.advance(HOUR)
        rollout = harness.rollout("up")
        assert (rollout.done, rollout.skipped, progress(rollout)) == (2, 1, 1)


@pytest.mark.spec("E10", "E5")
def test_a_wave_starts_when_the_last_awaited_machine_is_deleted() -> None:
    """If all others have approved, a wave starts when the last missing machine is deleted."""
    with FleetHarness() as harness:
        _wave(harness)
        harness.approve("a")
        harness.approve("c")
        harness.operate(Delete, "b", "b", name="delete")
        assert sorted(harness.impacts()) == [
            ("a", ImpactKind.FREEZE),
            ("b", ImpactKind.DELETE),
            ("c", ImpactKind.FREEZE),
        ]


@pytest.mark.spec("E10", "E5")
@pytest.mark.parametrize("approved_before", [True, False])
def test_a_wave_waits_for_scopes_with_new_notice(approved_before: bool) -> None:
    """If one of a scope's two machines is deleted, the other still takes part in the wave."""
    with FleetHarness() as harness:
        pair = tuple(Machine(name=name, host="h") for name in ("a0", "a1"))
        harness.do(CreateScope(scope="a", kind=ScopeKind.AVAILABILITY_SET, machines=pair))
        harness.poll("a")
        harness.make_enabled("b", host="h")
        _roll(harness, "a", "b")
        if approved_before:
            harness.approve("a")
        harness.operate(Delete, "a", "a0", name="delete")
        assert harness.statuses("a") == {"a1": SCHEDULED}
        if not approved_before:
            harness.approve("b")
            assert harness.impacted() == ["a0"]
            harness.approve("a", "a1")
        else:  # the approval stays valid
            assert harness.impacted() == ["a0"]
            harness.approve("b")
        assert sorted(harness.impacted()) == ["a0", "a1", "b"]


@pytest.mark.spec("E10")
@pytest.mark.parametrize("approving", ["", "a", "c", "ac"])
def test_cancelling_one_event_cancels_the_wave(approving: str) -> None:
    """Cancelling one event cancels the wave in all scopes, approved or not."""
    with FleetHarness() as harness:
        _wave(harness)
        for scope in approving:
            harness.approve(scope)
        harness.cancel("b", "b")
        assert _statuses(harness, *ABC) == []
        harness.advance(HOUR)
        assert harness.impacts() == []
        assert harness.operation("up/0/0").status is OperationStatus.CANCELED
        assert harness.rollout("up").skipped == 3


@pytest.mark.spec("E10", "E7")
def test_aborting_the_rollout_cancels_the_wave() -> None:
    """An abort cancels the events in all scopes, approved or not."""
    with FleetHarness() as harness:
        _wave(harness)
        harness.approve("a")
        harness.approve("b")
        harness.do(AbortRollout(rollout="up"))
        assert _statuses(harness, *ABC) == []
        harness.advance(HOUR)
        assert harness.impacts() == []
        assert harness.rollout("up").status is RolloutStatus.ABORTED


@pytest.mark.spec("E10", "E7")
def test_hosts_that_share_a_scope_take_turns() -> None:
    """Waves with a common scope run one after the other; other waves run in parallel."""
    with FleetHarness() as harness:
        for scope, hosts in (("a", ("h1", "h2")), ("b", ("h2", "h3")), ("c", ("h4",))):
            machines = tuple(
                Machine(name=f"{scope}@{host}", host=host, update_domain=n)
                for n, host in enumerate(hosts)
            )
            harness.do(CreateScope(scope=scope, kind=ScopeKind.AVAILABILITY_SET, machines=machines))
            harness.poll(scope)
        _roll(harness, *ABC)
        assert [list(harness.statuses(scope)) for scope in ABC] == [["a@h1"], [], ["c@h4"]]
        harness.advance(15 * MINUTE + 9)
        assert [list(harness.statuses(scope)) for scope in ABC] == [["a@h2"], ["b@h2"], []]
        harness.advance(15 * MINUTE + 9)
        assert [list(harness.statuses(scope)) for scope in ABC] == [[], ["b@h3"], []]


@pytest.mark.spec("E10")
def test_machines_of_one_name_on_one_host() -> None:
    """Machines with the same name in two scopes are both affected."""
    with FleetHarness() as harness:
        machine = (Machine(name="vm", host="h"),)
        for scope in ("a", "b"):
            harness.do(CreateScope(scope=scope, kind=ScopeKind.STANDALONE, machines=machine))
        _roll(harness, "a", "b")
        assert [(impact.scope, impact.machine) for impact in harness.driver.impacts] == [
            ("a", "vm"),
            ("b", "vm"),
        ]
        harness.advance(9)
        assert harness.rollout("up").done == 2


@pytest.mark.spec("E10", "E4")
def test_a_host_with_two_domains_of_a_scope_is_refused() -> None:
    """A wave that would affect two update domains of a scope is refused."""
    with FleetHarness() as harness:
        machines = tuple(Machine(name=f"m{n}", host="h", update_domain=n) for n in (0, 1))
        harness.do(CreateScope(scope="a", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
        command = StartRollout(rollout="up", scopes=("a",), by_host=True)
        assert harness.refusal(command).code == "HostSpansDomains"


@pytest.mark.spec("E10")
def test_only_the_chosen_hosts_are_affected() -> None:
    """A rollout over hosts affects only the machines on them."""
    with FleetHarness() as harness:
        for scope, host in (("a", "h1"), ("b", "h2"), ("c", "h2")):
            harness.make_enabled(scope, host=host)
        harness.do(StartRollout(rollout="up", scopes=ABC, by_host=True, hosts=("h2",)))
        assert harness.events("a") == []
        assert {harness.only_event(scope).type for scope in "bc"} == {EventType.FREEZE}


@pytest.mark.spec("E10", "E9")
def test_a_wave_survives_a_restart() -> None:
    """Approvals before a restart count after it."""
    with FleetHarness() as harness:
        _wave(harness)
        harness.approve("a")
        harness.restart()
        harness.approve("b")
        harness.do(PauseRollout(rollout="up"))
        harness.restart()
        assert harness.impacts() == []
        harness.approve("c")
        assert sorted(harness.impacted()) == list(ABC)
