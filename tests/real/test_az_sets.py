"""The unmodified Azure CLI and scale sets: what it is told to do, their machines read first."""

import json
from pathlib import Path

import pytest

from tests.fixtures.waiting import wait_until
from tests.real.azure_cli import GROUP, NEW, AzureCliService, assert_succeeds

SET = ("--resource-group", GROUP, "--name", "web")
NOTICE = "virtualMachineProfile.scheduledEventsProfile.terminateNotificationProfile"
UPDATE = ("vmss", "update", *SET, "--enable-terminate-notification", "true")

FLEET = """
[cloud]
group = "rg"

[[scale_set]]
name = "web"
capacity = 3
"""
SPOT = FLEET + 'priority = "Spot"\neviction = "Delete"\n'


def instances(it: AzureCliService, what: str) -> dict[str, object]:
    """One property of every instance."""
    shown = it.ask("vmss", "list-instances", *SET, "--query", f"[].[instanceId, {what}]")
    return dict(shown)


def body(notice: object) -> str:
    """What the documentation sends: of the whole set, only its notice."""
    profile = {"scheduledEventsProfile": {"terminateNotificationProfile": notice}}
    return json.dumps({"properties": {"virtualMachineProfile": profile}})


@pytest.mark.spec("C2", "C1", "T1", "T4")
@pytest.mark.usefixtures("az")
def test_a_delete_waits_for_its_approval(tmp_path: Path) -> None:
    """The documentation's commands: all of the set see who is to go, and one of them agrees."""
    with AzureCliService(tmp_path / "data") as it:
        it.ask("group", "create", "--name", GROUP, "--location", "westus")
        notice = ("--terminate-notification-time", "10")
        made = it.ask("vmss", "create", *SET, *NEW, *notice)["VMSS"]
        assert made["provisioningState"] == "Succeeded"
        assert list(it.machines()) == ["web_0", "web_1"]
        assert [it.events(machine) for machine in ("web_0", "web_1")] == [[], []]

        delete = it.start_az("vmss", "delete-instances", *SET, "--instance-ids", "1")
        event = it.announced("web_0", "Terminate")
        assert event == it.announced("web_1", "Terminate")
        assert (event["Resources"], event["EventSource"]) == (["web_1"], "User")
        assert it.notice(event) == 600
        assert instances(it, "provisioningState") == {"0": "Succeeded", "1": "Deleting"}
        assert delete.is_running()

        it.approve("web_1", event["EventId"])
        assert it.announced("web_0", "Terminate")["EventStatus"] == "Started"
        it.advance(30)
        assert_succeeds(delete)
        assert it.events("web_0") == []
        assert it.get("web_1").status == 404
        assert list(instances(it, "name")) == ["0"]


@pytest.mark.spec("C2", "T1", "T3")
@pytest.mark.usefixtures("az")
def test_a_new_notice_is_for_those_that_are_brought_to_it(tmp_path: Path) -> None:
    """Existing instances keep theirs until they are upgraded; new ones and no event have it."""
    with AzureCliService(tmp_path / "data") as it:
        it.ask("group", "create", "--name", GROUP, "--location", "westus")
        create = ("vmss", "create", *SET, *NEW, "--orchestration-mode", "Uniform")
        it.ask(*create, "--instance-count", "3", "--terminate-notification-time", "10")
        it.events("web_0")
        delete = ("vmss", "delete-instances", *SET, "--no-wait", "--instance-ids")
        it.ask(*delete, "0")
        first = it.announced("web_1", "Terminate")
        assert (first["Resources"], it.notice(first)) == (["web_0"], 600)

        # While an event stands a set may be changed: what was asked for is done, and over.
        changed = it.ask(*UPDATE, "--terminate-notification-time", "15", "--query", NOTICE)
        assert changed == {"enable": True, "notBeforeTimeout": "PT15M"}
        it.ask("vmss", "scale", *SET, "--new-capacity", "3")
        latest = {"0": False, "1": False, "2": False, "3": True}
        assert instances(it, "latestModelApplied") == latest
        it.ask(*delete, "1")
        it.ask("vmss", "update-instances", *SET, "--instance-ids", "*")
        assert set(instances(it, "latestModelApplied").values()) == {True}
        it.ask(*delete, "2")
        events = it.events("web_3")
        notices = {event["Resources"][0]: it.notice(event) for event in events}
        assert notices == {"web_0": 600, "web_1": 600, "web_2": 900}
        assert first in events


