"""An operator's first handle on a fleet: machines, time and faults, as they are typed."""

import json
from pathlib import Path

import pytest

from tests.fixtures.http import fetch
from tests.fixtures.service import ServiceProcess, run_command


def listed(it: ServiceProcess) -> dict[str, list[str]]:
    """The machines, each with the types of what is announced for it."""
    machines = json.loads(it.run("machine", "list", "--json").stdout)
    return {one["name"]: [event["type"] for event in one["events"]] for one in machines}


def test_what_an_operator_does_is_announced_to_who_polls(tmp_path: Path) -> None:
    """Each action gives its event, at once visible to the machine and in the list."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory", "--clock", "virtual") as it:
        for machine in ("web_0", "db_0", "batch_0"):
            it.poll(machine)
        done = it.run("machine", "restart", "web_0", "db_0")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("web_0: accepted, operation ")
        assert it.run("machine", "freeze", "web_1", "--seconds", "7").returncode == 0
        assert it.run("machine", "evict", "batch_0").returncode == 0
        assert it.run("machine", "delete", "web_2").returncode == 0
        found = listed(it)
        assert found["web_0"] == ["Reboot"]
        assert found["web_1"] == ["Freeze"]
        assert found["web_2"] == ["Terminate"]
        assert found["batch_0"] == ["Preempt"]
        seen = {event["EventType"]: event for event in it.poll("web_0")["Events"]}
        assert seen["Freeze"]["DurationInSeconds"] == 7
        table = it.run("machine", "list").stdout
        assert "Reboot not before " in table


def test_nobody_polls(tmp_path: Path) -> None:
    """Then there is no notice, and the operator is told so (M15)."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        assert "nobody polls there" in it.run("machine", "restart", "db_0").stdout
        assert listed(it)["db_0"] == []


def test_virtual_time_is_moved_by_hand(tmp_path: Path) -> None:
    """Show, advance, run and freeze; an event starts when its time has come."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory", "--clock", "virtual") as it:
        it.poll("db_0")
        it.run("machine", "restart", "db_0")
        before = json.loads(it.run("clock", "show", "--json").stdout)
        assert (before["virtual"], before["rate"]) == (True, 0.0)
        assert it.run("clock", "advance", "14m59s").returncode == 0
        assert it.poll("db_0")["Events"][0]["EventStatus"] == "Scheduled"
        assert "standing still" in it.run("clock", "advance", "1").stdout
        assert it.poll("db_0")["Events"][0]["EventStatus"] == "Started"
        it.run("clock", "advance", "60")
        assert it.poll("db_0")["Events"] == []
        assert "60 times real time" in it.run("clock", "run", "60").stdout
        assert "standing still" in it.run("clock", "freeze").stdout
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        for wrong in (b'{"advance": true}', b'{"advance": 1e400}', b'{"rate": %d}' % 10**400):
            assert it.api("POST", "/api/clock", wrong).status == 400
        refused = it.run("clock", "advance", "1")
        assert refused.returncode == 4
        assert "start it with a virtual clock" in refused.stderr


@pytest.mark.spec("M21")
def test_faults_are_asked_for_and_cleared(tmp_path: Path) -> None:
    """For one machine and a count, for all until cleared."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:

        def statuses(count: int) -> list[int]:
            return [it.get("db_0").status for _ in range(count)]

        assert it.run("fault", "set", "410", "--machine", "db_0", "--count", "2").returncode == 0
        assert statuses(3) == [410, 410, 200]
        assert it.run("fault", "set", "404", "--scope", "db", "--count", "1").returncode == 0
        assert statuses(2) == [404, 200]
        it.run("fault", "set", "500")
        assert [one["kind"] for one in it.json("fault", "list")] == ["500"]
        assert "until cleared" in it.run("fault", "list").stdout
        assert statuses(2) == [500, 500]
        it.run("fault", "clear")
        assert it.run("fault", "list").stdout == "No faults.\n"
        assert statuses(1) == [200]


@pytest.mark.parametrize(
    ("words", "code", "says"),
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
def test_wrong_words(tmp_path: Path, words: tuple[str, ...], code: int, says: str) -> None:
    """A sentence that says what is allowed, and an exit code for scripts."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        noun, verb, *rest = words
        answer = run_command(noun, verb, "--data", str(it.data), *rest)
    assert answer.returncode == code
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_api_demands_its_token(tmp_path: Path) -> None:
    """Without it, or with another, nothing is told and nothing happens; health needs none."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        for path in ("/api/machines", "/api/clock"):
            response = fetch(f"{it.ready['console']}{path}")
            assert response.status == 401
            assert b"web_0" not in response.body
        right = it.ready["token"]
        for token, expected in ((right, 202), ("wrong", 401), ("", 401), (right[:-1], 401)):
            response = it.api("POST", "/api/machines/db_0/restart", token=token)
            assert response.status == expected
        assert len(right) >= 32


def test_a_repeated_request_has_the_effect_of_one(tmp_path: Path) -> None:
    """The same Idempotency-Key is the same operation (IC2)."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        it.poll("db_0")
        headers = {"Idempotency-Key": "one"}
        first, again = (
            it.api("POST", "/api/machines/db_0/restart", headers=headers) for _ in range(2)
        )
        assert (first.status, first.body) == (again.status, again.body)
        assert listed(it)["db_0"] == ["Reboot"]


@pytest.mark.parametrize(
    "body", [b"[]", b"{", b'{"seconds": 5}', b'{"duration_seconds": "x"}', b"\xff", b"[" * 10_000]
)
def test_a_wrong_body_is_refused(tmp_path: Path, body: bytes) -> None:
    """400 and what is allowed; nothing happens."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        it.poll("db_0")
        for action in ("freeze", "fail", "restart"):
            wrong = body if action == "freeze" else b'{"duration_seconds": 5}'
            response = it.api("POST", f"/api/machines/db_0/{action}", wrong)
            assert response.status == 400, response.body
        assert listed(it)["db_0"] == []
