"""Extensions and run commands of machines, instances and sets (C1)."""

import pytest

from fairwarning.arm.resources.machine_items import NOT_RUN
from tests.arm.bodies import VM, WEB, Json, machine, refused, scale_set
from tests.arm.everything import EXTENSION, RUN_COMMAND, state
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1")

INSTANCE = f"{WEB}/virtualMachines/0"


def fill(arm: ArmHarness) -> None:
    """Create a machine and a scale set."""
    machine(arm)
    scale_set(arm)


@pytest.mark.parametrize("owner", [VM, INSTANCE, WEB])
def test_an_extension(owner: str) -> None:
    """`az vm extension set|show|list|delete` and `az vmss extension`; secrets are not stored."""
    with ArmHarness() as arm:
        fill(arm)
        path = f"{owner}/extensions/script"
        response = arm.put(path, EXTENSION)
        assert response.status == 201
        assert response.json["id"] == f"{SUBSCRIPTION}{path}"
        assert response.json["properties"]["provisioningState"] == "Succeeded"
        assert "never-kept" not in response.text
        assert "never-kept" not in str(state(arm))
        assert arm.get(path).json["properties"]["settings"] == {"commandToExecute": "true"}
        changed = arm.patch(path, {"properties": {"typeHandlerVersion": "2.2"}})
        assert changed.status == 200
        assert arm.get(path).json["properties"]["typeHandlerVersion"] == "2.2"
        assert arm.get(path).json["properties"]["type"] == "CustomScript"
        assert [e["name"] for e in arm.get(f"{owner}/extensions").json["value"]] == ["script"]
        assert arm.delete(path).status == 200
        assert arm.delete(path).status == 204
        assert refused(arm.get(path)) == (404, "ResourceNotFound")
        assert refused(arm.patch(path, {})) == (404, "ResourceNotFound")
        assert arm.get(f"{owner}/extensions").json["value"] == []


def test_a_machine_shows_its_extensions() -> None:
    """They are in `resources` and in the instance view, which says that nothing was run."""
    with ArmHarness() as arm:
        fill(arm)
        assert "resources" not in arm.get(VM).json
        arm.put(f"{VM}/extensions/script", EXTENSION)
        for document in (arm.get(VM).json, *arm.get(VM.rpartition("/")[0]).json["value"]):
            (extension,) = document["resources"]
            assert extension["id"] == f"{SUBSCRIPTION}{VM}/extensions/script"
        (view,) = arm.get(f"{VM}/instanceView").json["extensions"]
        assert (view["name"], view["type"]) == (
            "script", "Microsoft.Azure.Extensions.CustomScript",
        )  # fmt: skip
        assert view["statuses"][0]["message"] == NOT_RUN
        expanded = arm.get(VM, **{"$expand": "instanceView"}).json
        assert expanded["properties"]["instanceView"]["extensions"] == [view]
        # Clients send the document back as they read it.
        assert arm.put(VM, arm.get(VM).json).json["resources"][0]["name"] == "script"


def test_a_new_machine_of_the_same_name() -> None:
    """The extensions of a deleted machine are gone."""
    with ArmHarness() as arm:
        fill(arm)
        arm.put(f"{VM}/extensions/script", EXTENSION)
        arm.delete(VM)
        arm.advance(3600)
        machine(arm)
        assert arm.get(f"{VM}/extensions").json["value"] == []
        assert "resources" not in arm.get(VM).json


def test_the_model_of_a_set() -> None:
    """An extension of a set is a part of its model, so its instances lack the latest model."""
    with ArmHarness() as arm:
        scale_set(arm, upgradePolicy={"mode": "Manual"})
        assert arm.get(INSTANCE).json["properties"]["latestModelApplied"] is True
        arm.put(f"{WEB}/extensions/script", EXTENSION)
        profile = arm.get(WEB).json["properties"]["virtualMachineProfile"]
        assert [e["name"] for e in profile["extensionProfile"]["extensions"]] == ["script"]
        assert arm.get(INSTANCE).json["properties"]["latestModelApplied"] is False


