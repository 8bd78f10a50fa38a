"""`fairwarning rollout`, as it is typed."""

import json
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


def let_it_happen(it: ServiceProcess) -> None:
    """The notice passes, and what was announced takes its time."""
    it.run("clock", "advance", "20m")


@pytest.mark.spec("E7")
def test_a_rollout_is_waited_for(tmp_path: Path) -> None:
    """A domain after another, with a bar and what is pending; 0 at its end."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        it.poll("db_0")
        with it.start_command("rollout", "start", "db", "--kind", "reboot", "--wait") as waiting:
            said = waiting.read_until("Time stands still")
            assert "started, reboot of 2 machines" in said[0]
            assert any("Running: 0 of 2 done" in line for line in said)
            assert any("db_0: Reboot not before" in line for line in said)
            let_it_happen(it)
            said = waiting.read_until("1 of 2 done")
            let_it_happen(it)
            code, rest, told = waiting.wait()
            assert (code, told) == (0, "")
            assert "Done: 2 of 2 done" in rest


@pytest.mark.spec("E7")
def test_a_rollout_is_paused_resumed_and_aborted(tmp_path: Path) -> None:
    """Each says how far it is; an aborted one makes who waits fail."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        it.poll("db_0")
        started = it.json("rollout", "start", "db", "--id", "autumn", "--halt-percent", "0")
        assert (started["id"], started["kind"], started["halt_percent"]) == ("autumn", "freeze", 0)
        assert it.run("rollout", "pause", "autumn").stdout == "autumn: paused, 0 of 2 done\n"
        assert it.json("rollout", "resume", "autumn")["status"] == "Running"
        with (
            it.start_command("rollout", "status", "autumn", "--watch") as people,
            it.start_command("rollout", "status", "autumn", "--watch", "--json") as scripts,
        ):
            people.read_until("Running: 0 of 2 done")
            scripts.read_until("Running")
            assert it.json("rollout", "abort", "autumn")["status"] == "Aborted"
            code, said, _ = people.wait()
            assert (code, "Aborted" in said) == (0, True)
            last = json.loads(scripts.read_until("Aborted")[-1])
            assert last["id"] == "autumn"
        assert it.json("event", "list") == []
        assert [one["status"] for one in it.json("rollout", "status")] == ["Aborted"]
        assert "Aborted" in it.run("rollout", "status").stdout
        shown = it.run("rollout", "status", "autumn").stdout
        assert "when more than 0% have failed" in shown


def test_who_stops_waiting_leaves_it_running(tmp_path: Path) -> None:
    """Ctrl-C says so; waiting for one that is aborted meanwhile fails."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        it.poll("db_0")
        with it.start_command("rollout", "start", "db", "--id", "r", "--wait") as waiting:
            waiting.read_until("0 of 2 done")
            code, _, told = waiting.interrupt()
        assert (code, told) == (
            1, "It goes on without you: `fairwarning rollout status r --watch`\n",
        )  # fmt: skip
        assert it.json("rollout", "status", "r")["status"] == "Running"
        it.poll("web_0")
        with it.start_command("rollout", "start", "web/0", "--id", "q", "--wait") as waiting:
            waiting.read_until("of 3 done")
            it.run("rollout", "abort", "q")
            code, _, told = waiting.wait()
            assert (code, told) == (1, "Error: it was aborted\n")


def test_what_a_rollout_is_over(tmp_path: Path) -> None:
    """Everything, a set, some hosts; a host at a time."""
    with ServiceProcess(tmp_path / "data", *VIRTUAL, fleet=HOSTS) as it:
        it.json("set", "create", "api", "--capacity", "2")
        assert it.json("rollout", "start", "--set", "api", "--id", "a")["machines"] == 2
        one = it.json("rollout", "start", "left", "right", "--by-host", "--host", "rack2")
        assert one["machines"] == 1
        every = it.json("rollout", "start", "--batch", "1", "--seconds", "30s", "--id", "all")
        assert (every["machines"], every["batch"]) == (4, 1)


WRONG = [
    (("rollout", "status", "nothing"), 3, "nothing"),
    (("rollout", "pause", "nothing"), 3, "nothing"),
    (("rollout", "start", "nowhere"), 3, "nowhere"),
    (("rollout", "start", "--set", "nowhere"), 3, "nowhere"),
    (("rollout", "start", "--kind", "explode"), 2, "redeploy"),
    (("rollout", "start", "--halt-percent", "101"), 2, "101"),
    (("rollout", "start", "db", "--by-host"), 4, "has no host"),
    (("rollout", "start", "--batch", "101"), 4, "100"),
]


def test_wrong_words(tmp_path: Path) -> None:
    """A sentence that says what is allowed, and an exit code for scripts."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        for words, code, says in WRONG:
            it.assert_refused(words, code, says)
