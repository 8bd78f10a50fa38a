"""What others may ask an agent."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fairwarning.core.errors import Refused
from fairwarning.guest.agent import agent as module
from fairwarning.guest.agent.agent import Agent
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.health import HealthServer
from tests.fixtures.http import fetch, local_url

pytestmark = pytest.mark.spec("G4")


@contextmanager
def health(
    well: Callable[[], bool] = lambda: True,
    figures: Callable[[], dict[str, float]] = dict,
    ready: Callable[[str], bool] = lambda _: False,
) -> Iterator[int]:
    """A server; its port."""
    it = HealthServer("127.0.0.1:0", well, figures, ready)
    try:
        yield it.port
    finally:
        it.close()


def told(port: int, path: str) -> tuple[int, str, bytes]:
    """Status, content type and body."""
    response = fetch(local_url(port, path))
    return response.status, response.headers["content-type"], response.body


def test_whether_it_is_well() -> None:
    """200 or 503, and why."""
    well = True
    with health(lambda: well) as port:
        assert told(port, "/healthz") == (200, "application/json", b'{"status": "ok"}')
        well = False
        assert fetch(local_url(port, "/healthz?x=1")).status == 503
        assert fetch(local_url(port, "/healthz")).json == {"status": "no document lately"}


def test_an_agent_without_documents_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given some time at first."""
    it = Agent(AgentConfig())
    assert it._is_healthy()
    monkeypatch.setattr(module, "HEALTHY_SECONDS", 0.0)
    assert not it._is_healthy()


def test_its_figures() -> None:
    """In Prometheus's text format."""
    with health(figures=lambda: {"approvals": 3.0, "seconds_since_reading": 0.25}) as port:
        status, kind, body = told(port, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4")
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    assert lines == [
        "fairwarning_agent_approvals 3",
        "fairwarning_agent_seconds_since_reading 0.25",
    ]
    assert body.endswith(b"\n")


def test_large_figures_keep_their_digits() -> None:
    """A counter that grows by one must be seen to."""
    with health(figures=lambda: {"readings": 12_345_678.0}) as port:
        assert float(fetch(local_url(port, "/metrics")).body.split()[-1]) == 12_345_678


def test_what_it_is_ready_for() -> None:
    """By the event's id, which may hold anything."""
    with health(ready=lambda event: event == "a/b \u00fc") as port:
        assert told(port, "/ready/a%2Fb%20%C3%BC") == (200, "application/json", b'{"ready": true}')
        assert fetch(local_url(port, "/ready/other")).body == b'{"ready": false}'
        assert fetch(local_url(port, "/ready/")).body == b'{"ready": false}'


def test_there_is_nothing_else() -> None:
    """It says what there is."""
    with health() as port:
        assert fetch(local_url(port, "/")).status == 404
        assert b"/healthz" in fetch(local_url(port, "/x")).body


def test_a_caller_who_says_nothing_is_in_nobodys_way() -> None:
    """Others are answered meanwhile."""
    with health() as port, socket.create_connection(("127.0.0.1", port)):
        assert fetch(local_url(port, "/healthz")).status == 200


@pytest.mark.parametrize(
    "listen",
    ["", "80", ":80", "localhost:", "localhost:http", "localhost:\u0663", "127.0.0.1:99999"],
)
def test_where_it_cannot_listen_is_refused(listen: str) -> None:
    """With the key of the configuration."""
    with pytest.raises(Refused) as refused:
        HealthServer(listen, lambda: True, dict, lambda _: False)
    assert refused.value.code == "BadConfig"
    assert refused.value.message.startswith("listen: ")


def test_a_port_that_is_taken_is_refused() -> None:
    """Nobody else's is taken over."""
    with health() as port, pytest.raises(Refused, match="cannot listen on"):
        HealthServer(f"127.0.0.1:{port}", lambda: True, dict, lambda _: False)


def test_a_host_may_be_ipv6() -> None:
    """In brackets, as URLs have it."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this system has no IPv6")
    it = HealthServer("[::1]:0", lambda: True, dict, lambda _: False)
    it.close()
