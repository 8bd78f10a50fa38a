"""Machines of several scopes on one host are hit together (E10)."""

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
from tests.contract.shortcuts import (
    HOUR,
    MINUTE,
    approve,
    begun,
    cancel,
    hit,
    hits,
    only,
    operate,
    polled,
    shown,
)
from tests.fixtures.fleet import NOON, FleetHarness

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
ABC = ("a", "b", "c")


def _roll(harness: FleetHarness, *scopes: str) -> None:
    harness.do(StartRollout(rollout="up", scopes=scopes, by_host=True))


def _wave(harness: FleetHarness) -> None:
    """Three machines, each a scope of its own, on one host; a rollout of that host."""
    polled(harness, *ABC, host="h")
    _roll(harness, *ABC)


def _statuses(harness: FleetHarness, *scopes: str) -> list[EventStatus]:
    return [event.status for scope in scopes for event in harness.events(scope)]


@pytest.mark.spec("E10")
def test_a_wave_starts_when_all_have_approved() -> None:
    """Each scope has an event of its own; the impact begins with the last of the approvals."""
    with FleetHarness() as harness:
        _wave(harness)
        assert len({only(harness, scope).id for scope in ABC}) == 3
        for scope in "ca":
            approve(harness, scope)
            harness.advance(60)
            assert _statuses(harness, *ABC) == [SCHEDULED] * 3
        assert hits(harness) == []
        approve(harness, "b")
        assert _statuses(harness, *ABC) == [STARTED] * 3
        assert begun(harness) == dict.fromkeys(ABC, 120)
        harness.advance(9)
        assert harness.rollout("up").status is RolloutStatus.DONE


@pytest.mark.spec("E10")
@pytest.mark.parametrize("approving", ["", "a", "bc"])
def test_a_wave_starts_at_not_before_otherwise(approving: str) -> None:
    """Whoever has not approved by NotBefore is not waited for; all are hit together."""
    with FleetHarness() as harness:
        _wave(harness)
        for scope in approving:
            approve(harness, scope)
        harness.advance(15 * MINUTE - 1)
        assert hits(harness) == []
        harness.advance(1)
        assert begun(harness) == dict.fromkeys(ABC, 15 * MINUTE)
        assert sorted(hit(harness)) == list(ABC)


@pytest.mark.spec("E10", "E1")
def test_the_longest_notice_counts_for_the_whole_wave() -> None:
    """All events of a wave share one NotBefore, so that nobody gets less than his notice."""
    with FleetHarness() as harness:
        for scope, seconds in (("a", 60), ("b", 600), ("c", 1)):
            harness.standalone(scope, host="h", rules=Rules(freeze_seconds=seconds))
            harness.poll(scope)
        _roll(harness, *ABC)
        assert {only(harness, scope).not_before for scope in ABC} == {NOON + 600}


@pytest.mark.spec("E10", "M15")
def test_a_scope_that_is_off_is_not_waited_for() -> None:
    """Nobody listens in one of three: the other two decide, and all three are hit together."""
    with FleetHarness() as harness:
        polled(harness, "a", "b", host="h")
        harness.standalone("c", host="h")
        _roll(harness, *ABC)
        assert hits(harness) == []
        approve(harness, "a")
        assert hits(harness) == []
        harness.advance(7)
        approve(harness, "b")
        assert begun(harness) == dict.fromkeys(ABC, 7)


@pytest.mark.spec("E10", "M15")
def test_a_wave_of_scopes_that_are_all_off_is_hit_at_once() -> None:
    """If nobody listens anywhere there is nothing to wait for."""
    with FleetHarness() as harness:
        for scope in ABC:
            harness.standalone(scope, host="h")
        _roll(harness, *ABC)
        assert begun(harness) == dict.fromkeys(ABC, 0)


@pytest.mark.spec("E10")
def test_a_scope_that_wakes_up_sees_the_wave_it_is_part_of() -> None:
    """Who first asks while a wave is announced sees it; his approval is not needed any more."""
    with FleetHarness() as harness:
        polled(harness, "a", host="h")
        harness.standalone("b", host="h")
        _roll(harness, "a", "b")
        (seen,) = harness.poll("b")["Events"]
        assert (seen["EventStatus"], seen["Resources"]) == ("Scheduled", ["b"])
        approve(harness, "b")  # allowed, of no effect
        assert hits(harness) == []
        approve(harness, "a")
        assert sorted(hit(harness)) == ["a", "b"]


@pytest.mark.spec("E10", "E5")
@pytest.mark.parametrize("approved_before", [True, False])
def test_a_machine_that_is_deleted_leaves_the_wave(approved_before: bool) -> None:
    """The others wait for one another, no longer for the one that is gone."""
    with FleetHarness() as harness:
        _wave(harness)
        if approved_before:
            approve(harness, "a")
        operate(harness, Delete, "b", "b", name="delete")
        harness.advance(30)
        assert not harness.exists("b")
        if not approved_before:
            approve(harness, "a")
        assert hit(harness) == ["b"]
        approve(harness, "c")
        assert sorted(hits(harness)[1:]) == [("a", ImpactKind.FREEZE), ("c", ImpactKind.FREEZE)]
        harness.advance(HOUR)
        rollout = harness.rollout("up")
        assert (rollout.done, rollout.skipped, progress(rollout)) == (2, 1, 1)


@pytest.mark.spec("E10", "E5")
def test_the_last_one_awaited_is_deleted() -> None:
    """If all others have approved, a wave starts when the one they waited for is gone."""
    with FleetHarness() as harness:
        _wave(harness)
        approve(harness, "a")
        approve(harness, "c")
        operate(harness, Delete, "b", "b", name="delete")
        assert sorted(hits(harness)) == [
            ("a", ImpactKind.FREEZE),
            ("b", ImpactKind.DELETE),
            ("c", ImpactKind.FREEZE),
        ]


