"""The unmodified Azure CLI and single machines, availability sets and groups."""

import re
from pathlib import Path

import pytest

from tests.real.azure_cli import GROUP, NEW, AzureCliService, assert_succeeds

ONE = ("--resource-group", GROUP, "--name", "one")
FLEET = """
[cloud]
group = "rg"

[[machine]]
name = "one"
"""


def power(service: AzureCliService, name: str) -> list[str]:
    """What the instance view of a machine says."""
    words = ("vm", "get-instance-view", "--resource-group", GROUP, "--name", name)
    codes: list[str] = service.ask(*words, "--query", "instanceView.statuses[].code")
    return codes


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_the_life_of_a_machine(tmp_path: Path) -> None:
    """Created, restarted and redeployed with notice; switched off, on and deleted at once."""
    with AzureCliService(tmp_path / "data") as service:
        service.ask("group", "create", "--name", GROUP, "--location", "westus")
        assert service.ask("vm", "create", *ONE, *NEW)["powerState"] == "VM running"
        assert service.events("one") == []
        for action, kind, notice, lasts in (
            ("restart", "Reboot", 900, 60),
            ("redeploy", "Redeploy", 600, 240),
        ):
            done = service.start_az("vm", action, *ONE)
            event = service.announced("one", kind)
            assert (event["Resources"], event["EventSource"]) == (["one"], "User")
            assert service.notice(event) == notice
            assert done.is_running()
            service.approve("one", event["EventId"])
            service.advance(lasts)
            assert_succeeds(done)
            assert service.events("one") == []

        with service.time_running():
            service.ask("vm", "deallocate", *ONE)
        assert service.get("one").status == 404
        assert power(service, "one") == ["ProvisioningState/succeeded", "PowerState/deallocated"]
        with service.time_running():
            service.ask("vm", "start", *ONE)
        assert service.events("one") == []
        shown, *others = service.ask("vm", "list", "--show-details")
        assert (shown["name"], shown["powerState"], others) == ("one", "VM running", [])
        with service.time_running():
            service.ask("vm", "delete", *ONE, "--yes")
        assert service.get("one").status == 404
        assert service.ask("vm", "list") == []


@pytest.mark.spec("C2", "C1", "T4")
@pytest.mark.usefixtures("az")
def test_an_eviction_is_simulated(tmp_path: Path) -> None:
    """A Spot machine has half a minute, and is deallocated then. No other can be evicted."""
    spot = ("--resource-group", GROUP, "--name", "spot")
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        service.ask("vm", "create", *spot, *NEW, "--priority", "Spot")
        assert service.events("spot") == []
        service.ask("vm", "simulate-eviction", *spot)
        event = service.announced("spot", "Preempt")
        assert (event["Resources"], event["EventSource"]) == (["spot"], "Platform")
        assert service.notice(event) == 30
        service.advance(30)
        assert service.announced("spot", "Preempt")["EventStatus"] == "Started"
        service.advance(10)
        assert service.get("spot").status == 404
        assert power(service, "spot")[1] == "PowerState/deallocated"

        assert service.events("one") == []
        said = service.refused("vm", "simulate-eviction", *ONE)
        assert said.startswith("ERROR: (OperationNotAllowed)")
        assert service.events("one") == []


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_what_a_group_holds(tmp_path: Path) -> None:
    """Machines of an availability set share a document; with their group all of them go."""
    with AzureCliService(tmp_path / "data") as service:
        service.ask("group", "create", "--name", GROUP, "--location", "westus")
        service.ask("vm", "availability-set", "create", "--resource-group", GROUP, "--name", "db")
        for name in ("db-a", "db-b"):
            words = ("vm", "create", "--resource-group", GROUP, "--name", name, *NEW)
            # The CLI looks for the set at .../Microsoft.Compute//availabilitySets/db.
            service.ask(*words, "--availability-set", "db")
        found = service.ask(
            "resource", "list", "--resource-group", GROUP, "--query", "[].[type, name]"
        )
        assert ["Microsoft.Compute/availabilitySets", "db"] in found
        assert ["Microsoft.Compute/virtualMachines", "db-a"] in found
        assert {one["update_domain"] for one in service.machines().values()} == {0, 1}
        assert service.events("db-a") == []
        service.ask("vm", "restart", "--resource-group", GROUP, "--name", "db-b", "--no-wait")
        event = service.announced("db-a", "Reboot")
        assert event["Resources"] == ["db-b"]
        service.approve("db-a", event["EventId"])
        service.advance(60)

        assert GROUP in service.ask("group", "list", "--query", "[].name")
        assert service.ask("group", "exists", "--name", GROUP) is True
        with service.time_running():
            service.ask("group", "delete", "--name", GROUP, "--yes")
        assert service.ask("group", "exists", "--name", GROUP) is False
        assert service.machines() == {}
        assert [service.get(name).status for name in ("db-a", "db-b")] == [404, 404]


@pytest.mark.spec("C1", "C2", "E9")
@pytest.mark.usefixtures("az")
def test_an_operation_outlives_the_service(tmp_path: Path) -> None:
    """Killed after it has accepted a restart, it goes on with it; so does the operation's URL."""
    data = tmp_path / "data"
    with AzureCliService(data, fleet=FLEET) as service:
        service.events("one")
        done = service.az("vm", "restart", *ONE, "--no-wait", "--debug")
        assert done.returncode == 0, done.stderr
        named = re.search(r"'azure-asyncoperation': '(https://[^']+)'", done.stderr, re.IGNORECASE)
        assert named, done.stderr
        status = ("rest", "--url", named[1], "--query", "status")
        assert service.ask(*status) == "InProgress"
        event = service.announced("one", "Reboot")
        address = service.ready["arm"].removeprefix("https://")
        service.kill()
    with AzureCliService(data, arm=address) as service:
        assert service.ask(*status) == "InProgress"
        assert service.announced("one", "Reboot") == event
        service.approve("one", event["EventId"])
        service.advance(60)
        assert service.ask(*status) == "Succeeded"
        assert service.events("one") == []
