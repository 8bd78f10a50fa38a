"""The agent, when the endpoint sends what no endpoint should send, or nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.http import fetch, free_port
from tests.guest.agents import AgentFolder, AgentProcess
from tests.guest.double import RESET, Double, refusal

FAR_DATE = b"Date: Fri, 31 Dec 9999 23:59:59 GMT\r\n"


def response(document: object, header: bytes = b"") -> bytes:
    """Return a response with a document."""
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (header, len(body), body)


def metric(port: int, name: str) -> float:
    """Return the value of one of the agent's metrics; -1 while it does not listen."""
    try:
        text = fetch(f"http://127.0.0.1:{port}/metrics").text
    except OSError:
        return -1
    lines = dict(line.rpartition(" ")[::2] for line in text.splitlines())
    return float(lines[f"fairwarning_agent_{name}"])


@pytest.mark.spec("G1")
def test_a_poison_document(tmp_path: Path) -> None:
    """Readable events are handled, now and after a restart; the others are counted (IB1)."""
    port = free_port()
    with Double() as azure:
        home = AgentFolder(tmp_path / "home", azure.url, name="vm-1")
        home.lines = [f'listen = "127.0.0.1:{port}"']
        home.hook("drain", "scheduled")
        dates = "0001-01-01T00:00:00", "9999-12-31T23:59:59Z", ""
        events = [azure.announce("vm-1", NotBefore=date) for date in dates]
        names = sorted(event["EventId"] for event in events)
        malformed: list[Any] = [None, {**events[0], "EventId": "X", "Resources": None}]
        azure.events = malformed + events
        huge = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"
        poison = response({"DocumentIncarnation": 1, "Events": azure.events}, FAR_DATE)
        for _ in range(2):
            azure.failures += [huge, poison]
            with AgentProcess(home) as agent:
                agent.wait_until(lambda: sorted(set(azure.approved)) == names)
                agent.wait_until(lambda: metric(port, "malformed_events_total") == 2)
                assert "(id: X): its Resources are not a list of names" in agent.output()
                agent.kill()
        assert sorted(line.split()[3] for line in home.log() if "+" in line) == names


@pytest.mark.spec("G8")
def test_an_endpoint_that_is_away(tmp_path: Path) -> None:
    """The log has the beginning and the end, with the duration; each failure is counted (IG5)."""
    port = free_port()
    with Double() as azure:
        home = AgentFolder(tmp_path / "home", azure.url, name="vm-1")
        home.lines = [f'listen = "127.0.0.1:{port}"', 'approve = "at once"']
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: metric(port, 'readings_total{result="ok"}') > 0)
            azure.failures += [RESET, RESET, refusal(503), refusal(503), RESET, RESET]
            agent.wait_until(lambda: "sends no document (" in agent.output())
            agent.wait_until(lambda: " sends documents again, after " in agent.output())
            azure.announce("vm-1")  # ends the wait
            agent.wait_until(lambda: azure.approved)
            assert metric(port, 'readings_total{result="failed"}') >= 2
