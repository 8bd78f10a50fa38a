"""Every response has the fleet's time, so that a machine with a wrong clock knows its notice."""

import ssl
from email.utils import formatdate
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.fixtures.endpoint import POLL_TARGET, EndpointHarness, poll
from tests.fixtures.fleet import NOON
from tests.fixtures.http import Response
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

pytestmark = pytest.mark.spec("E11")


def _is_dated(response: Response, moment: float) -> bool:
    return response.headers["date"] == formatdate(moment, usegmt=True)


def test_every_response_has_the_time(endpoint: EndpointHarness) -> None:
    """Documents, from the cache or not, 304, refusals and instance metadata."""
    endpoint.make("db")
    kept = endpoint.client("db_0")
    for status, headers in ((200, {}), (200, {}), (304, {"If-None-Match": '"1"'})):
        response = poll(kept, **headers)
        assert response.status == status
        assert _is_dated(response, NOON)
    refused = endpoint.send_from("db_0", "GET", POLL_TARGET, {})
    assert refused.status == 400
    assert _is_dated(refused, NOON)
    target = "/metadata/instance?api-version=2021-02-01"
    described = endpoint.send_from("db_0", "GET", target, {"Metadata": "true"})
    assert _is_dated(described, NOON)


def test_a_large_document_has_the_time_and_every_byte(endpoint: EndpointHarness) -> None:
    """A document of many events is not copied to add the time."""
    endpoint.make("db", 40)
    kept = endpoint.client("db_0")
    poll(kept)
    for number in range(40):
        endpoint.restart(f"db_{number}")
    first, second = poll(kept), poll(kept)
    assert len(first.body) > 8192
    assert first.body == second.body
    assert len(second.json["Events"]) == 40
    assert _is_dated(second, NOON)


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
        assert _arm_date(service) == date


def _arm_date(service: ServiceProcess) -> str | None:
    address = urlsplit(service.ready["arm"])
    trust = ssl.create_default_context(cafile=service.ready["ca"])
    connection = HTTPSConnection(
        str(address.hostname), address.port, context=trust, timeout=LIMIT_SECONDS
    )
    try:
        connection.request("GET", "/subscriptions")
        response = connection.getresponse()
        response.read()
        return response.getheader("Date")
    finally:
        connection.close()
