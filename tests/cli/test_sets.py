"""The command `fairwarning set`."""

import pytest

from tests.fixtures.service import ServiceProcess


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
