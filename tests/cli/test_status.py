"""`status` shows the service on one screen, and `journal` what happened."""

import json

import pytest

from tests.cli.conftest import SAMPLE
from tests.fixtures.service import ServiceProcess

SCREEN = 24, 80  # lines and columns


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


@pytest.mark.up(*SAMPLE)
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


@pytest.mark.up(*SAMPLE)
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
