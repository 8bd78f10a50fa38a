"""Fleet time on a host whose clock is stepped, suspended or wrong at boot (E11)."""

import pytest

from fairwarning.service.host_time import HostClocks, HostTime
from tests.fixtures.fleet import NOON
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


@pytest.mark.parametrize("step", [-HOUR, -3.0, 3.0, HOUR])
def test_a_step_does_not_move_time_while_a_notice_is_pending(step: float) -> None:
    """Each second of a notice is a second, whatever the wall clock does."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(step)
    _follow(host_time, clocks, 899)
    assert host_time.now() == NOON + 899
    assert host_time.ahead == pytest.approx(-step)


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_step_and_a_restart_shorten_no_notice(step: float) -> None:
    """A process that starts in the same boot continues the time of the one before it."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(step)
    restarted = _restarted(host_time, clocks)
    _follow(restarted, clocks, 10)
    assert restarted.now() == NOON + 10


def test_down_time_in_the_same_boot_passes() -> None:
    """Time that passes between two processes counts."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.pass_time(600)
    assert _restarted(host_time, clocks, last=NOON).now() == NOON + 600


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


def test_time_never_runs_backwards() -> None:
    """No reading is smaller than the one before it, whatever the wall clock does."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    readings = []
    for step in (0, -HOUR, HOUR, -5, 2 * HOUR, -HOUR):
        clocks.step_wall(step)
        for _ in range(20):
            clocks.pass_time(0.7)
            host_time.follow_wall()
            readings.append(host_time.now())
    assert readings == sorted(readings)


def test_a_stopped_process_does_not_make_time_stand_still() -> None:
    """After a long pause fleet time is slowed down for the last seconds only."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.step_wall(-HOUR)
    clocks.pass_time(1000)
    host_time.follow_wall()
    clocks.pass_time(10)
    assert host_time.now() > NOON + 1005


def test_a_restart_while_time_is_slowed_down() -> None:
    """A notice that was given while time stood still is kept like any other."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.step_wall(-HOUR)
    clocks.pass_time(1)
    given_at = host_time.now()
    host_time.follow_wall()
    assert host_time.now() == given_at, "time stands still for a moment"
    host_time.promise(given_at + NOTICE)
    restarted = _restarted(host_time, clocks, last=given_at)
    assert restarted.now() == given_at
    clocks.step_wall(2 * HOUR)
    _follow(restarted, clocks, 10)
    assert restarted.now() <= given_at + 10


def test_a_reboot_while_time_is_slowed_down() -> None:
    """The wall clock is not early because time stood still; a later step is not followed."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.step_wall(-60)
    clocks.pass_time(10)
    given_at = host_time.now()
    host_time.follow_wall()
    assert host_time.now() == given_at, "time stands still for a moment"
    host_time.promise(given_at + NOTICE)
    clocks.reboot(down_seconds=0)
    restarted = _restarted(host_time, clocks, last=given_at)
    clocks.step_wall(HOUR)
    _follow(restarted, clocks, 10)
    assert restarted.now() <= given_at + 10


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


def test_a_step_that_was_followed_counts_after_a_restart() -> None:
    """It need not be stored: the new process does the same, so a reboot does not do it again."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    stored = host_time.state()
    clocks.step_wall(HOUR)
    host_time.follow_wall()
    restarted = HostTime(clocks)
    restarted.restore(stored, NOON)
    given_at = restarted.now()
    assert given_at == host_time.now() == NOON + HOUR
    restarted.promise(given_at + NOTICE)
    clocks.reboot(down_seconds=0)
    assert _restarted(restarted, clocks, last=given_at).now() == given_at


# --- Reboots of the host ------------------------------------------------------------------------


def test_time_that_passes_during_a_reboot_counts() -> None:
    """After a reboot wall time is believed (E9)."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.reboot(down_seconds=HOUR)
    assert _restarted(host_time, clocks, last=NOON).now() == NOON + HOUR


def test_a_host_that_boots_with_an_early_clock() -> None:
    """Fleet time continues from the last line, and catches up when the clock is set right."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.reboot(down_seconds=300)
    clocks.step_wall(-10 * HOUR)
    restarted = _restarted(host_time, clocks, last=NOON + 5)
    assert restarted.now() == NOON + 5
    _follow(restarted, clocks, 20)
    assert restarted.now() == NOON + 25, "a notice from before the boot is not slowed down either"
    clocks.step_wall(10 * HOUR)
    _follow(restarted, clocks, 1)
    assert restarted.now() == clocks.wall()


