"""The command `fairwarning rollout`."""

import json
import shlex
from pathlib import Path

import pytest

from tests.fixtures.service import ServiceProcess

VIRTUAL = ("--memory", "--clock", "virtual")
HOSTS = """
[[machine]]
name = "left"
host = "rack1"
[[machine]]
name = "right"
host = "rack2"
"""


def pass_notice(service: ServiceProcess) -> None:
    """Advance the clock past the notice and the impact."""
    service.run("clock", "advance", "20m")


@pytest.mark.spec("E7")
def test_waiting_for_a_rollout(service: ServiceProcess) -> None:
    """It shows progress and pending events, domain by domain, and exits with 0."""
    service.poll("db_0")
    with service.start_command("rollout", "start", "db", "--kind", "reboot", "--wait") as waiting:
        assert waiting.read_until("started, reboot of 2 machines")
        lines = waiting.read_progress("The clock is stopped")
        assert any("Running: 0 of 2 done" in line for line in lines)
        assert any("db_0: Reboot not before" in line for line in lines)
        pass_notice(service)
        waiting.read_progress("1 of 2 done")
        pass_notice(service)
        code, rest, progress = waiting.wait()
        assert (code, rest) == (0, "")
        assert "Done: 2 of 2 done" in progress


@pytest.mark.spec("E7")
def test_a_rollout_is_paused_resumed_and_aborted(service: ServiceProcess) -> None:
    """Each command prints the progress; a watch ends when the rollout is aborted."""
    service.poll("db_0")
    started = service.json("rollout", "start", "db", "--id", "autumn", "--halt-percent", "0")
    assert (started["id"], started["kind"], started["halt_percent"]) == ("autumn", "freeze", 0)
    assert service.run("rollout", "pause", "autumn").stdout == "autumn: paused, 0 of 2 done\n"
    assert service.json("rollout", "resume", "autumn")["status"] == "Running"
    with (
        service.start_command("rollout", "status", "autumn", "--watch") as text_output,
        service.start_command("rollout", "status", "autumn", "--watch", "--json") as lines,
    ):
        text_output.read_until("Running: 0 of 2 done")
        lines.read_until("Running")
        assert service.json("rollout", "abort", "autumn", "-y")["status"] == "Aborted"
        code, output, _ = text_output.wait()
        assert (code, "Aborted" in output) == (0, True)
        last = json.loads(lines.read_until("Aborted")[-1])
        assert last["id"] == "autumn"
    assert service.json("event", "list") == []
    assert [r["status"] for r in service.json("rollout", "list")] == ["Aborted"]
    assert "Aborted" in service.run("rollout", "list").stdout
    shown = service.run("rollout", "status", "autumn").stdout
    assert "when more than 0% of machines have failed" in shown


@pytest.mark.spec("O14", "E7")
def test_the_status_says_what_the_rollout_waits_for(service: ServiceProcess) -> None:
    """Under the progress bar, and in JSON; a paused rollout says who paused it."""
    service.poll("db_0")
    service.json("rollout", "start", "db", "--kind", "reboot", "--id", "r")
    (sentence,) = service.json("rollout", "status", "r")["waits_for"]
    assert sentence.startswith("Reboot of db_0 in scope db, until ")
    *_, bar, last = service.run("rollout", "status", "r").stdout.splitlines()
    assert "Running: 0 of 2 done" in bar
    assert last == f"waits for {sentence}"
    service.run("rollout", "pause", "r")
    shown = service.run("rollout", "status", "r").stdout
    assert "waits for the rollout to be resumed: it was paused by operator" in shown
    pass_notice(service)
    service.run("rollout", "resume", "r")
    pass_notice(service)
    done = service.json("rollout", "status", "r")
    assert (done["status"], done["waits_for"]) == ("Done", [])
    assert "waits for" not in service.run("rollout", "status", "r").stdout


@pytest.mark.spec("O14", "E7")
def test_a_watch_says_what_is_in_the_way(service: ServiceProcess) -> None:
    """A rollout without events of its own still says what it waits for."""
    service.poll("db_0")
    service.json("machine", "restart", "db_0")
    service.json("rollout", "start", "db", "--id", "r")
    with service.start_command("rollout", "status", "r", "--watch") as watching:
        line = watching.read_until("which is in the way; tried again at ")[-1]
        assert line.strip().startswith("waits for Reboot of db_0 in scope db, until ")


def test_ctrl_c_stops_waiting_only(service: ServiceProcess) -> None:
    """The rollout continues, and the output says so; waiting for an aborted rollout fails."""
    service.poll("db_0")
    with service.start_command("rollout", "start", "db", "--id", "r", "--wait") as waiting:
        waiting.read_progress("0 of 2 done")
        code, _, errors = waiting.interrupt()
    assert code == 1
    *_, said, hint = errors.splitlines()
    assert said == "Stopped waiting; the rollout continues. To watch it again, run:"
    words = ["fairwarning", "rollout", "status", "--watch", "--data", str(service.data), "r"]
    assert shlex.split(hint)[-len(words) :] == words
    assert service.json("rollout", "status", "r")["status"] == "Running"
    service.poll("web_0")
    with service.start_command("rollout", "start", "web/0", "--id", "q", "--wait") as waiting:
        waiting.read_progress("of 3 done")
        service.run("rollout", "abort", "q", "--yes")
        code, _, errors = waiting.wait()
        assert (code, errors.splitlines()[-1]) == (1, "Error: rollout q was aborted")


def test_the_targets_of_a_rollout(tmp_path: Path) -> None:
    """A rollout covers everything, a set, or the machines of some hosts."""
    with ServiceProcess(tmp_path / "data", *VIRTUAL, fleet=HOSTS) as service:
        service.json("set", "create", "api", "--capacity", "2")
        assert service.json("rollout", "start", "--set", "api", "--id", "a")["machines"] == 2
        by_host = service.json(
            "rollout", "start", "left", "right", "--by-host", "--host", "rack2", "-y"
        )
        assert by_host["machines"] == 1
        every = service.json(
            "rollout", "start", "--batch", "1", "--duration", "30s", "--id", "all", "-y"
        )
        assert (every["machines"], every["batch"]) == (4, 1)
