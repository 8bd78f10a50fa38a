"""`fairwarning machine` and `fairwarning operation`, as they are typed."""

import json
from pathlib import Path

from tests.fixtures.service import ServiceProcess, run_command
from tests.fixtures.waiting import wait_until

VIRTUAL = ("--memory", "--clock", "virtual")


def test_machines_are_made_shown_and_listed(tmp_path: Path) -> None:
    """By name, by number, with everything that was said of them; the list can be narrowed."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        made = it.json(
            *("machine", "create", "gpu", "--count", "2", "--priority", "spot"),
            *("--eviction", "delete", "--size", "Standard_B2s", "--zone", "1"),
            *("--tag", "team=ml", "--tag", "note=a=b", "--host", "rack1"),
        )
        assert [one["name"] for one in made] == ["gpu_0", "gpu_1"]
        one = it.json("machine", "show", "gpu_1")
        assert (one["priority"], one["eviction"], one["zone"]) == ("Spot", "Delete", "1")
        assert (one["tags"], one["host"]) == ({"team": "ml", "note": "a=b"}, "rack1")
        assert it.run("machine", "create", "solo").stdout == "solo: created\n"
        names = [one["name"] for one in it.json("machine", "list")]
        assert {"gpu_0", "gpu_1", "solo", "web_0", "db_1"} <= set(names)
        assert [m["name"] for m in it.json("machine", "list", "--set", "web")] == [
            *("web_0", "web_1", "web_2"),
        ]
        assert [m["name"] for m in it.json("machine", "list", "--scope", "db")] == ["db_0", "db_1"]
        shown = it.run("machine", "show", "gpu_1").stdout
        assert "no, so there is no notice" in shown
        assert "note=a=b" in shown


ACTIONS: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "restart": ("Reboot", ()),
    "redeploy": ("Redeploy", ()),
    "freeze": ("Freeze", ("--seconds", "9s")),
    "migrate": ("Freeze", ("--seconds", "5")),
    "degrade": ("Redeploy", ("--days", "3")),
    "evict": ("Preempt", ()),
    "recommend": ("SpotRebalanceRecommendation", ()),
    "fail": (None, ()),
    "stop": (None, ()),
    "deallocate": (None, ()),
    "reimage": (None, ()),
    "start": (None, ()),
}


def test_each_action_is_announced_as_it_says(tmp_path: Path) -> None:
    """With its event while the machine polls, and an operation in any case."""
    fleet = "".join(
        f'[[machine]]\nname = "{action}"\npriority = "Spot"\n' for action in (*ACTIONS, "delete")
    )
    with ServiceProcess(tmp_path / "data", *VIRTUAL, fleet=fleet) as it:
        for action, (event, options) in ACTIONS.items():
            it.poll(action)
            (answer,) = it.json("machine", action, action, *options)
            assert answer["polled"] is True
            announced = [one["type"] for one in answer["events"] if one["status"] == "Scheduled"]
            assert announced == ([event] if event else []), action
            if action == "freeze":
                assert answer["events"][0]["duration_seconds"] == 9
        operation = it.json("operation", "show", answer["operation"]["id"])
        assert (operation["kind"], operation["actor"]) == ("Start", "operator")
        assert it.json("machine", "delete", "delete")[0]["events"] == []  # T4: it gives no notice


def test_waiting_ends_with_the_operation(tmp_path: Path) -> None:
    """A bar meanwhile, what is awaited beside it; 0 when it is done, 1 when it was called off."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        it.poll("db_0")
        with it.start_command("machine", "restart", "db_0", "db_1", "--wait") as waiting:
            said = waiting.read_until("Time stands still")
            assert said[0].startswith("db_0: accepted, operation ")
            assert any("0 of 2 done" in line for line in said)
            assert any("db_0: Reboot not before" in line for line in said)
            it.run("clock", "advance", "15m")
            it.run("clock", "advance", "5m")
            code, rest, told = waiting.wait()
            assert (code, told) == (0, "")
            assert "2 of 2 done" in rest
        with it.start_command("machine", "restart", "db_0", "--wait", "--json") as waiting:
            event = wait_for_event(it, "db_0")
            it.run("event", "cancel", event[:8])
            code, rest, _ = waiting.wait()
            assert code == 1
            assert json.loads(rest)[0]["operation"]["status"] == "Canceled"


def wait_for_event(it: ServiceProcess, machine: str) -> str:
    """The id of the event that another command is about to make."""
    events = wait_until(lambda: it.json("event", "list", "--machine", machine), "an event")
    return str(events[0]["id"])


