"""The unmodified Azure CLI and scale sets, and the events that their machines see."""

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


def instances(service: AzureCliService, name: str) -> dict[str, object]:
    """Return a property of every instance, by instance id."""
    pairs = service.az_json("vmss", "list-instances", *SET, "--query", f"[].[instanceId, {name}]")
    return dict(pairs)


def body(notice: object) -> str:
    """Return the body of Azure's documentation, which has only the notice."""
    profile = {"scheduledEventsProfile": {"terminateNotificationProfile": notice}}
    return json.dumps({"properties": {"virtualMachineProfile": profile}})


@pytest.mark.spec("C2", "C1", "T1", "T4")
@pytest.mark.usefixtures("az")
def test_a_delete_waits_for_its_approval(tmp_path: Path) -> None:
    """All instances see the event of the delete, which happens after an approval."""
    with AzureCliService(tmp_path / "data") as service:
        service.az_json("group", "create", "--name", GROUP, "--location", "westus")
        notice = ("--terminate-notification-time", "10")
        created = service.az_json("vmss", "create", *SET, *NEW, *notice)["VMSS"]
        assert created["provisioningState"] == "Succeeded"
        assert list(service.machines()) == ["web_0", "web_1"]
        assert [service.events(machine) for machine in ("web_0", "web_1")] == [[], []]

        delete = service.start_az("vmss", "delete-instances", *SET, "--instance-ids", "1")
        event = service.wait_for_event("web_0", "Terminate")
        assert event == service.wait_for_event("web_1", "Terminate")
        assert (event["Resources"], event["EventSource"]) == (["web_1"], "User")
        assert service.notice(event) == 600
        assert instances(service, "provisioningState") == {"0": "Succeeded", "1": "Deleting"}
        assert delete.is_running()

        service.approve("web_1", event["EventId"])
        assert service.wait_for_event("web_0", "Terminate")["EventStatus"] == "Started"
        service.advance(30)
        assert_succeeds(delete)
        assert service.events("web_0") == []
        assert service.get("web_1").status == 404
        assert list(instances(service, "name")) == ["0"]


@pytest.mark.spec("C2", "T1", "T3")
@pytest.mark.usefixtures("az")
def test_a_new_notice_needs_an_upgrade(tmp_path: Path) -> None:
    """Instances keep their notice until they are upgraded; existing events do not change."""
    with AzureCliService(tmp_path / "data") as service:
        service.az_json("group", "create", "--name", GROUP, "--location", "westus")
        create = ("vmss", "create", *SET, *NEW, "--orchestration-mode", "Uniform")
        service.az_json(*create, "--instance-count", "3", "--terminate-notification-time", "10")
        service.events("web_0")
        delete = ("vmss", "delete-instances", *SET, "--no-wait", "--instance-ids")
        service.az_json(*delete, "0")
        first = service.wait_for_event("web_1", "Terminate")
        assert (first["Resources"], service.notice(first)) == (["web_0"], 600)

        # A set can be changed while an event is scheduled, and the command ends at once.
        changed = service.az_json(*UPDATE, "--terminate-notification-time", "15", "--query", NOTICE)
        assert changed == {"enable": True, "notBeforeTimeout": "PT15M"}
        service.az_json("vmss", "scale", *SET, "--new-capacity", "3")
        latest = {"0": False, "1": False, "2": False, "3": True}
        assert instances(service, "latestModelApplied") == latest
        service.az_json(*delete, "1")
        service.az_json("vmss", "update-instances", *SET, "--instance-ids", "*")
        assert set(instances(service, "latestModelApplied").values()) == {True}
        service.az_json(*delete, "2")
        events = service.events("web_3")
        notices = {event["Resources"][0]: service.notice(event) for event in events}
        assert notices == {"web_0": 600, "web_1": 600, "web_2": 900}
        assert first in events


@pytest.mark.spec("C2", "T1", "T2")
@pytest.mark.usefixtures("az")
def test_a_body_as_the_documentation_has_it(tmp_path: Path) -> None:
    """A body with only the notice works, within its limits and since its api-version."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        path = service.path("virtualMachineScaleSets/web")
        put = ("rest", "--method", "put", "--url", f"{path}?api-version=2019-03-01", "--body")
        earlier = ("rest", "--method", "put", "--url", f"{path}?api-version=2018-10-01", "--body")
        ten = {"notBeforeTimeout": "PT10M", "enable": True}
        member = "Could not find member 'scheduledEventsProfile' on object of type"
        assert f"\"{member} 'VirtualMachineProfile'\"" in service.az_error(*earlier, body(ten))
        assert service.az_json("vmss", "show", *SET, "--query", NOTICE) is None
        service.az_json(*put, body({"enable": True}))
        five = {"notBeforeTimeout": "PT5M", "enable": True}
        assert service.az_json("vmss", "show", *SET, "--query", NOTICE) == five

        service.az_json(*put, body(ten))
        error = service.az_error(*UPDATE, "--terminate-notification-time", "20")
        assert error.startswith("ERROR: (InvalidParameter) The value 'PT20M' of parameter")
        assert "PT5M to PT15M" in error
        document = service.az_json("vmss", "show", *SET)
        profile = document["virtualMachineProfile"]["scheduledEventsProfile"]
        assert profile["terminateNotificationProfile"] == ten
        assert document["sku"]["capacity"] == 3

        service.az_json("vmss", "update-instances", *SET, "--instance-ids", "*")
        service.events("web_0")
        service.az_json("vmss", "delete-instances", *SET, "--instance-ids", "2", "--no-wait")
        assert service.notice(service.wait_for_event("web_0", "Terminate")) == 600


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_user_actions_on_instances(tmp_path: Path) -> None:
    """A restart waits for its event; other actions happen at once."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        service.events("web_0")
        restart = service.start_az("vmss", "restart", *SET, "--instance-ids", "0")
        event = service.wait_for_event("web_1", "Reboot")
        assert (event["Resources"], service.notice(event)) == (["web_0"], 900)
        assert restart.is_running()
        service.approve("web_0", event["EventId"])
        service.advance(60)
        assert_succeeds(restart)
        with service.time_running():
            service.az_json("vmss", "deallocate", *SET, "--instance-ids", "1")
        assert service.get("web_1").status == 404
        assert service.machines()["web_1"]["power"] == "deallocated"
        with service.time_running():
            service.az_json("vmss", "start", *SET, "--instance-ids", "1")
            service.az_json("vmss", "reimage", *SET, "--instance-ids", "0")
        assert (service.get("web_1").status, service.events("web_0")) == (200, [])
        summary = service.az_json("vmss", "get-instance-view", *SET)["virtualMachine"][
            "statusesSummary"
        ]
        assert {"code": "PowerState/running", "count": 3} in summary

        protect = ("--instance-id", "2", "--protect-from-scale-in", "true")
        service.az_json("vmss", "update", *SET, *protect)
        with service.time_running():
            # After a PUT with a Location header, the CLI would take its response for the set.
            service.az_json("vmss", "scale", *SET, "--new-capacity", "1")
        assert list(service.machines()) == ["web_2"]


