"""The agent's health server."""

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
    metrics: Callable[[], str] = str,
    ready: Callable[[str], bool] = lambda _: False,
) -> Iterator[int]:
    """Run a server; yield its port."""
    server = HealthServer("127.0.0.1:0", well, metrics, ready)
    try:
        yield server.port
    finally:
        server.close()


def get(port: int, path: str) -> tuple[int, str, bytes]:
    """Return status, content type and body."""
    response = fetch(local_url(port, path))
    return response.status, response.headers["content-type"], response.body


def test_healthz() -> None:
    """200 or 503, with the reason."""
    well = True
    with health(lambda: well) as port:
        assert get(port, "/healthz") == (200, "application/json", b'{"status": "ok"}')
        well = False
        assert fetch(local_url(port, "/healthz?x=1")).status == 503
        assert fetch(local_url(port, "/healthz")).json == {"status": "no document lately"}


def test_an_agent_without_documents_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is healthy for some time after its start."""
    agent = Agent(AgentConfig())
    assert agent._is_healthy()
    monkeypatch.setattr(module, "HEALTHY_SECONDS", 0.0)
    assert not agent._is_healthy()


def test_metrics() -> None:
    """In Prometheus's text format."""
    with health(metrics=lambda: 'a_total{hook="\u00fc"} 3\n') as port:
        status, kind, body = get(port, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert body.decode() == 'a_total{hook="\u00fc"} 3\n'


def test_readiness() -> None:
    """By event id, which may contain any characters."""
    with health(ready=lambda event: event == "a/b \u00fc") as port:
        assert get(port, "/ready/a%2Fb%20%C3%BC") == (200, "application/json", b'{"ready": true}')
        assert fetch(local_url(port, "/ready/other")).body == b'{"ready": false}'
        assert fetch(local_url(port, "/ready/")).body == b'{"ready": false}'


def test_other_paths() -> None:
    """The response lists the valid paths."""
    with health() as port:
        assert fetch(local_url(port, "/")).status == 404
        assert b"/healthz" in fetch(local_url(port, "/x")).body


def test_a_silent_client_does_not_block_others() -> None:
    """Other clients are answered meanwhile."""
    with health() as port, socket.create_connection(("127.0.0.1", port)):
        assert fetch(local_url(port, "/healthz")).status == 200


@pytest.mark.parametrize(
    "listen",
    ["", "80", ":80", "localhost:", "localhost:http", "localhost:\u0663", "127.0.0.1:99999"],
)
def test_an_invalid_address_is_refused(listen: str) -> None:
    """The error names the configuration key."""
    with pytest.raises(Refused) as refused:
        HealthServer(listen, lambda: True, str, lambda _: False)
    assert refused.value.code == "BadConfig"
    assert refused.value.message.startswith("listen: ")


def test_a_port_in_use_is_refused() -> None:
    """It does not share the port."""
    with health() as port, pytest.raises(Refused, match="cannot listen on"):
        HealthServer(f"127.0.0.1:{port}", lambda: True, str, lambda _: False)


def test_a_host_may_be_ipv6() -> None:
    """In brackets, as in URLs."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this system has no IPv6")
    server = HealthServer("[::1]:0", lambda: True, str, lambda _: False)
    server.close()
