"""The examples that use the SDK: load balancer, log, web server."""

import json
import socket
import sys
from pathlib import Path

import pytest

from fairwarning.testing import Cloud
from tests.examples.copies import copy
from tests.fixtures.http import fetch, free_port, is_listening, local_url
from tests.fixtures.programs import start_program
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

pytestmark = pytest.mark.spec("G4")


def status(port: int) -> int:
    """Return the status of a handler's health check."""
    return fetch(local_url(port, "/healthz")).status


def answer(port: int) -> tuple[int, str]:
    """Send a request to the web server; return status and text."""
    response = fetch(local_url(port))
    return response.status, response.text


def test_the_load_balancer_removes_the_machine_before_the_approval(tmp_path: Path) -> None:
    """Probes fail from the notice on; two failed probes lead to the approval; 200 afterwards."""
    folder, port = copy("load-balancer", tmp_path), free_port()
    with Cloud() as cloud:
        web = cloud.machine("web")
        with start_program(
            sys.executable, "handler.py", str(port), folder=folder, env=web.env
        ) as program:
            wait_until(lambda: is_listening(port), "it listens")
            assert status(port) == 200
            web.restart()
            wait_until(lambda: status(port) == 503, "it is out")
            assert web.history == []
            assert status(port) == 503
            program.wait_for("Reboot is scheduled: out of rotation")
            wait_until(lambda: web.history == ["reboot"], "it is approved")
            assert status(port) == 503
            cloud.settle()
            wait_until(lambda: status(port) == 200, "it is back")


def test_the_load_balancer_example_does_not_approve_a_shared_event(tmp_path: Path) -> None:
    """The handler does not approve an event that also affects other machines."""
    folder, port = copy("load-balancer", tmp_path), free_port()
    with Cloud() as cloud:
        first, second = cloud.machines("db", 2, host="rack", update_domains=1)
        with start_program(
            sys.executable, "handler.py", str(port), folder=folder, env=first.env
        ) as program:
            wait_until(lambda: is_listening(port), "it listens")
            cloud.rollout([first, second], by_host=True)
            wait_until(lambda: [status(port) for _ in range(2)] == [503, 503], "it is out")
            program.wait_for("Freeze is scheduled: out of rotation")
            second.approve()
            wait_until(lambda: first.history == ["freeze"], "the approval of the other machine")
            cloud.settle()
            program.wait_for("Freeze is over: in rotation")
        assert "by db_0" not in cloud.journal()


def test_the_log_has_a_line_for_each_step(tmp_path: Path) -> None:
    """It writes JSON lines for scheduled, started and over, and approves no event."""
    folder = copy("event-log", tmp_path)
    with Cloud() as cloud:
        own, other = cloud.machines("db", 2)
        with start_program(sys.executable, "log.py", folder=folder, env=own.env) as program:
            event = own.restart().event
            assert event is not None
            program.wait_for('"phase": "scheduled"')
            other.restart()
            wait_until(lambda: program.output.count("\n") == 2, "the other machine's event")
            assert own.history == []
            own.approve(event)
            program.wait_for('"phase": "started"')
            cloud.cancel(other.events[0])
            cloud.settle()
            wait_until(lambda: program.output.count('"phase": "over"') == 2, "both are over")
            lines = [json.loads(line) for line in program.output.splitlines()]
        mine = [line for line in lines if line["concerns_me"]]
        assert [line["phase"] for line in mine] == ["scheduled", "started", "over"]
        assert {(line["event"], line["machine"], line["type"]) for line in mine} == {
            (event.id, "db_0", "Reboot")
        }
        assert event.not_before is not None
        assert mine[0]["not_before"] == event.not_before.isoformat()
        theirs = [line for line in lines if not line["concerns_me"]]
        assert [(line["phase"], line["cancelled"]) for line in theirs] == [
            ("scheduled", False),
            ("over", True),
        ]


def test_the_web_server_drains(tmp_path: Path) -> None:
    """It refuses new connections, answers its requests, and only then approves the event."""
    folder, port = copy("web-server", tmp_path), free_port()
    with Cloud() as cloud:
        web = cloud.machine("web")
        with start_program(
            sys.executable, "server.py", str(port), folder=folder, env=web.env
        ) as program:
            program.wait_for("open")
            with socket.create_connection(("127.0.0.1", port), LIMIT_SECONDS) as slow:
                slow.sendall(b"POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 5\r\n\r\n12")
                assert answer(port) == (200, "0 bytes\n")  # so the slow request was accepted, too
                web.restart()
                program.wait_for("closed, 1 in progress")
                assert not is_listening(port)
                assert web.history == []
                slow.sendall(b"345")
                late = slow.makefile("rb").read()
            assert late.startswith(b"HTTP/1.1 200 OK")
            assert late.endswith(b"5 bytes\n")
            wait_until(lambda: web.history == ["reboot"], "it is approved")
            cloud.settle()
            wait_until(lambda: is_listening(port), "it is open again")
            assert answer(port) == (200, "0 bytes\n")
