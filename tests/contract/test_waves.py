"""Machines of several scopes on one host are affected together (E10)."""

import pytest

from fairwarning.core.commands import CreateScope, Delete, StartRollout
from fairwarning.core.model import EventStatus, Machine, Rules, ScopeKind
from fairwarning.core.rollout import progress
from tests.contract.units import HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

pytestmark = pytest.mark.spec("E10")

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
ABC = ("a", "b", "c")


def _roll(harness: FleetHarness, *scopes: str) -> None:
    harness.do(StartRollout(rollout="up", scopes=scopes, by_host=True))


def _together(seconds: int) -> dict[str, int]:
    return dict.fromkeys(ABC, seconds)


CASES: dict[str, tuple[str, str, dict[str, int]]] = {
    "without approvals": ("abc", "", _together(900)),
    "without all approvals": ("abc", "approve b, approve c", _together(900)),
    "a scope that is off is not waited for": ("ab", "approve a, wait 7, approve b", _together(7)),
    "no scope is on": ("", "", _together(0)),
    "a scope that polls later is not waited for": (
        "ab",
        "poll c, approve c, approve b, wait 5, approve a",
        _together(5),
    ),
    "a machine is deleted": (
        "abc",
        "delete b, wait 30, approve a, wait 5, approve c",
        {"b": 0, "a": 35, "c": 35},
    ),
    "a machine is deleted after an approval": (
        "abc",
        "approve a, delete b, wait 30, approve c",
        {"b": 0, "a": 30, "c": 30},
    ),
    "the last that is awaited is deleted": (
        "abc",
        "approve a, approve c, wait 5, delete b",
        _together(5),
    ),
    "an event is cancelled": ("abc", "cancel b", {}),
    "an event is cancelled before its approval": ("abc", "approve a, approve c, cancel b", {}),
    "an approved event is cancelled": ("abc", "approve b, cancel b", {}),
    "the service is restarted": (
        "abc",
        "approve a, restart, approve b, restart, wait 5, approve c",
        _together(5),
    ),
}
"""Which scopes poll, what then happens, and when each machine has its impact, in seconds."""


def _take(harness: FleetHarness, verb: str, argument: str) -> None:
    if verb == "approve":
        harness.approve(argument)
    elif verb == "cancel":
        harness.cancel(argument, argument)
    elif verb == "delete":
        harness.operate(Delete, argument, argument, name="delete")
    elif verb == "poll":
        assert harness.poll(argument)["Events"][0]["Resources"] == [argument]
    elif verb == "wait":
        harness.advance(int(argument))
    else:
        harness.restart()


@pytest.mark.spec("M15", "E5", "E9")
@pytest.mark.parametrize("case", CASES)
def test_when_a_wave_starts(harness: FleetHarness, case: str) -> None:
    """Once all scopes that polled before it have approved, else at NotBefore; all together."""
    polled, steps, times = CASES[case]
    for scope in ABC:
        harness.standalone(scope, host="h")
    for scope in polled:
        harness.poll(scope)
    _roll(harness, *ABC)
    for step in filter(None, steps.split(", ")):
        verb, _, argument = step.partition(" ")
        _take(harness, verb, argument)
    harness.advance(HOUR)
    assert harness.impact_times() == times
    rollout = harness.rollout("up")
    skipped = steps.count("delete") if times else 3
    assert (rollout.skipped, progress(rollout)) == (skipped, 1)


@pytest.mark.spec("E1")
def test_the_longest_notice_counts_for_the_whole_wave(harness: FleetHarness) -> None:
    """All events of a wave share one NotBefore, so that no scope gets too little notice."""
    for scope, seconds in (("a", 60), ("b", 600), ("c", 1)):
        harness.standalone(scope, host="h", rules=Rules(freeze_seconds=seconds))
        harness.poll(scope)
    _roll(harness, *ABC)
    assert {harness.only_event(scope).not_before for scope in ABC} == {NOON + 600}


@pytest.mark.spec("E5")
@pytest.mark.parametrize("approved_before", [True, False])
def test_a_wave_waits_for_scopes_with_new_notice(
    harness: FleetHarness, approved_before: bool
) -> None:
    """If one of a scope's two machines is deleted, the other still takes part in the wave."""
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


@pytest.mark.spec("E4")
def test_a_host_with_two_domains_of_a_scope_is_refused(harness: FleetHarness) -> None:
    """A wave that would affect two update domains of a scope is refused."""
    machines = tuple(Machine(name=f"m{n}", host="h", update_domain=n) for n in (0, 1))
    harness.do(CreateScope(scope="a", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    command = StartRollout(rollout="up", scopes=("a",), by_host=True)
    assert harness.refusal(command).code == "HostSpansDomains"


@pytest.mark.spec("E7")
def test_hosts_that_share_a_scope_take_turns(harness: FleetHarness) -> None:
    """Waves with a common scope run one after the other; other waves run in parallel."""
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