@pytest.mark.parametrize("seen_seconds", [0, 20])
@pytest.mark.parametrize("wrong_before", [0.0, -10.0])
def test_an_early_clock_is_set_right_once(wrong_before: float, seen_seconds: int) -> None:
    """A later step is not followed; nor is it if fleet time was ahead of the right time."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(wrong_before)
    host_time.follow_wall()
    clocks.reboot(down_seconds=1)
    clocks.step_wall(-10 * HOUR)
    restarted = _restarted(host_time, clocks, last=NOON)
    _follow(restarted, clocks, seen_seconds)
    clocks.step_wall(10 * HOUR)
    _follow(restarted, clocks, 1)
    restarted = _restarted(restarted, clocks, last=NOON)
    clocks.step_wall(HOUR)
    _follow(restarted, clocks, 4)
    assert restarted.now() <= NOON + seen_seconds + 6


@pytest.mark.parametrize("wrong_before", [0.0, -60.0])
def test_a_boot_with_an_early_clock_before_one_with_the_right_time(wrong_before: float) -> None:
    """By how much the clock was early says nothing about the time of the next boot."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(wrong_before)
    host_time.follow_wall()
    clocks.reboot(down_seconds=5)
    clocks.step_wall(-10 * HOUR)
    early = _restarted(host_time, clocks, last=NOON)
    _follow(early, clocks, 20)
    clocks.reboot(down_seconds=5)
    clocks.step_wall(10 * HOUR)
    restarted = _restarted(early, clocks, last=NOON)
    assert restarted.now() == NOON + 30
    clocks.step_wall(HOUR)
    _follow(restarted, clocks, 10)
    assert restarted.now() == NOON + 40


@pytest.mark.parametrize("wrong_before", [0.0, 20 * HOUR])
def test_a_notice_given_while_the_clock_is_early(wrong_before: float) -> None:
    """A boot with the right time shows how long the host was down before: that does not count."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(wrong_before)
    host_time.follow_wall()
    clocks.reboot(down_seconds=HOUR)
    clocks.step_wall(-10 * HOUR)
    early = _restarted(host_time, clocks, last=NOON)
    given_at = early.now()
    early.promise(given_at + NOTICE)
    clocks.reboot(down_seconds=30)
    clocks.step_wall(10 * HOUR)
    restarted = _restarted(early, clocks, last=given_at)
    _follow(restarted, clocks, 10)
    assert given_at + 10 <= restarted.now() <= given_at + 40


def test_an_early_clock_after_a_small_difference() -> None:
    """A difference within the tolerance is no step: it does not hold fleet time back."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(0.1)
    host_time.follow_wall()
    clocks.reboot(down_seconds=300)
    clocks.step_wall(-10 * HOUR)
    restarted = _restarted(host_time, clocks, last=NOON + 5)
    clocks.step_wall(10 * HOUR)
    _follow(restarted, clocks, 1)
    assert restarted.now() == clocks.wall()


def test_a_known_step_does_not_count_as_time_that_the_host_was_down() -> None:
    """A step that was seen before the reboot is still not followed after it."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.step_wall(HOUR)
    host_time.follow_wall()
    clocks.reboot(down_seconds=60)
    restarted = _restarted(host_time, clocks, last=NOON)
    clocks.reboot(down_seconds=60)
    restarted = _restarted(restarted, clocks, last=NOON)
    _follow(restarted, clocks, 10)
    assert restarted.now() == pytest.approx(NOON + 130, abs=1)


def test_a_fleet_time_ahead_of_the_wall_stays_ahead_over_a_reboot() -> None:
    """The wall clock is not early then, and a later step of it is not followed."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.step_wall(-HOUR)
    host_time.promise(NOON + NOTICE)
    host_time.follow_wall()
    clocks.reboot(down_seconds=30)
    restarted = _restarted(host_time, clocks, last=NOON)
    assert restarted.now() == NOON + 30
    clocks.step_wall(2 * HOUR)
    _follow(restarted, clocks, 10)
    assert restarted.now() == NOON + 40


def test_a_step_after_a_reboot_shortens_no_older_notice() -> None:
    """Once the time after a boot was believed, a step is a step."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    host_time.promise(NOON + NOTICE)
    clocks.reboot(down_seconds=60)
    restarted = _restarted(host_time, clocks, last=NOON)
    clocks.step_wall(HOUR)
    _follow(restarted, clocks, 10)
    assert restarted.now() == NOON + 70


def test_a_notice_given_after_a_boot_with_an_early_clock() -> None:
    """When the clock is set right, a notice given in the wrong time keeps its length."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.reboot()
    clocks.step_wall(-10 * HOUR)
    restarted = _restarted(host_time, clocks, last=NOON)
    restarted.promise(restarted.now() + NOTICE)
    clocks.step_wall(10 * HOUR)
    _follow(restarted, clocks, 899)
    assert restarted.now() == NOON + 899


def test_an_unknown_boot_counts_as_a_reboot() -> None:
    """Where the system does not identify boots, wall time is believed after every restart."""
    clocks = SteppedClocks()
    clocks.boot_id = ""
    host_time = HostTime(clocks)
    clocks.step_wall(HOUR)
    assert _restarted(host_time, clocks, last=NOON).now() == NOON + HOUR


def test_a_boot_id_that_is_not_unique_does_no_harm() -> None:
    """If the stored time line leads to before the last line, it is not of this boot."""
    clocks = SteppedClocks()
    host_time = HostTime(clocks)
    clocks.reboot()
    clocks.boot_id = "first"
    assert _restarted(host_time, clocks, last=NOON).now() == NOON + 60


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
