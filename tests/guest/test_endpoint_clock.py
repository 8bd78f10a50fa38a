"""The endpoint's time as a machine with a wrong clock knows it."""

from datetime import timedelta

import pytest

from fairwarning.core.times import rfc1123
from fairwarning.guest.endpoint_time import EndpointClock
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.fleet import NOON
from tests.guest.clients import BOTH, Client

pytestmark = pytest.mark.spec("E11", "G1")


def _observe(clock: EndpointClock, truth: float, now: float, held: float = 0.0) -> None:
    """Observe a response at `now`, when the endpoint's time is `truth`."""
    clock.observe(rfc1123(int(truth)), now - held, now)


def test_without_a_date_the_time_is_unknown() -> None:
    """A missing or unreadable date is ignored."""
    clock = EndpointClock()
    far = ("Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+01:00")
    for date in ("", "now", "Fri, 99 Jan 2026 12:00:00 GMT", *far):
        clock.observe(date, 1.0, 1.0)
    assert clock.time(1.0) is None


@pytest.mark.parametrize(
    ("observed", "at", "expected"),
    [
        ([(NOON, 50.0, 0.0)], 60.0, NOON + 10),  # between two responses
        ([(NOON + 30, 80.0, 30.0)], 80.0, NOON + 30),  # a request that was held
        ([(NOON, 50.0, 0.0), (NOON - 3600, 52.0, 0.0)], 52.0, NOON - 3600),  # moved by an operator
        ([(NOON, 50.0, 0.0), (NOON + 3600, 52.0, 0.0)], 52.0, NOON + 3600),  # or after a suspension
    ],
)
def test_the_endpoints_time(
    observed: list[tuple[float, float, float]], at: float, expected: float
) -> None:
    """It is carried by the machine's monotonic clock, and follows the endpoint's."""
    clock = EndpointClock()
    for truth, now, held in observed:
        _observe(clock, truth, now, held)
    assert clock.time(at) == pytest.approx(expected, abs=1)


def test_the_time_is_never_too_early() -> None:
    """Otherwise the machine would expect more notice than it has. Each response narrows it."""
    clock = EndpointClock()
    for number in range(100):
        truth, now = NOON + 0.37 * number, 50.0 + 0.37 * number
        _observe(clock, truth, now)
        time = clock.time(now)
        assert time is not None
        assert truth <= time <= truth + 1  # `Date` has whole seconds
    assert clock.time(50.0) == pytest.approx(NOON, abs=0.05)


@BOTH
def test_a_client_knows_the_endpoints_time(guest: type[Client]) -> None:
    """The notice is right although the endpoint's clock is far from that of this machine."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        host, port = endpoint.address("db_0")
        with guest(f"http://{host}:{port}") as client:
            client.document()
            endpoint.restart("db_0")
            (event,) = client.wait().events
            assert event.seconds_left(client.now()) == pytest.approx(900, abs=60)
            endpoint.advance(600)
            client.document()
            assert event.seconds_left(client.now()) == pytest.approx(300, abs=60)
            assert event.not_before is not None
            assert client.now() < event.not_before < client.now() + timedelta(minutes=15)