@pytest.mark.spec("C2", "T1", "T2")
@pytest.mark.usefixtures("az")
def test_a_body_as_the_documentation_has_it(tmp_path: Path) -> None:
    """It says nothing but the notice. Before its api-version it is refused, and so is too much."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    with AzureCliService(tmp_path / "data", str(fleet)) as it:
        path = it.path("virtualMachineScaleSets/web")
        put = ("rest", "--method", "put", "--url", f"{path}?api-version=2019-03-01", "--body")
        earlier = ("rest", "--method", "put", "--url", f"{path}?api-version=2018-10-01", "--body")
        ten = {"notBeforeTimeout": "PT10M", "enable": True}
        member = "Could not find member 'scheduledEventsProfile' on object of type"
        assert f"\"{member} 'VirtualMachineProfile'\"" in it.refused(*earlier, body(ten))
        assert it.ask("vmss", "show", *SET, "--query", NOTICE) is None
        it.ask(*put, body({"enable": True}))
        five = {"notBeforeTimeout": "PT5M", "enable": True}
        assert it.ask("vmss", "show", *SET, "--query", NOTICE) == five

        it.ask(*put, body(ten))
        said = it.refused(*UPDATE, "--terminate-notification-time", "20")
        assert said.startswith("ERROR: (InvalidParameter) The value 'PT20M' of parameter")
        assert "PT5M to PT15M" in said
        shown = it.ask("vmss", "show", *SET)
        kept = shown["virtualMachineProfile"]["scheduledEventsProfile"]
        assert kept["terminateNotificationProfile"] == ten
        assert shown["sku"]["capacity"] == 3

        it.ask("vmss", "update-instances", *SET, "--instance-ids", "*")
        it.events("web_0")
        it.ask("vmss", "delete-instances", *SET, "--instance-ids", "2", "--no-wait")
        assert it.notice(it.announced("web_0", "Terminate")) == 600


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_what_users_do_to_instances(tmp_path: Path) -> None:
    """Restarts are announced and wait; what happens at once is not, and is over when it says so."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    with AzureCliService(tmp_path / "data", str(fleet)) as it:
        it.events("web_0")
        restart = it.start_az("vmss", "restart", *SET, "--instance-ids", "0")
        event = it.announced("web_1", "Reboot")
        assert (event["Resources"], it.notice(event)) == (["web_0"], 900)
        assert restart.is_running()
        it.approve("web_0", event["EventId"])
        it.advance(60)
        assert_succeeds(restart)
        with it.time_running():
            it.ask("vmss", "deallocate", *SET, "--instance-ids", "1")
        assert it.get("web_1").status == 404
        assert it.machines()["web_1"]["power"] == "deallocated"
        with it.time_running():
            it.ask("vmss", "start", *SET, "--instance-ids", "1")
            it.ask("vmss", "reimage", *SET, "--instance-ids", "0")
        assert (it.get("web_1").status, it.events("web_0")) == (200, [])
        summary = it.ask("vmss", "get-instance-view", *SET)["virtualMachine"]["statusesSummary"]
        assert {"code": "PowerState/running", "count": 3} in summary

        protect = ("--instance-id", "2", "--protect-from-scale-in", "true")
        it.ask("vmss", "update", *SET, *protect)
        with it.time_running():
            # After a PUT the CLI takes what Location answers for the set, if there is one.
            it.ask("vmss", "scale", *SET, "--new-capacity", "1")
        assert list(it.machines()) == ["web_2"]


@pytest.mark.spec("C2", "C1", "T4")
@pytest.mark.usefixtures("az")
def test_what_the_platform_does_to_instances(tmp_path: Path) -> None:
    """Maintenance may be begun when one is planned; Spot instances are evicted; a set ends."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(SPOT)
    with AzureCliService(tmp_path / "data", str(fleet)) as it:
        it.events("web_0")
        maintain = ("vmss", "perform-maintenance", *SET, "--instance-ids", "0")
        said = it.refused(*maintain)
        assert said.startswith("ERROR: (OperationNotAllowed)")
        assert "no maintenance is planned" in said
        assert it.run("machine", "freeze", "web_0", "--seconds", "7").returncode == 0
        event = it.announced("web_0", "Freeze")
        assert event["EventStatus"] == "Scheduled"
        maintenance = it.start_az(*maintain)
        wait_until(lambda: it.events("web_0")[0]["EventStatus"] == "Started", "maintenance begins")
        assert maintenance.is_running()
        it.advance(7)
        assert_succeeds(maintenance)
        assert it.events("web_0") == []

        it.ask("vmss", "simulate-eviction", *SET, "--instance-id", "2")
        event = it.announced("web_0", "Preempt")
        assert (event["Resources"], event["EventSource"]) == (["web_2"], "Platform")
        assert it.notice(event) == 30
        it.advance(30 + 10)
        assert list(it.machines()) == ["web_0", "web_1"]

        assert it.ask("vmss", "list", "--query", "[].[name, sku.capacity]") == [["web", 2]]
        it.ask("vmss", "wait", *SET, "--created")
        with it.time_running():
            it.ask("vmss", "delete", *SET)
        assert it.get("web_0").status == 404
        assert it.machines() == {}
        assert it.az("vmss", "show", *SET).returncode == 3
