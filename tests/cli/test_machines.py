"""The commands `fairwarning machine`, `operation` and `set`."""

import json
from pathlib import Path

import pytest

from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until

VIRTUAL = ("--memory", "--clock", "virtual")


def test_machines_are_created_shown_and_listed(service: ServiceProcess) -> None:
    """Machines have the given settings."""
    created = service.json(
        *("machine", "create", "gpu", "--count", "2", "--priority", "spot"),
        *("--eviction", "delete", "--size", "Standard_B2s", "--zone", "1"),
        *("--tag", "team=ml", "--tag", "note=a=b", "--host", "rack1"),
    )
    assert [machine["name"] for machine in created] == ["gpu_0", "gpu_1"]
    gpu = service.json("machine", "show", "gpu_1")
    assert (gpu["priority"], gpu["eviction"], gpu["zone"]) == ("Spot", "Delete", "1")
    assert (gpu["tags"], gpu["host"]) == ({"team": "ml", "note": "a=b"}, "rack1")
    assert service.run("machine", "create", "solo").stdout == "solo: created\n"
    names = [machine["name"] for machine in service.json("machine", "list")]
    assert {"gpu_0", "gpu_1", "solo", "web_0", "db_1"} <= set(names)
    shown = service.run("machine", "show", "gpu_1").stdout
    assert "no (events give no notice)" in shown
    assert "note=a=b" in shown


def test_a_scope_without_polls(service: ServiceProcess) -> None:
    """It gets no notice, and the output says so (M15), but not of what never has notice."""
    no_notice = "no notice, because no machine of the scope polls"
    assert no_notice in service.run("machine", "restart", "db_0").stdout
    assert service.json("machine", "show", "db_0")["events"] == []
    for machine, *words in (
        ("web_0", "start"),
        ("web_1", "stop"),
        ("web_2", "reimage"),
        ("db_1", "deallocate"),
        ("batch_0", "fail", "--yes"),
        ("FrontEnd_IN_0", "delete", "--yes"),
    ):
        output = service.run("machine", *words, machine).stdout
        assert output.startswith(f"{machine}: accepted, operation "), output
        assert no_notice not in output


ACTIONS: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "restart": ("Reboot", ()),
    "redeploy": ("Redeploy", ()),
    "freeze": ("Freeze", ("--duration", "9s")),
    "migrate": ("Freeze", ("--duration", "5")),
    "degrade": ("Redeploy", ("--days", "3")),
    "evict": ("Preempt", ()),
    "recommend": ("SpotRebalanceRecommendation", ()),
    "fail": (None, ("--yes",)),
    "stop": (None, ()),
    "deallocate": (None, ()),
    "reimage": (None, ()),
    "start": (None, ()),
}


def test_each_action_has_its_event(tmp_path: Path) -> None:
    """Each action starts an operation and schedules its event, if the machine polls."""
    fleet = "".join(
        f'[[machine]]\nname = "{action}"\npriority = "Spot"\n' for action in (*ACTIONS, "delete")
    )
    with ServiceProcess(tmp_path / "data", *VIRTUAL, fleet=fleet) as service:
        for action, (event, options) in ACTIONS.items():
            service.poll(action)
            (answer,) = service.json("machine", action, action, *options)
            assert answer["polled"] is True
            scheduled = [e["type"] for e in answer["events"] if e["status"] == "Scheduled"]
            assert scheduled == ([event] if event else []), action
            if action == "freeze":
                assert answer["events"][0]["duration_seconds"] == 9
        operation = service.json("operation", "show", answer["operation"]["id"])
        assert (operation["kind"], operation["actor"]) == ("Start", "operator")
        assert (
            service.json("machine", "delete", "delete", "--yes")[0]["events"] == []
        )  # T4: it gives no notice


def test_wait_ends_with_the_operation(service: ServiceProcess) -> None:
    """It shows progress and pending events; it exits with 0 on success, 1 on cancellation."""
    service.poll("db_0")
    with service.start_command("machine", "restart", "db_0", "db_1", "--wait") as waiting:
        first, second = waiting.read_until("db_1: accepted, operation ")
        assert first.startswith("db_0: accepted, operation ")
        assert second.startswith("db_1")
        lines = waiting.read_progress("The clock is stopped")
        assert any("0 of 2 done" in line for line in lines)
        assert any("db_0: Reboot not before" in line for line in lines)
        service.run("clock", "advance", "15m")
        service.run("clock", "advance", "5m")
        code, rest, progress = waiting.wait()
        assert (code, rest) == (0, "")
        assert "2 of 2 done" in progress
    with service.start_command("machine", "restart", "db_0", "--wait", "--json") as waiting:
        event = wait_for_event(service, "db_0")
        service.run("event", "cancel", event[:8])
        code, rest, _ = waiting.wait()
        assert code == 1
        assert json.loads(rest)[0]["operation"]["status"] == "Canceled"


def wait_for_event(service: ServiceProcess, machine: str) -> str:
    """Wait for the event that another command schedules; return its id."""
    events = wait_until(lambda: service.json("event", "list", "--machine", machine), "an event")
    return str(events[0]["id"])


def test_ctrl_c_stops_waiting_only(service: ServiceProcess) -> None:
    """The operation continues; the output says how to wait for it again."""
    service.poll("db_0")
    with service.start_command("machine", "restart", "db_0", "--wait") as waiting:
        operation = waiting.read_until("accepted")[0].split()[-1]
        waiting.read_progress("0 of 1 done")
        code, _, errors = waiting.interrupt()
    assert code == 1
    assert errors.endswith(f" {operation}\n")
    with service.start_command("operation", "show", operation, "--wait") as waiting:
        waiting.read_progress("0 of 1 done")
        service.run("clock", "advance", "20m")
        code, rest, _ = waiting.wait()
        assert (code, "Succeeded" in rest) == (0, True)
    history = service.json("operation", "explain", operation)
    assert (history["kind"], history["id"]) == ("operation", operation)
    assert history["steps"]
    assert history["title"] in service.run("operation", "explain", operation).stdout
    assert "db_0" in service.run("machine", "explain", "db_0").stdout