@pytest.mark.spec("C2", "C1", "T4")
@pytest.mark.usefixtures("az")
def test_platform_events_of_instances(tmp_path: Path) -> None:
    """Scheduled maintenance can be started; Spot instances are evicted; a set is deleted."""
    with AzureCliService(tmp_path / "data", fleet=SPOT) as service:
        service.events("web_0")
        maintain = ("vmss", "perform-maintenance", *SET, "--instance-ids", "0")
        error = service.az_error(*maintain)
        assert error.startswith("ERROR: (OperationNotAllowed)")
        assert "no maintenance is planned" in error
        assert service.run("machine", "freeze", "web_0", "--duration", "7").returncode == 0
        event = service.wait_for_event("web_0", "Freeze")
        assert event["EventStatus"] == "Scheduled"
        maintenance = service.start_az(*maintain)
        wait_until(
            lambda: service.events("web_0")[0]["EventStatus"] == "Started", "maintenance begins"
        )
        assert maintenance.is_running()
        service.advance(7)
        assert_succeeds(maintenance)
        assert service.events("web_0") == []

        service.az_json("vmss", "simulate-eviction", *SET, "--instance-id", "2")
        event = service.wait_for_event("web_0", "Preempt")
        assert (event["Resources"], event["EventSource"]) == (["web_2"], "Platform")
        assert service.notice(event) == 30
        service.advance(30 + 10)
        assert list(service.machines()) == ["web_0", "web_1"]

        assert service.az_json("vmss", "list", "--query", "[].[name, sku.capacity]") == [["web", 2]]
        service.az_json("vmss", "wait", *SET, "--created")
        with service.time_running():
            service.az_json("vmss", "delete", *SET)
        assert service.get("web_0").status == 404
        assert service.machines() == {}
        assert service.az("vmss", "show", *SET).returncode == 3


@pytest.mark.spec("C2", "C1", "C6")
@pytest.mark.usefixtures("az")
def test_machines_of_a_flexible_set(tmp_path: Path) -> None:
    """They have public addresses, `az vm update` changes them, `az vm create --vmss` adds one."""
    with AzureCliService(tmp_path / "data") as service:
        service.az_json("group", "create", "--name", GROUP, "--location", "westus")
        service.az_json("vmss", "create", *SET, *NEW, "--public-ip-per-vm")
        listed = service.az_json("network", "public-ip", "list", "--resource-group", GROUP)
        of_instances = [entry for entry in listed if entry["name"].startswith("web_")]
        assert len({entry["ipAddress"] for entry in of_instances}) == 2

        instance = ("--resource-group", GROUP, "--name", "web_0")
        service.az_json("vm", "update", *instance, "--size", "Standard_D2s_v5")
        (size,) = service.az_json("vm", "show", *instance, "--query", "[hardwareProfile.vmSize]")
        assert size == "Standard_D2s_v5"

        machine = ("--resource-group", GROUP, "--name", "db")
        service.az_json("vm", "create", *machine, *NEW, "--vmss", "web")
        assert list(instances(service, "name").values()) == ["web_0", "web_1", "db"]
        assert set(service.machines()) == {"web_0", "web_1", "db"}
        with service.time_running():
            service.az_json("vm", "delete", *machine, "--yes")
        assert set(service.machines()) == {"web_0", "web_1"}


@pytest.mark.spec("C2", "C6")
@pytest.mark.usefixtures("az")
def test_public_addresses_of_a_uniform_set(tmp_path: Path) -> None:
    """`az vmss list-instance-public-ips` has one for each instance."""
    with AzureCliService(tmp_path / "data") as service:
        service.az_json("group", "create", "--name", GROUP, "--location", "westus")
        uniform = ("--orchestration-mode", "Uniform", "--public-ip-per-vm")
        service.az_json("vmss", "create", *SET, *NEW, *uniform)
        addresses = service.az_json("vmss", "list-instance-public-ips", *SET)
        assert len({entry["ipAddress"] for entry in addresses}) == 2