def test_who_stops_waiting_is_told_how_to_go_on(tmp_path: Path) -> None:
    """Ctrl-C leaves the operation running; its story and its end can be had later."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        it.poll("db_0")
        with it.start_command("machine", "restart", "db_0", "--wait") as waiting:
            operation = waiting.read_until("accepted")[0].split()[-1]
            waiting.read_until("0 of 1 done")
            code, _, told = waiting.interrupt()
        assert code == 1
        assert f"fairwarning operation show {operation} --wait" in told
        assert it.json("operation", "show", operation)["status"] == "InProgress"
        with it.start_command("operation", "show", operation, "--wait") as waiting:
            waiting.read_until("0 of 1 done")
            it.run("clock", "advance", "20m")
            code, rest, _ = waiting.wait()
            assert (code, "Succeeded" in rest) == (0, True)
        story = it.json("operation", "explain", operation)
        assert (story["kind"], story["id"]) == ("operation", operation)
        assert story["steps"]
        assert story["title"] in it.run("operation", "explain", operation).stdout
        assert "db_0" in it.run("machine", "explain", "db_0").stdout


def test_the_second_of_two_is_refused(tmp_path: Path) -> None:
    """What was accepted before is still told, and the exit code is that of the refusal."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        it.poll("db_0")
        done = it.run("machine", "restart", "db_0", "nobody", "db_1", "--json")
        assert done.returncode == 3
        assert len(json.loads(done.stdout)) == 1
        assert [one["resources"] for one in it.json("event", "list")] == [["db_0"]]


def test_a_list_that_is_watched(tmp_path: Path) -> None:
    """A JSON line at first and at each change, a new table where nobody wants JSON."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        it.poll("db_0")
        with (
            it.start_command("machine", "list", "--scope", "db", "--watch", "--json") as scripts,
            it.start_command("machine", "list", "--watch") as people,
        ):
            (first,) = scripts.read_until("db_0")
            assert [one["events"] for one in json.loads(first)] == [[], []]
            people.read_until("FrontEnd")
            it.run("machine", "restart", "db_0")
            (second,) = scripts.read_until("db_0")
            assert json.loads(second)[0]["events"][0]["type"] == "Reboot"
            people.read_until("Reboot not before")
            for one in (scripts, people):
                assert one.interrupt()[0] == 0


def test_a_big_list_says_that_there_is_more(tmp_path: Path) -> None:
    """A table stops at 200 rows with a hint; JSON has all, over several pages."""
    fleet = '[[machine]]\nname = "a"\ncount = 1000\n[[machine]]\nname = "b"\ncount = 201\n'
    with ServiceProcess(tmp_path / "data", *VIRTUAL, fleet=fleet) as it:
        lines = it.run("machine", "list").stdout.splitlines()
        assert len(lines) == 202
        assert lines[-1] == "The first 200 machines; --json gives all."
        assert len({one["name"] for one in it.json("machine", "list")}) == 1201


WRONG = [
    (("machine", "show", "nobody"), 3, "there is no machine 'nobody'"),
    (("machine", "explain", "nobody"), 3, "there is no machine 'nobody'"),
    (("machine", "create", "batch_0"), 4, "batch_0"),
    (("machine", "create", "x", "--tag", "novalue"), 2, "is not K=V, such as env=prod"),
    (("machine", "create", "x", "--priority", "low"), 2, "spot"),
    (("machine", "freeze", "db_0", "--seconds", "soon"), 2, "write 90, 90s, 15m"),
    (("machine", "freeze", "db_0", "--seconds", "0.5"), 2, "whole number of seconds"),
    (("operation", "show", "nothing"), 3, "nothing"),
    (("operation", "explain", "nothing"), 3, "nothing"),
]


def test_wrong_words(tmp_path: Path) -> None:
    """A sentence that says what is allowed, and an exit code for scripts."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        for words, code, says in WRONG:
            it.assert_refused(words, code, says)


def test_a_watch_survives_a_restart_of_the_service(tmp_path: Path) -> None:
    """What happened meanwhile is shown once the service is back; nothing is shown twice."""
    data = tmp_path / "data"
    with ServiceProcess(data, "--demo", "--clock", "virtual") as it:
        it.poll("db_0")
        with it.start_command("event", "watch", "--json") as watching:
            watching.wait_until_following()
            it.run("machine", "restart", "db_0")
            seen = [json.loads(line)["number"] for line in watching.read_until('"Scheduled"')]
            it.kill()
            with ServiceProcess(data, "--clock", "virtual") as again:
                again.run("machine", "freeze", "db_1")
                lines = watching.read_until('"machine": "db_1"')
                numbers = seen + [json.loads(line)["number"] for line in lines]
                assert numbers == sorted(set(numbers))
                assert watching.interrupt()[0] == 0


def test_an_unknown_noun() -> None:
    """Wrong usage, with the way to help."""
    done = run_command("machines", "list")
    assert done.returncode == 2
    assert "No such command 'machines'" in done.stderr
