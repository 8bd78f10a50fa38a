"""The commands of an operator: machines, clock and faults."""

import json
from pathlib import Path

import pytest

from tests.fixtures.http import fetch
from tests.fixtures.service import ServiceProcess, run_command


def event_types(service: ServiceProcess) -> dict[str, list[str]]:
    """Return the types of the events of each machine."""
    machines = json.loads(service.run("machine", "list", "--json").stdout)
    return {machine["name"]: [event["type"] for event in machine["events"]] for machine in machines}


def test_actions_schedule_events_for_machines_that_poll(tmp_path: Path) -> None:
    """The event of each action is immediately in the document and in the list."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory", "--clock", "virtual") as service:
        for machine in ("web_0", "db_0", "batch_0"):
            service.poll(machine)
        done = service.run("machine", "restart", "web_0", "db_0")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("web_0: accepted, operation ")
        assert service.run("machine", "freeze", "web_1", "--duration", "7").returncode == 0
        assert service.run("machine", "evict", "batch_0").returncode == 0
        assert service.run("machine", "delete", "web_2", "--yes").returncode == 0
        events = event_types(service)
        assert events["web_0"] == ["Reboot"]
        assert events["web_1"] == ["Freeze"]
        assert events["web_2"] == ["Terminate"]
        assert events["batch_0"] == ["Preempt"]
        by_type = {event["EventType"]: event for event in service.poll("web_0")["Events"]}
        assert by_type["Freeze"]["DurationInSeconds"] == 7
        table = service.run("machine", "list").stdout
        assert "Reboot not before " in table


def test_a_scope_without_polls(tmp_path: Path) -> None:
    """It gets no notice, and the output says so (M15)."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        output = service.run("machine", "restart", "db_0").stdout
        assert "no notice, because no machine of the scope polls" in output
        assert event_types(service)["db_0"] == []


def test_a_virtual_clock(tmp_path: Path) -> None:
    """It can be shown, advanced, run and stopped; an event starts at its time."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory", "--clock", "virtual") as service:
        service.poll("db_0")
        service.run("machine", "restart", "db_0")
        before = json.loads(service.run("clock", "show", "--json").stdout)
        assert (before["virtual"], before["rate"]) == (True, 0.0)
        assert service.run("clock", "advance", "14m59s").returncode == 0
        assert service.poll("db_0")["Events"][0]["EventStatus"] == "Scheduled"
        assert "stopped" in service.run("clock", "advance", "1").stdout
        assert service.poll("db_0")["Events"][0]["EventStatus"] == "Started"
        service.run("clock", "advance", "60")
        assert service.poll("db_0")["Events"] == []
        assert "60 times real time" in service.run("clock", "run", "60").stdout
        assert "stopped" in service.run("clock", "freeze").stdout
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        for wrong in (
            b'{"advance_seconds": true}',
            b'{"advance_seconds": 1e400}',
            b'{"rate": %d}' % 10**400,
        ):
            assert service.api("POST", "/api/clock", wrong).status == 400
        refused = service.run("clock", "advance", "1")
        assert refused.returncode == 4
        assert "start it with a virtual clock" in refused.stderr


@pytest.mark.spec("M21")
def test_faults_are_set_and_cleared(tmp_path: Path) -> None:
    """A fault affects a machine, a scope or all, for a count or until it is cleared."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:

        def statuses(count: int) -> list[int]:
            return [service.get("db_0").status for _ in range(count)]

        assert (
            service.run("fault", "set", "410", "--machine", "db_0", "--count", "2").returncode == 0
        )
        assert statuses(3) == [410, 410, 200]
        assert service.run("fault", "set", "404", "--scope", "db", "--count", "1").returncode == 0
        assert statuses(2) == [404, 200]
        service.run("fault", "set", "500")
        assert [fault["kind"] for fault in service.json("fault", "list")] == ["500"]
        assert "until cleared" in service.run("fault", "list").stdout
        assert statuses(2) == [500, 500]
        service.run("fault", "clear")
        assert service.run("fault", "list").stdout == "No faults found.\n"
        assert statuses(1) == [200]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("machine", "restart", "nobody"), 3, "there is no machine 'nobody'"),
        (("machine", "restart"), 2, "Missing argument"),
        (("machine", "evict", "db_0"), 4, "this is for Spot machines"),
        (("machine", "explode", "db_0"), 2, "No such command"),
        (("fault", "set", "418"), 2, "'410'"),
        (("fault", "set", "404", "--machine", "nobody"), 3, "there is no machine"),
        (("fault", "set", "delay", "--delay", "999"), 4, "delay_seconds must be a number from 0"),
        (("clock", "advance", "-1"), 2, "-1"),
        (("clock", "advance", "soon"), 2, "write 90, 90s, 15m"),
    ],
)
def test_wrong_usage(tmp_path: Path, words: tuple[str, ...], code: int, message: str) -> None:
    """The error says what is allowed; the exit code gives the kind of error."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        group, verb, *rest = words
        done = run_command(group, verb, "--data", str(service.data), *rest)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_api_requires_its_token(tmp_path: Path) -> None:
    """A request with a missing or wrong token gets 401 and has no effect."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        for path in ("/api/machines", "/api/clock"):
            response = fetch(f"{service.ready['console']}{path}")
            assert response.status == 401
            assert b"web_0" not in response.body
        valid = service.ready["token"]
        for token, expected in ((valid, 202), ("wrong", 401), ("", 401), (valid[:-1], 401)):
            response = service.api("POST", "/api/machines/db_0/restart", token=token)
            assert response.status == expected
        assert len(valid) >= 32


def test_a_repeated_request_has_no_further_effect(tmp_path: Path) -> None:
    """Requests with the same Idempotency-Key are the same operation (IC2)."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        service.poll("db_0")
        headers = {"Idempotency-Key": "one"}
        first, again = (
            service.api("POST", "/api/machines/db_0/restart", headers=headers) for _ in range(2)
        )
        assert (first.status, first.body) == (again.status, again.body)
        assert event_types(service)["db_0"] == ["Reboot"]


@pytest.mark.parametrize(
    "body", [b"[]", b"{", b'{"seconds": 5}', b'{"duration_seconds": "x"}', b"\xff", b"[" * 10_000]
)
def test_a_wrong_body_is_refused(tmp_path: Path, body: bytes) -> None:
    """It gets 400 and has no effect."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        service.poll("db_0")
        for action in ("freeze", "fail", "restart"):
            wrong = body if action == "freeze" else b'{"duration_seconds": 5}'
            response = service.api("POST", f"/api/machines/db_0/{action}", wrong)
            assert response.status == 400, response.body
        assert event_types(service)["db_0"] == []
