"""The commands of an operator about the service: status, journal, clock, faults and webhooks."""

import json
from pathlib import Path

import pytest

from tests.fixtures.receiver import Receiver, ReceiverResponse
from tests.fixtures.service import ServiceProcess

SCREEN = 24, 80  # lines and columns
RECEIVING = '[console]\nwebhook_hosts = ["127.0.0.1"]\n[[machine]]\nname = "vm"\n'


@pytest.mark.up("--demo", "--memory", "--clock", "virtual")
def test_the_status_of_the_demo(service: ServiceProcess) -> None:
    """Service, ports, fleet, what is due and what is wrong, on a small screen and as JSON."""
    service.run("fault", "set", "410", "--machine", "web_0")
    text = service.run("status").stdout
    lines = text.splitlines()
    for port in ("console", "metadata", "arm"):
        assert [line for line in lines if line.split() == [port, service.ready[port]]]
    for part in ("ready", "virtual, stopped", "11 running, in 6 scopes", "1 Redeploy scheduled"):
        assert part in text
    assert text.index("due next") < text.index("  mail: Redeploy not before")
    assert text.index("wrong") < text.index("1 injected fault; see `")
    assert "1 machine without notice, because no machine of the scope polls" in text
    assert len(lines) <= SCREEN[0]
    status = service.json("status")
    assert status["ports"] == {key: service.ready[key] for key in ("console", "metadata", "arm")}
    assert status["fleet"]["machines"] == 11
    assert [event["resources"] for event in status["due"]] == [["mail"], ["api_0"]]
    assert len(status["problems"]) == 2
    assert any("machine list --not-polled" in problem for problem in status["problems"])


def test_nothing_is_wrong(service: ServiceProcess) -> None:
    """It says so, and what is due only if something is."""
    for machine in ("web_0", "db_0", "batch_0", "FrontEnd_IN_0"):
        service.poll(machine)
    lines = service.run("status").stdout.splitlines()
    assert lines[-2:] == ["wrong", "  nothing"]
    assert "due next" not in lines


# --- The journal ----------------------------------------------------------------------------------


def types(service: ServiceProcess, *words: str) -> list[str]:
    """The types of the lines that `journal` prints."""
    done = service.run("journal", *words, "--columns", "type", "-o", "csv")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1:]


def test_the_journal(service: ServiceProcess) -> None:
    """The newest line is the last; every filter of the API has an option."""
    service.poll("web_0")
    service.json("machine", "restart", "web_0")
    service.advance(3600)
    last = types(service, "--about", "web_0", "--limit", "2")
    assert "Ended" in last
    numbers = [line["number"] for line in json.loads(service.run("journal", "-o", "json").stdout)]
    assert numbers == sorted(numbers)
    assert types(service, "--type", "scheduled") == ["Scheduled"]
    assert types(service, "--scope", "web/0", "--type", "Scheduled") == ["Scheduled"]
    assert types(service, "--actor", "machine", "--type", "Scheduled") == []
    assert types(service, "--text", "reboot", "--type", "Scheduled") == ["Scheduled"]
    assert types(service, "--until", "2020-01-01T00:00:00Z") == []
    assert types(service, "--since", "2020-01-01T00:00:00Z", "--limit", "1") == types(
        service, "--limit", "1"
    )


# --- Clock and faults ---------------------------------------------------------------------------


@pytest.mark.spec("O5")
def test_a_virtual_clock(service: ServiceProcess) -> None:
    """It can be shown, advanced, run and stopped; an event starts at its time."""
    service.poll("db_0")
    service.run("machine", "restart", "db_0")
    before = service.json("clock", "show")
    assert (before["virtual"], before["rate"]) == (True, 0.0)
    assert service.run("clock", "advance", "14m59s").returncode == 0
    assert service.poll("db_0")["Events"][0]["EventStatus"] == "Scheduled"
    assert "stopped" in service.run("clock", "advance", "1").stdout
    assert service.poll("db_0")["Events"][0]["EventStatus"] == "Started"
    service.run("clock", "advance", "60")
    assert service.poll("db_0")["Events"] == []
    assert "60 times real time" in service.run("clock", "run", "60").stdout
    assert "stopped" in service.run("clock", "freeze").stdout


