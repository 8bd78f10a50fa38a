"""Streams of the real program end with the token or the session of their client (C7)."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fairwarning.console.access import COOKIE
from tests.fixtures.credentials import create, log_out, open_session
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine

pytestmark = [pytest.mark.spec("C7"), pytest.mark.up("--memory")]

LIFETIME_SECONDS = 2
SOON_SECONDS = 8.0  # well below the 15 seconds between two keep-alives of a stream


@contextmanager
def open_stream(service: ServiceProcess, headers: Mapping[str, str]) -> Iterator[HTTPResponse]:
    """Open a stream, and read its first line."""
    url = urlsplit(service.ready["console"])
    connection = HTTPConnection(url.hostname or "", url.port, LIMIT_SECONDS)
    connection.request("GET", "/api/stream", headers=dict(headers))
    response = connection.getresponse()
    assert response.readline() == b"retry: 1000\n"
    yield response
    connection.close()


def bearer(text: str) -> dict[str, str]:
    """The header of a request with this token."""
    return {"Authorization": f"Bearer {text}"}


def test_a_log_out_ends_the_open_streams_of_the_session(service: ServiceProcess) -> None:
    """The page's stream ends cleanly and at once."""
    cookie = open_session(service)
    with open_stream(service, {"Cookie": f"{COOKIE}={cookie}"}) as response:
        log_out(service, cookie)
        response.read()  # until the stream ends


def test_a_stream_ends_when_its_token_expires(service: ServiceProcess) -> None:
    """At that moment, and not with the next keep-alive."""
    settings = {"name": "ann", "role": "reader", "seconds": LIFETIME_SECONDS}
    token = service.ok("POST", "/api/tokens", settings)["token"]
    began = time.monotonic()
    with open_stream(service, bearer(token)) as response:
        response.read()
    assert time.monotonic() - began < LIFETIME_SECONDS + on_this_machine(SOON_SECONDS)


def test_a_revocation_ends_the_streams_of_every_process(tmp_path: Path) -> None:
    """Of the process that revokes the token and of the others; other tokens' streams go on."""
    url = database_or_skip()
    with (
        ServiceProcess(tmp_path / "one", database=url) as one,
        ServiceProcess(tmp_path / "two", database=url) as two,
    ):
        token, other = create(one), create(one)
        with (
            open_stream(one, bearer(token["text"])) as here,
            open_stream(two, bearer(token["text"])) as there,
            open_stream(two, bearer(other["text"])) as kept,
        ):
            one.ok("POST", "/api/tokens/revoke", {"ids": [token["id"]]})
            began = time.monotonic()
            here.read()
            there.read()
            assert time.monotonic() - began < on_this_machine(SOON_SECONDS)
            one.ok("POST", "/api/machines", {"name": "vm"})
            while kept.readline() != b"event: line\n":
                pass
