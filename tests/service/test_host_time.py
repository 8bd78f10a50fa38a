"""Fleet time on a host whose clock is stepped, suspended or wrong at boot (E11)."""

import pytest

from fairwarning.service.host_time import HostClocks, HostTime
from tests.fixtures.fleet import NOON
from tests.service import clock_sequences
from tests.service.host_clocks import SteppedClocks

pytestmark = pytest.mark.spec("E11")

HOUR = 3600.0
NOTICE = 900.0


def _restarted(old: HostTime, clocks: SteppedClocks, last: float | None = None) -> HostTime:
    """The time of a new process on the same store."""
    new = HostTime(clocks)
    new.restore(old.state(), old.now() if last is None else last)
    return new


def _follow(host_time: HostTime, clocks: SteppedClocks, seconds: int) -> None:
    for _ in range(seconds):
        clocks.pass_time(1.0)
        host_time.follow_wall()


def test_a_forward_step_is_followed_once_no_notice_is_pending() -> None:
    """Fleet time jumps to wall time after the last notice, not before."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(HOUR)
    _follow(host_time, clocks, 899)
    assert host_time.now() == NOON + 899
    _follow(host_time, clocks, 1)
    assert host_time.now() == clocks.wall()
    assert host_time.ahead == 0


def test_a_clock_that_is_wrong_for_a_while_is_not_followed() -> None:
    """With each further step, the time begins anew for which a clock has to be right."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    for step in (31 * 24 * HOUR, HOUR, -HOUR, -31 * 24 * HOUR):
        clocks.step_wall(step)
        _follow(host_time, clocks, 119)
    assert host_time.now() == NOON + 4 * 119 == clocks.wall()


def test_a_backward_step_is_followed_at_half_speed() -> None:
    """Without a notice, fleet time runs slower until the wall clock has caught up."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.step_wall(-100)
    before = host_time.now()
    _follow(host_time, clocks, 100)
    assert host_time.now() == pytest.approx(before + 50, abs=1)
    _follow(host_time, clocks, 101)
    assert host_time.now() == pytest.approx(clocks.wall(), abs=0.1)
    assert abs(host_time.ahead) < 1


def test_a_step_before_a_reboot_while_time_is_slowed_down() -> None:
    """The difference is that of the time which goes on, not of the moment it stands still at."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.step_wall(-HOUR)
    clocks.pass_time(10)
    stands_at = host_time.now()
    for _ in range(2):
        host_time.follow_wall()
    restarted = _restarted(host_time, clocks, last=NOON)
    given_at = restarted.now()
    assert given_at < stands_at
    restarted.promise(given_at + NOTICE)
    clocks.reboot(down_seconds=0)
    assert _restarted(restarted, clocks, last=given_at).now() == pytest.approx(given_at, abs=0.1)


# --- Reboots of the host ------------------------------------------------------------------------


def test_time_that_passes_during_a_reboot_counts_if_nothing_is_promised() -> None:
    """Fleet time is wall time again once the clock has kept its time for two minutes (E9)."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.reboot(down_seconds=HOUR)
    restarted = _restarted(host_time, clocks, last=NOON)
    _follow(restarted, clocks, 120)
    assert restarted.now() == NOON + 120
    _follow(restarted, clocks, 1)
    assert restarted.now() == NOON + HOUR + 121


# --- What machines are told ---------------------------------------------------------------------


@pytest.mark.parametrize("step", [-30 * 24 * HOUR, -HOUR, -2.5, 2.5, HOUR])
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_new_event_is_announced_in_wall_time(step: float, *, is_busy: bool) -> None:
    """Right after a step, in an idle fleet and in one that always has a notice pending."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    if is_busy:
        host_time.promise(NOON + NOTICE)
    clocks.step_wall(step)
    for seconds in (0, 1, 60):
        _follow(host_time, clocks, seconds)
        assert 0 <= host_time.now() - host_time.ahead_seconds() - clocks.wall() < 1


@pytest.mark.parametrize("step", [-1.9, 0.0, 1.9])
def test_a_small_difference_is_not_published(step: float) -> None:
    """The clock of a host is corrected all the time."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(step)
    assert host_time.ahead_seconds() == 0


def test_random_sequences() -> None:
    """Steps, boots, suspensions, restarts, promises: no notice is shortened by a millisecond."""
    clock_sequences.main(0, 3000)


# --- Stored states ------------------------------------------------------------------------------


def test_an_unknown_boot_counts_as_a_reboot() -> None:
    """Where the system does not identify boots, fleet time goes on from the last line."""
    clocks = SteppedClocks()
    clocks.boot_id = ""
    host_time = HostTime(clocks)
    clocks.pass_time(HOUR)
    assert _restarted(host_time, clocks, last=NOON + 60).now() == NOON + HOUR


@pytest.mark.parametrize("boot", ["my host 7", "caf\udce9\0", " ", "unknown host"])
def test_any_boot_id_can_be_stored(boot: str) -> None:
    """It may come from a variable: a restart in the same boot continues the time line."""
    clocks = SteppedClocks()
    clocks.boot_id = boot
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(HOUR)
    clocks.pass_time(10)
    host_time.state().encode()
    assert _restarted(host_time, clocks, last=NOON).now() == NOON + 10


@pytest.mark.parametrize("state", ["real my host 7 {0} 0.0 0.0", "real first", "real a nan b c"])
def test_a_stored_state_that_is_not_understood(state: str) -> None:
    """Whatever an earlier version has stored, the service starts, and no earlier than its lines."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.restore(state.format(NOON), NOON + 60)
    assert host_time.now() == NOON + 60
    assert not host_time.differs_from(host_time.state())


def test_a_boot_id_that_is_not_unique_does_no_harm() -> None:
    """If the stored time line leads to before the last line, it is not of this boot."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.reboot()
    clocks.boot_id = "first"
    assert _restarted(host_time, clocks, last=NOON).now() == NOON


def test_the_state_of_a_virtual_clock_is_ignored() -> None:
    """A data folder may have been used with a virtual clock before."""
    host_time = HostTime(SteppedClocks())
    host_time.restore("1767960000.0 60.0", NOON + 1e6)
    assert host_time.now() == NOON


# --- The clocks of this host --------------------------------------------------------------------


def test_the_clocks_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A boot has one identity, which a variable may replace."""
    clocks = HostClocks()
    assert clocks.boot() == clocks.boot()
    assert clocks.monotonic() <= clocks.monotonic()
    monkeypatch.setenv("FAIRWARNING_BOOT_ID", "from-systemd")
    assert clocks.boot().startswith("from-systemd")
