"""An endpoint prepared for hostile tests, and connections that it is known to have seen."""

import resource

import pytest

from fairwarning.metadata.connection import Connection
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.wire import TARGET, Client, get

HELD = get('If-None-Match: "2"', target=f"{TARGET}&wait=300")
"""A long poll that is held after `prepare`."""


def prepare(it: EndpointHarness) -> str:
    """A scope that is on, with an event that waits for approval; the event's id."""
    it.make("av", 2)
    assert it.get("av_0").status == 200
    event = it.freeze("av_1").id
    it.tick()  # that somebody polled is on record: nothing more is to be written
    it.run(it.fleet.settled())
    it.stop_ticking()
    return event


def turn(it: EndpointHarness) -> None:
    """Let the loop turn a few times: what was sent is most likely read by then."""
    for _ in range(3):
        it.call(lambda: None)


def connections(it: EndpointHarness) -> list[Connection]:
    """The endpoint's side of what is open."""
    return it.call(lambda: list(it.connections))


def client_of(it: EndpointHarness, machine: str = "av_0") -> Client:
    """A connection of this machine, and the endpoint knows of it."""
    before = it.server.accepted
    client = Client(it.open(machine))
    it.wait_until(lambda: it.server.accepted > before)
    return client


def hold(it: EndpointHarness, client: Client, request: bytes = HELD) -> None:
    """Send a long poll, and see that it is held."""
    before = it.server.counts.held
    client.send(request)
    it.wait_until(lambda: it.server.counts.held > before)


def allow_files(count: int) -> None:
    """Let this process have so many files open; where it may not, there is nothing to test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"only {hard} files may be open here, and {count} are needed")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
