"""An endpoint prepared for hostile tests, and connections that it has accepted."""

import asyncio
import logging
import os
import resource
from pathlib import Path
from typing import Any, Self

import pytest

from fairwarning.metadata.connection import MetadataConnection
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.wire import TARGET, Client, get

HELD = get('If-None-Match: "2"', target=f"{TARGET}&wait=300")
"""A long poll that is held after `prepare`."""


def prepare(endpoint: EndpointHarness) -> str:
    """Create an enabled scope with a pending event; return the event's id."""
    endpoint.make("av", 2)
    assert endpoint.get("av_0").status == 200
    event = endpoint.freeze("av_1").id
    endpoint.tick()  # record the poll now, so that nothing is written later
    endpoint.run(endpoint.fleet.settled())
    endpoint.stop_ticking()
    return event


def run_loop(endpoint: EndpointHarness) -> None:
    """Run the event loop a few times, so that sent data is most likely read."""
    for _ in range(3):
        endpoint.call(lambda: None)


def connections(endpoint: EndpointHarness) -> list[MetadataConnection]:
    """Return the endpoint's side of open connections."""
    return endpoint.call(lambda: list(endpoint.connections))


def connect(endpoint: EndpointHarness, machine: str = "av_0") -> Client:
    """Connect as this machine and wait until the endpoint has accepted."""
    before = endpoint.server.accepted
    client = Client(endpoint.open(machine))
    endpoint.wait_until(lambda: endpoint.server.accepted > before)
    return client


def hold(endpoint: EndpointHarness, client: Client, request: bytes = HELD) -> None:
    """Send a long poll and wait until it is held."""
    before = endpoint.server.counts.held
    client.send(request)
    endpoint.wait_until(lambda: endpoint.server.counts.held > before)


def allow_files(count: int) -> None:
    """Raise the limit of open files; skip the test where that is not possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"only {hard} files may be open here, and {count} are needed")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


_PAGE = resource.getpagesize()


class Watch(logging.Handler):
    """Collects log records and exceptions of the endpoint's event loop."""

    def __init__(self, endpoint: EndpointHarness) -> None:
        super().__init__(logging.WARNING)
        self._endpoint = endpoint
        self.seen: list[str] = []

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self)
        self._endpoint.call(lambda: asyncio.get_running_loop().set_exception_handler(self._failed))
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.seen.append(repr(context))


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = Path(f"/proc/{os.getpid()}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * _PAGE