@pytest.mark.spec("E10", "E5")
@pytest.mark.parametrize("approved_before", [True, False])
def test_a_wave_waits_for_those_who_got_new_notice(approved_before: bool) -> None:
    """One of a scope's two machines is deleted: the other is still hit together with the rest."""
    with FleetHarness() as harness:
        pair = tuple(Machine(name=name, host="h") for name in ("a0", "a1"))
        harness.do(CreateScope(scope="a", kind=ScopeKind.AVAILABILITY_SET, machines=pair))
        harness.poll("a")
        polled(harness, "b", host="h")
        _roll(harness, "a", "b")
        if approved_before:
            approve(harness, "a")
        operate(harness, Delete, "a", "a0", name="delete")
        assert shown(harness, "a") == {"a1": SCHEDULED}
        if not approved_before:
            approve(harness, "b")
            assert hit(harness) == ["a0"]
            approve(harness, "a", "a1")
        else:  # what was approved stays approved
            assert hit(harness) == ["a0"]
            approve(harness, "b")
        assert sorted(hit(harness)) == ["a0", "a1", "b"]


@pytest.mark.spec("E10")
@pytest.mark.parametrize("approving", ["", "a", "c", "ac"])
def test_cancelling_one_event_cancels_the_wave(approving: str) -> None:
    """Together or not at all: cancelled in one scope, a wave is off in all, approved or not."""
    with FleetHarness() as harness:
        _wave(harness)
        for scope in approving:
            approve(harness, scope)
        cancel(harness, "b", "b")
        assert _statuses(harness, *ABC) == []
        harness.advance(HOUR)
        assert hits(harness) == []
        assert harness.operation("up/0/0").status is OperationStatus.CANCELED
        assert harness.rollout("up").skipped == 3


@pytest.mark.spec("E10", "E7")
def test_aborting_the_rollout_cancels_the_wave() -> None:
    """An abort takes back the events in all scopes, approved or not."""
    with FleetHarness() as harness:
        _wave(harness)
        approve(harness, "a")
        approve(harness, "b")
        harness.do(AbortRollout(rollout="up"))
        assert _statuses(harness, *ABC) == []
        harness.advance(HOUR)
        assert hits(harness) == []
        assert harness.rollout("up").status is RolloutStatus.ABORTED


@pytest.mark.spec("E10", "E7")
def test_hosts_that_share_a_scope_take_turns() -> None:
    """Waves with a scope in common follow one another; those with none run side by side."""
    with FleetHarness() as harness:
        for scope, hosts in (("a", ("h1", "h2")), ("b", ("h2", "h3")), ("c", ("h4",))):
            machines = tuple(
                Machine(name=f"{scope}@{host}", host=host, update_domain=n)
                for n, host in enumerate(hosts)
            )
            harness.do(CreateScope(scope=scope, kind=ScopeKind.AVAILABILITY_SET, machines=machines))
            harness.poll(scope)
        _roll(harness, *ABC)
        assert [list(shown(harness, scope)) for scope in ABC] == [["a@h1"], [], ["c@h4"]]
        harness.advance(15 * MINUTE + 9)
        assert [list(shown(harness, scope)) for scope in ABC] == [["a@h2"], ["b@h2"], []]
        harness.advance(15 * MINUTE + 9)
        assert [list(shown(harness, scope)) for scope in ABC] == [[], ["b@h3"], []]


@pytest.mark.spec("E10")
def test_machines_of_one_name_on_one_host() -> None:
    """Scopes name their machines as they like: two called the same are both hit."""
    with FleetHarness() as harness:
        machine = (Machine(name="vm", host="h"),)
        for scope in ("a", "b"):
            harness.do(CreateScope(scope=scope, kind=ScopeKind.STANDALONE, machines=machine))
        _roll(harness, "a", "b")
        assert [(impact.scope, impact.machine) for impact in harness.driver.given] == [
            ("a", "vm"),
            ("b", "vm"),
        ]
        harness.advance(9)
        assert harness.rollout("up").done == 2


@pytest.mark.spec("E10", "E4")
def test_a_host_with_two_domains_of_a_scope_is_refused() -> None:
    """No wave hits two update domains of a scope at once."""
    with FleetHarness() as harness:
        machines = tuple(Machine(name=f"m{n}", host="h", update_domain=n) for n in (0, 1))
        harness.do(CreateScope(scope="a", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
        wish = StartRollout(rollout="up", scopes=("a",), by_host=True)
        assert harness.refusal(wish).code == "HostSpansDomains"


@pytest.mark.spec("E10")
def test_only_the_chosen_hosts_are_worked_on() -> None:
    """A rollout over hosts touches the machines on them, and no others."""
    with FleetHarness() as harness:
        for scope, host in (("a", "h1"), ("b", "h2"), ("c", "h2")):
            polled(harness, scope, host=host)
        harness.do(StartRollout(rollout="up", scopes=ABC, by_host=True, hosts=("h2",)))
        assert harness.events("a") == []
        assert {only(harness, scope).type for scope in "bc"} == {EventType.FREEZE}


@pytest.mark.spec("E10", "E9")
def test_a_wave_survives_a_restart() -> None:
    """Approvals given before a restart count after it."""
    with FleetHarness() as harness:
        _wave(harness)
        approve(harness, "a")
        harness.restart()
        approve(harness, "b")
        harness.do(PauseRollout(rollout="up"))
        harness.restart()
        assert hits(harness) == []
        approve(harness, "c")
        assert sorted(hit(harness)) == list(ABC)
