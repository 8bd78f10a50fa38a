"""The unmodified Azure CLI and single machines, availability sets and groups."""

from pathlib import Path

import pytest

from tests.real.azure_cli import GROUP, NEW, AzureCliService, assert_succeeds

VM = ("--resource-group", GROUP, "--name", "vm")
FLEET = """
[cloud]
group = "rg"

[[machine]]
name = "vm"
"""


def power(service: AzureCliService, name: str) -> list[str]:
    """Return the status codes of a machine's instance view."""
    words = ("vm", "get-instance-view", "--resource-group", GROUP, "--name", name)
    codes: list[str] = service.az_json(*words, "--query", "instanceView.statuses[].code")
    return codes


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_actions_on_a_machine(tmp_path: Path) -> None:
    """Restart and redeploy give notice; deallocate, start and delete happen at once."""
    with AzureCliService(tmp_path / "data") as service:
        service.az_json("group", "create", "--name", GROUP, "--location", "westus")
        assert service.az_json("vm", "create", *VM, *NEW)["powerState"] == "VM running"
        assert service.events("vm") == []
        for action, kind, notice, duration in (
            ("restart", "Reboot", 900, 60),
            ("redeploy", "Redeploy", 600, 240),
        ):
            command = service.start_az("vm", action, *VM)
            event = service.wait_for_event("vm", kind)
            assert (event["Resources"], event["EventSource"]) == (["vm"], "User")
            assert service.notice(event) == notice
            assert command.is_running()
            service.approve("vm", event["EventId"])
            service.advance(duration)
            assert_succeeds(command)
            assert service.events("vm") == []

        with service.time_running():
            service.az_json("vm", "deallocate", *VM)
        assert service.get("vm").status == 404
        assert power(service, "vm") == ["ProvisioningState/succeeded", "PowerState/deallocated"]
        with service.time_running():
            service.az_json("vm", "start", *VM)
        assert service.events("vm") == []
        listed, *others = service.az_json("vm", "list", "--show-details")
        assert (listed["name"], listed["powerState"], others) == ("vm", "VM running", [])
        with service.time_running():
            service.az_json("vm", "delete", *VM, "--yes")
        assert service.get("vm").status == 404
        assert service.az_json("vm", "list") == []


@pytest.mark.spec("C2", "C1", "T4")
@pytest.mark.usefixtures("az")
def test_an_eviction_is_simulated(tmp_path: Path) -> None:
    """A Spot machine is deallocated after 30 seconds; a regular one cannot be evicted."""
    spot = ("--resource-group", GROUP, "--name", "spot")
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        service.az_json("vm", "create", *spot, *NEW, "--priority", "Spot")
        assert service.events("spot") == []
        service.az_json("vm", "simulate-eviction", *spot)
        event = service.wait_for_event("spot", "Preempt")
        assert (event["Resources"], event["EventSource"]) == (["spot"], "Platform")
        assert service.notice(event) == 30
        service.advance(30)
        assert service.wait_for_event("spot", "Preempt")["EventStatus"] == "Started"
        service.advance(10)
        assert service.get("spot").status == 404
        assert power(service, "spot")[1] == "PowerState/deallocated"

        assert service.events("vm") == []
        error = service.az_error("vm", "simulate-eviction", *VM)
        assert error.startswith("ERROR: (OperationNotAllowed)")
        assert service.events("vm") == []


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_a_group_with_an_availability_set(tmp_path: Path) -> None:
    """The machines of the set share a document, and are deleted with their group."""
    with AzureCliService(tmp_path / "data") as service:
        service.az_json("group", "create", "--name", GROUP, "--location", "westus")
        service.az_json(
            "vm", "availability-set", "create", "--resource-group", GROUP, "--name", "db"
        )
        for name in ("db-a", "db-b"):
            words = ("vm", "create", "--resource-group", GROUP, "--name", name, *NEW)
            # The CLI reads the set at .../Microsoft.Compute//availabilitySets/db.
            service.az_json(*words, "--availability-set", "db")
        resources = service.az_json(
            "resource", "list", "--resource-group", GROUP, "--query", "[].[type, name]"
        )
        assert ["Microsoft.Compute/availabilitySets", "db"] in resources
        assert ["Microsoft.Compute/virtualMachines", "db-a"] in resources
        assert {machine["update_domain"] for machine in service.machines().values()} == {0, 1}
        assert service.events("db-a") == []
        service.az_json("vm", "restart", "--resource-group", GROUP, "--name", "db-b", "--no-wait")
        event = service.wait_for_event("db-a", "Reboot")
        assert event["Resources"] == ["db-b"]
        service.approve("db-a", event["EventId"])
        service.advance(60)

        assert GROUP in service.az_json("group", "list", "--query", "[].name")
        assert service.az_json("group", "exists", "--name", GROUP) is True
        with service.time_running():
            service.az_json("group", "delete", "--name", GROUP, "--yes")
        assert service.az_json("group", "exists", "--name", GROUP) is False
        assert service.machines() == {}
        assert [service.get(name).status for name in ("db-a", "db-b")] == [404, 404]