@pytest.mark.spec("M21")
def test_a_stopped_clock_is_pointed_out(service: ServiceProcess) -> None:
    """By every command of a user who waits for what the clock brings, until it runs."""
    service.poll("db_0")
    service.json("machine", "restart", "db_0")
    inside = ("db_0", "--", "true")
    hint = "The clock is stopped; advance it with `"
    for rate, count in ((0, 1), (1, 0)):
        service.ok("POST", "/api/clock", {"rate": rate})
        assert service.run("status").stdout.count(hint) == count
        assert service.run("machine", "explain", "db_0").stdout.count(hint) == count
        assert service.run("exec", *inside).stderr.count(hint) == count
        assert hint not in service.run("exec", "--quiet", *inside).stderr


def test_faults_are_set_and_cleared(service: ServiceProcess) -> None:
    """A fault affects a machine, a scope or all, for a count or until it is cleared."""

    def statuses(count: int) -> list[int]:
        return [service.get("db_0").status for _ in range(count)]

    assert service.run("fault", "set", "410", "--machine", "db_0", "--count", "2").returncode == 0
    assert statuses(3) == [410, 410, 200]
    assert service.run("fault", "set", "404", "--scope", "db", "--count", "1").returncode == 0
    assert statuses(2) == [404, 200]
    service.run("fault", "set", "500")
    assert [fault["kind"] for fault in service.json("fault", "list")] == ["500"]
    assert "until cleared" in service.run("fault", "list").stdout
    assert statuses(2) == [500, 500]
    service.run("fault", "clear")
    assert service.run("fault", "list").stderr == "No faults found.\n"
    assert statuses(1) == [200]


def test_an_advance_in_a_pipe_prints_only_the_time(service: ServiceProcess) -> None:
    """The progress of a long one is for a terminal."""
    done = service.run("clock", "advance", "30d")
    assert done.stderr == ""
    assert done.stdout.endswith("Z, virtual, stopped\n")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.up("--memory")
def test_an_advance_that_is_refused(service: ServiceProcess) -> None:
    """The error of the thread that sends it ends the command."""
    service.assert_refused(("clock", "advance", "1m"), 4, "this fleet runs in real time")


# --- Webhooks -----------------------------------------------------------------------------------


def test_a_webhook_is_created_listed_tested_and_removed(tmp_path: Path) -> None:
    """A generated secret is shown once; the caller can provide one."""
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery staple correct horse\n")
    with (
        Receiver() as receiver,
        ServiceProcess(tmp_path / "data", "--memory", fleet=RECEIVING) as service,
    ):
        url = receiver.url
        created = service.run("webhook", "create", "pager", url)
        assert created.returncode == 0, created.stderr
        assert "Secret (shown only once): " in created.stdout
        own = service.json("webhook", "create", "own", url, "--secret-file", str(secret))
        assert own["name"] == "own"
        assert {hook["name"] for hook in service.json("webhook", "list")} == {"pager", "own"}
        listed = service.run("webhook", "list").stdout
        assert f"http://127.0.0.1:{receiver.port} " in listed
        assert "/hook" not in listed, "the path may contain a key"
        assert service.json("webhook", "test", "pager") == {"status": 200}
        receiver.answer = lambda _: ReceiverResponse(500)
        failed = service.run("webhook", "test", "pager")
        assert (failed.returncode, failed.stdout) == (1, "pager: target answered 500\n")
        assert service.run("webhook", "delete", "pager").stdout == "pager: deleted\n"
        assert [hook["name"] for hook in service.json("webhook", "list")] == ["own"]
        assert receiver.posts
