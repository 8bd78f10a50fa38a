"""The examples that use the SDK: load balancer, log, web server."""

import json
import socket
import sys
from pathlib import Path

import pytest

from fairwarning.pytest_plugin import Cloud
from tests.examples.stage import LONGEST_SECONDS, answers, copy, free_port, get, running, until


@pytest.mark.spec("G4")
def test_the_balancer_knows_before_the_approval(tmp_path: Path) -> None:
    """Health is 503 from the notice on; two refusals make the approval; 200 when it is over."""
    folder, port = copy("load-balancer", tmp_path), free_port()
    with Cloud() as cloud:
        web = cloud.machine("web")
        with running(sys.executable, "handler.py", str(port), folder=folder, env=web.env) as it:
            until(lambda: answers(port), "it listens")
            assert get(port, "/healthz")[0] == 200
            web.restart()
            until(lambda: get(port, "/healthz")[0] == 503, "it is out")
            assert web.history == []
            assert get(port, "/healthz")[0] == 503
            it.wait_for("told of Reboot, left")
            until(lambda: web.history == ["reboot"], "it is approved")
            assert get(port, "/healthz")[0] == 503
            cloud.settle()
            until(lambda: get(port, "/healthz")[0] == 200, "it is back")


@pytest.mark.spec("G4")
def test_the_balancer_example_leaves_a_shared_event_alone(tmp_path: Path) -> None:
    """An event that names others is not approved by a handler that knows nothing of them."""
    folder, port = copy("load-balancer", tmp_path), free_port()
    with Cloud() as cloud:
        first, second = cloud.machines("db", 2, host="rack", update_domains=1)
        with running(sys.executable, "handler.py", str(port), folder=folder, env=first.env) as it:
            until(lambda: answers(port), "it listens")
            cloud.rollout([first, second], by_host=True)
            until(lambda: [get(port, "/healthz")[0] for _ in range(2)] == [503, 503], "it is out")
            it.wait_for("told of Freeze, left")
            second.approve()
            until(lambda: first.history == ["freeze"], "the others approve it")
            cloud.settle()
            it.wait_for("Freeze is over: back")
        assert "by db_0" not in cloud.journal()


@pytest.mark.spec("G4")
def test_the_log_has_a_line_for_each_step(tmp_path: Path) -> None:
    """Scheduled, started, over; one JSON object a line; nothing is approved by a log."""
    folder = copy("event-log", tmp_path)
    with Cloud() as cloud:
        one, other = cloud.machines("db", 2)
        with running(sys.executable, "log.py", folder=folder, env=one.env) as it:
            planned = one.restart().event
            assert planned is not None
            it.wait_for('"phase": "scheduled"')
            other.restart()
            until(lambda: it.said.count("\n") == 2, "the neighbour's is written, too")
            assert one.history == []
            one.approve(planned)
            it.wait_for('"phase": "started"')
            cloud.cancel(other.events[0])
            cloud.settle()
            until(lambda: it.said.count('"phase": "over"') == 2, "both are over")
            lines = [json.loads(line) for line in it.said.splitlines()]
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
        with running(sys.executable, "server.py", str(port), folder=folder, env=web.env) as it:
            it.wait_for("open")
            assert get(port) == (200, "0 bytes\n")
            with socket.create_connection(("127.0.0.1", port), LONGEST_SECONDS) as slow:
                slow.sendall(b"POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 5\r\n\r\n12")
                web.restart()
                it.wait_for("closed, 1 under way")
                assert not answers(port)
                assert web.history == []
                slow.sendall(b"345")
                answer = slow.makefile("rb").read()
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert answer.endswith(b"5 bytes\n")
            until(lambda: web.history == ["reboot"], "it is approved")
            cloud.settle()
            until(lambda: answers(port), "it is open again")
            assert get(port) == (200, "0 bytes\n")
