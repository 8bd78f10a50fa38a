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


def power(it: AzureCliService, name: str) -> list[str]:
    """What the instance view of a machine says."""
    words = ("vm", "get-instance-view", "--resource-group", GROUP, "--name", name)
    codes: list[str] = it.ask(*words, "--query", "instanceView.statuses[].code")
    return codes


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_the_life_of_a_machine(tmp_path: Path) -> None:
    """Created, restarted and redeployed with notice; switched off, on and deleted at once."""
    with AzureCliService(tmp_path / "data") as it:
        it.ask("group", "create", "--name", GROUP, "--location", "westus")
        assert it.ask("vm", "create", *ONE, *NEW)["powerState"] == "VM running"
        assert it.events("one") == []
        for action, kind, notice, lasts in (
            ("restart", "Reboot", 900, 60),
            ("redeploy", "Redeploy", 600, 240),
        ):
            done = it.start_az("vm", action, *ONE)
            event = it.announced("one", kind)
            assert (event["Resources"], event["EventSource"]) == (["one"], "User")
            assert it.notice(event) == notice
            assert done.is_running()
            it.approve("one", event["EventId"])
            it.advance(lasts)
            assert_succeeds(done)
            assert it.events("one") == []

        with it.time_running():
            it.ask("vm", "deallocate", *ONE)
        assert it.get("one").status == 404
        assert power(it, "one") == ["ProvisioningState/succeeded", "PowerState/deallocated"]
        with it.time_running():
            it.ask("vm", "start", *ONE)
        assert it.events("one") == []
        shown, *others = it.ask("vm", "list", "--show-details")
        assert (shown["name"], shown["powerState"], others) == ("one", "VM running", [])
        with it.time_running():
            it.ask("vm", "delete", *ONE, "--yes")
        assert it.get("one").status == 404
        assert it.ask("vm", "list") == []


@pytest.mark.spec("C2", "C1", "T4")
@pytest.mark.usefixtures("az")
def test_an_eviction_is_simulated(tmp_path: Path) -> None:
    """A Spot machine has half a minute, and is deallocated then. No other can be evicted."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    spot = ("--resource-group", GROUP, "--name", "spot")
    with AzureCliService(tmp_path / "data", str(fleet)) as it:
        it.ask("vm", "create", *spot, *NEW, "--priority", "Spot")
        assert it.events("spot") == []
        it.ask("vm", "simulate-eviction", *spot)
        event = it.announced("spot", "Preempt")
        assert (event["Resources"], event["EventSource"]) == (["spot"], "Platform")
        assert it.notice(event) == 30
        it.advance(30)
        assert it.announced("spot", "Preempt")["EventStatus"] == "Started"
        it.advance(10)
        assert it.get("spot").status == 404
        assert power(it, "spot")[1] == "PowerState/deallocated"

        assert it.events("one") == []
        said = it.refused("vm", "simulate-eviction", *ONE)
        assert said.startswith("ERROR: (OperationNotAllowed)")
        assert it.events("one") == []


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_what_a_group_holds(tmp_path: Path) -> None:
    """Machines of an availability set share a document; with their group all of them go."""
    with AzureCliService(tmp_path / "data") as it:
        it.ask("group", "create", "--name", GROUP, "--location", "westus")
        it.ask("vm", "availability-set", "create", "--resource-group", GROUP, "--name", "db")
        for name in ("db-a", "db-b"):
            words = ("vm", "create", "--resource-group", GROUP, "--name", name, *NEW)
            # The CLI looks for the set at .../Microsoft.Compute//availabilitySets/db.
            it.ask(*words, "--availability-set", "db")
        found = it.ask("resource", "list", "--resource-group", GROUP, "--query", "[].[type, name]")
        assert ["Microsoft.Compute/availabilitySets", "db"] in found
        assert ["Microsoft.Compute/virtualMachines", "db-a"] in found
        assert {one["update_domain"] for one in it.machines().values()} == {0, 1}
        assert it.events("db-a") == []
        it.ask("vm", "restart", "--resource-group", GROUP, "--name", "db-b", "--no-wait")
        event = it.announced("db-a", "Reboot")
        assert event["Resources"] == ["db-b"]
        it.approve("db-a", event["EventId"])
        it.advance(60)

        assert GROUP in it.ask("group", "list", "--query", "[].name")
        assert it.ask("group", "exists", "--name", GROUP) is True
        with it.time_running():
            it.ask("group", "delete", "--name", GROUP, "--yes")
        assert it.ask("group", "exists", "--name", GROUP) is False
        assert it.machines() == {}
        assert [it.get(name).status for name in ("db-a", "db-b")] == [404, 404]


@pytest.mark.spec("C1", "C2", "E9")
@pytest.mark.usefixtures("az")
def test_an_operation_outlives_the_service(tmp_path: Path) -> None:
    """Killed after it has accepted a restart, it goes on with it; so does the operation's URL."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    data = tmp_path / "data"
    with AzureCliService(data, str(fleet)) as it:
        it.events("one")
        done = it.az("vm", "restart", *ONE, "--no-wait", "--debug")
        assert done.returncode == 0, done.stderr
        named = re.search(r"'azure-asyncoperation': '(https://[^']+)'", done.stderr, re.IGNORECASE)
        assert named, done.stderr
        status = ("rest", "--url", named[1], "--query", "status")
        assert it.ask(*status) == "InProgress"
        event = it.announced("one", "Reboot")
        address = it.ready["arm"].removeprefix("https://")
        it.kill()
    with AzureCliService(data, arm=address) as it:
        assert it.ask(*status) == "InProgress"
        assert it.announced("one", "Reboot") == event
        it.approve("one", event["EventId"])
        it.advance(60)
        assert it.ask(*status) == "Succeeded"
        assert it.events("one") == []