@pytest.mark.parametrize("owner", [VM, INSTANCE])
def test_a_managed_run_command(owner: str) -> None:
    """`az vm run-command create|show|list|delete`."""
    with ArmHarness() as arm:
        fill(arm)
        path = f"{owner}/runCommands/job"
        assert arm.put(path, RUN_COMMAND).status == 201
        assert "instanceView" not in arm.get(path).json["properties"]
        view = arm.get(path, **{"$expand": "instanceView"}).json["properties"]["instanceView"]
        assert (view["executionState"], view["executionMessage"]) == ("Unknown", NOT_RUN)
        assert [e["name"] for e in arm.get(f"{owner}/runCommands").json["value"]] == ["job"]
        assert arm.delete(path).status == 200
        assert arm.get(path).status == 404


@pytest.mark.parametrize("owner", [VM, INSTANCE])
def test_an_action_run_command(owner: str) -> None:
    """`az vm run-command invoke` gets an output that says that nothing was run."""
    with ArmHarness() as arm:
        fill(arm)
        body = {"commandId": "RunShellScript", "script": ["rm -rf /"]}
        response = arm.post(f"{owner}/runCommand", body)
        assert response.status == 200
        (entry,) = response.json["value"]
        assert entry["message"] == f"Enable succeeded: \n[stdout]\n\n[stderr]\n{NOT_RUN}\n"
        for bad in ({}, {"commandId": "Nonsense"}):
            refusal = arm.post(f"{owner}/runCommand", bad)
            assert refused(refusal) == (400, "InvalidParameter")
            assert "RunShellScript" in refusal.error_message


def test_the_list_of_run_commands() -> None:
    """`az vm run-command list|show --command-id`."""
    with ArmHarness() as arm:
        path = "/providers/Microsoft.Compute/locations/local/runCommands"
        ids = [entry["id"] for entry in arm.get(path).json["value"]]
        assert ids == ["RunShellScript", "RunPowerShellScript"]
        assert arm.get(f"{path}/runshellscript").json["osType"] == "Linux"
        assert refused(arm.get(f"{path}/none")) == (404, "NotFound")


def test_refusals() -> None:
    """A new extension needs its publisher, type and version; its machine must exist."""
    with ArmHarness() as arm:
        fill(arm)
        for owner in (VM, INSTANCE, WEB):
            response = arm.put(f"{owner}/extensions/script", {"properties": {"publisher": "p"}})
            assert refused(response) == (400, "InvalidParameter")
            assert "properties.type" in response.error_message
            assert arm.get(f"{owner}/extensions").json["value"] == []
        none: Json = EXTENSION
        for owner in (f"{VM}2", f"{WEB}/virtualMachines/7", f"{WEB}2"):
            response = arm.put(f"{owner}/extensions/script", none)
            assert refused(response) == (404, "ResourceNotFound")


def test_a_template() -> None:
    """`az deployment group create` creates a machine and its extension."""
    with ArmHarness() as arm:
        arm.group()
        template = {
            "contentVersion": "1.0.0.0",
            "resources": [
                {
                    "type": "Microsoft.Compute/virtualMachines",
                    "name": "vm",
                    "apiVersion": "2024-11-01",
                    "location": "local",
                },
                {
                    "type": "Microsoft.Compute/virtualMachines/extensions",
                    "name": "vm/script",
                    "apiVersion": "2024-11-01",
                    "dependsOn": ["vm"],
                    **EXTENSION,
                },
            ],
        }
        path = "/resourceGroups/rg/providers/Microsoft.Resources/deployments/one"
        arm.put(path, {"properties": {"mode": "Incremental", "template": template}})
        assert arm.get(path).json["properties"]["provisioningState"] == "Succeeded"
        assert arm.get(VM).json["resources"][0]["name"] == "script"
