"""Every response has the fleet's time, so that a machine with a wrong clock knows its notice."""

from email.utils import formatdate
from pathlib import Path

import pytest

from tests.fixtures.credentials import arm_request
from tests.fixtures.endpoint import POLL_TARGET, EndpointHarness, poll
from tests.fixtures.fleet import NOON
from tests.fixtures.http import Response
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until
from tests.metadata.conftest import INSTANCE, METADATA

pytestmark = pytest.mark.spec("E11")


def _is_dated(response: Response, moment: float) -> bool:
    return response.headers["date"] == formatdate(moment, usegmt=True)


def test_every_response_has_the_time(endpoint: EndpointHarness) -> None:
    """Documents, large or from the cache, 304, refusals and instance metadata."""
    endpoint.make("db", 40)
    kept = endpoint.client("db_0")
    responses = [poll(kept), poll(kept), poll(kept, **{"If-None-Match": '"1"'})]
    for number in range(40):
        endpoint.restart(f"db_{number}")
    responses += [poll(kept), poll(kept)]
    assert [response.status for response in responses] == [200, 200, 304, 200, 200]
    assert responses[3].body == responses[4].body
    assert len(responses[4].body) > 8192  # so that it is not copied to add the time
    assert len(responses[4].json["Events"]) == 40
    responses.append(endpoint.send_from("db_0", "GET", POLL_TARGET, {}))
    assert responses[-1].status == 400
    responses.append(endpoint.send_from("db_0", "GET", INSTANCE, METADATA))
    assert all(_is_dated(response, NOON) for response in responses)


def test_the_time_of_an_advanced_clock(endpoint: EndpointHarness) -> None:
    """A poll right after an advance has the new time, also from the cache."""
    endpoint.make("db")
    kept = endpoint.client("db_0")
    poll(kept)
    for moment in (1.0, 3601.0):
        endpoint.advance(moment - (endpoint.clock.now() - NOON))
        assert _is_dated(poll(kept), NOON + moment)
        assert _is_dated(poll(kept), NOON + moment)


def test_the_time_of_a_running_clock(endpoint: EndpointHarness) -> None:
    """The time of a response is never later than the clock, and follows it."""
    endpoint.make("db")
    kept = endpoint.client("db_0")
    first = poll(kept).headers["date"]
    endpoint.run(endpoint.fleet.run_clock(10))
    wait_until(lambda: poll(kept).headers["date"] != first)
    endpoint.run(endpoint.fleet.run_clock(0))
    assert _is_dated(poll(kept), endpoint.clock.now())


def test_the_console_and_the_control_plane_have_the_same_time(tmp_path: Path) -> None:
    """Operators and Azure's tools see the fleet's time too, here a virtual one."""
    words = ("--sample", "--memory", "--clock", "virtual")
    with ServiceProcess(tmp_path / "data", *words) as service:
        service.advance(7 * 86_400)
        date = service.get("db_0").headers["date"]
        assert service.api("GET", "/healthz").headers["date"] == date
        assert arm_request(service, "GET", "/subscriptions", {}).headers["date"] == date