def test_one_of_several_machines_is_refused(service: ServiceProcess) -> None:
    """All are tried; the output has those that succeed, the exit code is that of the refusal."""
    service.poll("db_0")
    done = service.run("machine", "restart", "db_0", "nobody", "db_1", "--json")
    assert done.returncode == 3
    assert len(json.loads(done.stdout)) == 2
    assert done.stderr.splitlines()[-1] == "1 of 3 failed."
    told = [event["resources"] for event in service.json("event", "list")]
    assert sorted(told) == [["db_0"], ["db_1"]]


def test_watching_a_list(service: ServiceProcess) -> None:
    """It prints the list at first and at each change, as JSON lines or as tables."""
    service.poll("db_0")
    with (
        service.start_command(
            "machine", "list", "--scope", "db", "--watch", "--json"
        ) as json_output,
        service.start_command("machine", "list", "--watch") as text_output,
    ):
        (first,) = json_output.read_until("db_0")
        assert [machine["events"] for machine in json.loads(first)] == [[], []]
        text_output.read_until("FrontEnd")
        service.run("machine", "restart", "db_0")
        (second,) = json_output.read_until("db_0")
        assert json.loads(second)[0]["events"][0]["type"] == "Reboot"
        text_output.read_until("Reboot not before")
        for watching in (json_output, text_output):
            assert watching.interrupt()[0] == 0


# --- Scale sets ---------------------------------------------------------------------------------


def names(service: ServiceProcess, name: str) -> list[str]:
    """Return the names of the instances of a set."""
    return [machine["name"] for machine in service.json("machine", "list", "--set", name)]


@pytest.mark.spec("T1")
def test_a_set_has_the_given_settings(service: ServiceProcess) -> None:
    """The options of `set create` are those of the set."""
    created = service.json(
        *("set", "create", "api", "--capacity", "3", "--terminate-notice", "7m"),
        *("--upgrade", "automatic", "--scale-in", "oldestvm", "--tag", "env=prod"),
        *("--size", "Standard_B2s"),
    )
    assert (created["capacity"], created["terminate_notice"]) == (3, "PT7M")
    assert (created["upgrade"], created["scale_in"]) == ("Automatic", "OldestVM")
    assert (created["size"], created["tags"]) == ("Standard_B2s", {"env": "prod"})
    assert names(service, "api") == ["api_0", "api_1", "api_2"]
    assert {scale_set["name"] for scale_set in service.json("set", "list")} == {"api", "web"}
    assert service.json("set", "show", "api") == created
    assert "PT7M" in service.run("set", "show", "api").stdout
    table = service.run("set", "list").stdout.splitlines()
    assert table[0].split() == ["set", "capacity", "notice", "upgrade", "model", "outdated"]


def test_deleted_instances_get_notice(service: ServiceProcess) -> None:
    """Scale-in, deleting instances and deleting the set; --wait ends when they are deleted."""
    service.poll("web_0")
    with service.start_command("set", "scale", "web", "2", "--wait") as waiting:
        lines = waiting.read_until("Terminate")
        assert lines[0].startswith("accepted, operation ")
        waiting.read_progress("0 of 1 done")
        service.run("clock", "advance", "6m")
        assert waiting.wait()[0] == 0
    left = names(service, "web")
    assert len(left) == 2
    answer = service.json(
        "set", "delete-instances", "web", left[0], left[1].rpartition("_")[2], "--yes"
    )
    deleted = [name for event in answer["events"] for name in event["resources"]]
    assert sorted(deleted) == left
    types = [event["type"] for event in service.json("event", "list")]
    assert types == ["Terminate"] * len(answer["events"])
    service.run("clock", "advance", "6m")
    assert names(service, "web") == []
    grown = service.json("set", "scale", "web", "1", "--wait", "--yes")
    assert grown["operation"]["status"] == "Succeeded"
    with service.start_command("set", "delete", "web", "--wait", "--yes") as waiting:
        waiting.read_until("accepted")
        service.run("clock", "advance", "6m")
        assert waiting.wait()[0] == 0
    assert service.run("set", "show", "web").returncode == 3


@pytest.mark.spec("T3", "M19")
def test_a_new_model_reaches_instances_by_an_upgrade(service: ServiceProcess) -> None:
    """Its notice and tags; until then instances are outdated, and the output says what to run."""
    target = "/metadata/instance/compute/tags?api-version=2021-02-01&format=text"
    words = ("--terminate-notice", "10m", "--tag", "env=prod", "--tag", "team=a")
    output = service.run("set", "update", "web", *words).stdout
    assert "3 instances are outdated; run `fairwarning set upgrade " in output
    assert service.json("machine", "show", "web_0")["terminate_notice"] == "PT5M"
    assert service.json("set", "upgrade", "web", "web_0", "1")["outdated"] == ["web_2"]
    assert service.json("machine", "show", "web_0")["terminate_notice"] == "PT10M"
    assert service.get("web_0", target).text == "env:prod;team:a"
    assert service.get("web_2", target).text == ""
    service.json("set", "scale", "web", "4")
    assert service.get("web_3", target).text == "env:prod;team:a"
    assert "all instances are up to date" in service.run("set", "upgrade", "web").stdout
    none = service.json("set", "update", "web", "--terminate-notice", "none")
    assert none["terminate_notice"] is None
