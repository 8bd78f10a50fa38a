"""A service whose host's clock is stepped, suspended or wrong at boot (E11)."""

import re
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns import split
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import on_this_machine, wait_until
from tests.service.host_clocks import HostOfService

pytestmark = pytest.mark.spec("E11")

HOUR = 3600.0
NOTICE_SECONDS = 900
UNDONE_SECONDS = 5.0  # the longest that something due may stay undone
MACHINE = "db_0"


@pytest.fixture
def host(tmp_path: Path) -> HostOfService:
    """The clocks of the host."""
    return HostOfService(tmp_path / "host")


@pytest.fixture
def service(tmp_path: Path, host: HostOfService) -> Iterator[ServiceProcess]:
    """A service with a machine that has fifteen minutes' notice of a restart."""
    with ServiceProcess(tmp_path / "data", "--sample", env=host.env) as service:
        service.poll(MACHINE)
        service.ok("POST", f"/api/machines/{MACHINE}/restart")
        yield service


def _restart(service: ServiceProcess, host: HostOfService) -> None:
    service.stop()
    _start(service, host)


def _start(service: ServiceProcess, host: HostOfService) -> None:
    service.env = host.env
    service.start()


def _event(service: ServiceProcess) -> Any:  # noqa: ANN401  (JSON)
    (event,) = service.poll(MACHINE)["Events"]
    return event


def _seconds_left(service: ServiceProcess) -> float:
    """The time until NotBefore by the clock of the endpoint."""
    response = service.get(MACHINE)
    (event,) = response.json["Events"]
    assert event["EventStatus"] == "Scheduled"
    not_before = parsedate_to_datetime(event["NotBefore"])
    return (not_before - parsedate_to_datetime(response.headers["date"])).total_seconds()


def _wait_until_started(service: ServiceProcess) -> None:
    """Return once the restart has begun; it was due when this was called."""
    called = time.monotonic()
    wait_until(lambda: not (events := service.poll(MACHINE)["Events"]) or _started(events))
    assert time.monotonic() - called < on_this_machine(UNDONE_SECONDS)


def _started(events: Any) -> bool:  # noqa: ANN401  (JSON)
    return bool(events[0]["EventStatus"] == "Started")


@pytest.mark.parametrize("step", split([-HOUR, HOUR], 1))
def test_a_step_before_a_restart_keeps_the_notice(
    service: ServiceProcess, host: HostOfService, step: float
) -> None:
    """After a step and a restart the machine still has its fifteen minutes, and no more."""
    not_before = _event(service)["NotBefore"]
    host.step_wall(step)
    _restart(service, host)
    assert _event(service)["NotBefore"] == not_before
    assert NOTICE_SECONDS - 120 < _seconds_left(service) <= NOTICE_SECONDS + 1


def test_a_suspended_host_does_what_is_due(service: ServiceProcess, host: HostOfService) -> None:
    """What came due while the host was suspended is done at once."""
    host.suspend(NOTICE_SECONDS + 1)
    _wait_until_started(service)


@pytest.mark.parametrize("step", split([HOUR, -24 * HOUR], 1))
def test_a_reboot_with_another_clock_keeps_the_notice(
    service: ServiceProcess, host: HostOfService, step: float
) -> None:
    """The clock was wrong before the reboot, or is after it: nobody knows, so nothing counts."""
    service.stop()
    host.reboot()
    host.step_wall(step)
    _start(service, host)
    not_before = parsedate_to_datetime(_event(service)["NotBefore"]).timestamp()
    assert _event(service)["EventStatus"] == "Scheduled"
    now = datetime.fromisoformat(service.ok("GET", "/api/clock")["now"]).timestamp()
    assert NOTICE_SECONDS - 120 < not_before - now <= NOTICE_SECONDS + 1
    host.suspend(NOTICE_SECONDS + 1)
    _wait_until_started(service)


def test_a_difference_from_the_hosts_clock_is_shown(
    service: ServiceProcess, host: HostOfService
) -> None:
    """The operator sees it in the API, on the page, in the metrics and in the log."""
    assert _ahead_seconds(service) == 0
    host.step_wall(60)
    wait_until(lambda: _ahead_seconds(service) < 0)
    assert _ahead_seconds(service) == pytest.approx(-60, abs=2)
    metrics = service.api("GET", "/metrics").text
    assert re.search(r"fairwarning_clock_ahead_seconds -(59|60|61)\.", metrics)
    assert "s behind wall time" in service.run("clock", "show").stdout
    assert "behind wall time" in service.api("GET", "/").text
    host.step_wall(-60)
    wait_until(lambda: _ahead_seconds(service) == 0)
    _, log = service.stop()
    assert log.count("behind the host's clock") == 1
    assert log.count("agrees with the host's clock again") == 1


def _ahead_seconds(service: ServiceProcess) -> float:
    return float(service.ok("GET", "/api/clock")["ahead_seconds"])
