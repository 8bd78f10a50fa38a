"""The examples that use the SDK: load balancer, log, web server."""

import json
import socket
import sys
from pathlib import Path

import pytest

from fairwarning.pytest_plugin import Cloud
from tests.examples.copies import copy
from tests.fixtures.http import fetch, free_port, is_listening, local_url
from tests.fixtures.programs import start_program
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until


def status(port: int) -> int:
    """What the health check of a handler says."""
    return fetch(local_url(port, "/healthz")).status


def answer(port: int) -> tuple[int, str]:
    """What the web server says."""
    response = fetch(local_url(port))
    return response.status, response.text


@pytest.mark.spec("G4")
def test_the_balancer_knows_before_the_approval(tmp_path: Path) -> None:
    """Health is 503 from the notice on; two refusals make the approval; 200 when it is over."""
    folder, port = copy("load-balancer", tmp_path), free_port()
    with Cloud() as cloud:
        web = cloud.machine("web")
        with start_program(
            sys.executable, "handler.py", str(port), folder=folder, env=web.env
        ) as it:
            wait_until(lambda: is_listening(port), "it listens")
            assert status(port) == 200
            web.restart()
            wait_until(lambda: status(port) == 503, "it is out")
            assert web.history == []
            assert status(port) == 503
            it.wait_for("told of Reboot, left")
            wait_until(lambda: web.history == ["reboot"], "it is approved")
            assert status(port) == 503
            cloud.settle()
            wait_until(lambda: status(port) == 200, "it is back")


@pytest.mark.spec("G4")
def test_the_balancer_example_leaves_a_shared_event_alone(tmp_path: Path) -> None:
    """An event that names others is not approved by a handler that knows nothing of them."""
    folder, port = copy("load-balancer", tmp_path), free_port()
    with Cloud() as cloud:
        first, second = cloud.machines("db", 2, host="rack", update_domains=1)
        with start_program(
            sys.executable, "handler.py", str(port), folder=folder, env=first.env
        ) as it:
            wait_until(lambda: is_listening(port), "it listens")
            cloud.rollout([first, second], by_host=True)
            wait_until(lambda: [status(port) for _ in range(2)] == [503, 503], "it is out")
            it.wait_for("told of Freeze, left")
            second.approve()
            wait_until(lambda: first.history == ["freeze"], "the others approve it")
            cloud.settle()
            it.wait_for("Freeze is over: back")
        assert "by db_0" not in cloud.journal()


@pytest.mark.spec("G4")
def test_the_log_has_a_line_for_each_step(tmp_path: Path) -> None:
    """Scheduled, started, over; one JSON object a line; nothing is approved by a log."""
    folder = copy("event-log", tmp_path)
    with Cloud() as cloud:
        one, other = cloud.machines("db", 2)
        with start_program(sys.executable, "log.py", folder=folder, env=one.env) as it:
            planned = one.restart().event
            assert planned is not None
            it.wait_for('"phase": "scheduled"')
            other.restart()
            wait_until(lambda: it.output.count("\n") == 2, "the neighbour's is written, too")
            assert one.history == []
            one.approve(planned)
            it.wait_for('"phase": "started"')
            cloud.cancel(other.events[0])
            cloud.settle()
            wait_until(lambda: it.output.count('"phase": "over"') == 2, "both are over")
            lines = [json.loads(line) for line in it.output.splitlines()]
        mine = [line for line in lines if line["concerns_me"]]
        assert [line["phase"] for line in mine] == ["scheduled", "started", "over"]
        assert {(line["event"], line["machine"], line["type"]) for line in mine} == {
            (planned.id, "db_0", "Reboot")
        }
        assert planned.not_before is not None
        assert mine[0]["not_before"] == planned.not_before.isoformat()
        theirs = [line for line in lines if not line["concerns_me"]]
        assert [(line["phase"], line["cancelled"]) for line in theirs] == [
            ("scheduled", False),
            ("over", True),
        ]


@pytest.mark.spec("G4")
def test_the_web_server_finishes_what_it_began(tmp_path: Path) -> None:
    """Nobody new is let in, who is in gets an answer, and only then is the event approved."""
    folder, port = copy("web-server", tmp_path), free_port()
    with Cloud() as cloud:
        web = cloud.machine("web")
        with start_program(
            sys.executable, "server.py", str(port), folder=folder, env=web.env
        ) as it:
            it.wait_for("open")
            assert answer(port) == (200, "0 bytes\n")
            with socket.create_connection(("127.0.0.1", port), LIMIT_SECONDS) as slow:
                slow.sendall(b"POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 5\r\n\r\n12")
                web.restart()
                it.wait_for("closed, 1 under way")
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
