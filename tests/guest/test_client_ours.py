"""Tests of both clients against our own endpoint, which supports long polls."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairwarning import Document
from fairwarning.core.commands import CreateSet
from fairwarning.metadata.callers import for_machine
from fairwarning.metadata.listeners import open_unix
from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import EndpointHarness
from tests.guest.clients import BOTH, Client, ids, in_background, result_of

pytestmark = pytest.mark.spec("G1")

HOUR = 3600
TEXT = "api-version=2021-02-01&format=text"
VERSIONS = [
    "2017-03-01",
    "2017-08-01",
    "2017-11-01",
    "2019-01-01",
    "2019-04-01",
    "2019-08-01",
    "2020-07-01",
    "2024-07-09",
]


@pytest.fixture
def endpoint() -> Iterator[EndpointHarness]:
    """Yield an endpoint without machines."""
    with EndpointHarness() as endpoint:
        yield endpoint


def url(endpoint: EndpointHarness, machine: str) -> str:
    """Return the endpoint URL of this machine."""
    host, port = endpoint.address(machine)
    return f"http://{host}:{port}"


@BOTH
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(guest: type[Client], version: str) -> None:
    """Each api-version yields the same event, with the fields that it has."""
    with EndpointHarness(MetadataSettings(preview=True)) as endpoint:
        endpoint.make("db", 2)
        with guest(url(endpoint, "db_0"), version=version) as client:
            assert client.document() == Document(1)
            announced = endpoint.freeze("db_1", "db_0")
            (event,) = client.wait().events
            assert (event.id, event.type, event.status) == (announced.id, "Freeze", "Scheduled")
            assert event.concerns("db_0")
            assert event.concerns("db_1")
            assert event.not_before is not None
            assert event.not_before.timestamp() == announced.not_before
            assert event.source == ("Platform" if version >= "2019-08-01" else "")
            assert (event.duration is not None) == (version >= "2020-07-01")
            client.approve(event, others=True)
            (event,) = client.wait().events
            assert (event.started, event.not_before) == (True, None)
            endpoint.advance(HOUR)
            assert client.wait().events == ()


@BOTH
@pytest.mark.spec("G3")
def test_own_name_on_a_scale_set(endpoint: EndpointHarness, guest: type[Client]) -> None:
    """It is the name that events use, not the host name."""
    endpoint.create(CreateSet(set="web", capacity=2))
    name = next(iter(endpoint._addresses))
    with guest(url(endpoint, name)) as client:
        assert client.document().events == ()
        assert client.me() == name
        event = endpoint.restart(name)
        assert client.wait().find(event.id) is not None
        assert client.events()[0].concerns(client.me())
        target = f"/metadata/instance/compute/osProfile/computerName?{TEXT}"
        host = endpoint.send_from(name, "GET", target, {"Metadata": "true"}).body.decode()
        assert host
        assert not client.events()[0].concerns(host)


@pytest.mark.spec("G2")
@BOTH
def test_a_unix_socket(endpoint: EndpointHarness, guest: type[Client], tmp_path: Path) -> None:
    """Our endpoint can listen on a Unix socket; everything works as over TCP."""
    endpoint.make("db")
    endpoint.listen_on(open_unix(tmp_path / "s"), for_machine("db", "db_0"))
    with guest(f"unix:{tmp_path / 's'}") as client:
        assert client.me() == "db_0"
        client.document()
        waiting = in_background(client.wait)
        endpoint.wait_until(lambda: endpoint.server.counts.held == 1)
        event = endpoint.restart("db_0")
        assert ids(result_of(waiting)) == [event.id]
        client.approve(event.id)
        assert client.events()[0].started
