"""An endpoint prepared for hostile tests, and connections that it is known to have seen."""

import resource

import pytest

from fairwarning.metadata.connection import MetadataConnection
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.wire import TARGET, Client, get

HELD = get('If-None-Match: "2"', target=f"{TARGET}&wait=300")
"""A long poll that is held after `prepare`."""


def prepare(endpoint: EndpointHarness) -> str:
    """A scope that is on, with an event that waits for approval; the event's id."""
    endpoint.make("av", 2)
    assert endpoint.get("av_0").status == 200
    event = endpoint.freeze("av_1").id
    endpoint.tick()  # that somebody polled is on record: nothing more is to be written
    endpoint.run(endpoint.fleet.settled())
    endpoint.stop_ticking()
    return event


def turn(endpoint: EndpointHarness) -> None:
    """Let the loop turn a few times: what was sent is most likely read by then."""
    for _ in range(3):
        endpoint.call(lambda: None)


def connections(endpoint: EndpointHarness) -> list[MetadataConnection]:
    """The endpoint's side of what is open."""
    return endpoint.call(lambda: list(endpoint.connections))


def client_of(endpoint: EndpointHarness, machine: str = "av_0") -> Client:
    """A connection of this machine, and the endpoint knows of it."""
    before = endpoint.server.accepted
    client = Client(endpoint.open(machine))
    endpoint.wait_until(lambda: endpoint.server.accepted > before)
    return client


def hold(endpoint: EndpointHarness, client: Client, request: bytes = HELD) -> None:
    """Send a long poll, and see that it is held."""
    before = endpoint.server.counts.held
    client.send(request)
    endpoint.wait_until(lambda: endpoint.server.counts.held > before)


def allow_files(count: int) -> None:
    """Let this process have so many files open; where it may not, there is nothing to test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"only {hard} files may be open here, and {count} are needed")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
