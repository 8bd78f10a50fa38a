"""Virtual machines: what is kept of a body, and what it says for the rules (C1, C6)."""

import pytest

from fairwarning.core.model import Rules
from fairwarning.service.config.settings import ArmSettings
from tests.arm.bodies import (
    AV,
    COMPUTE,
    VM,
    VM_SCOPE,
    WEB,
    WEB_SCOPE,
    Json,
    created,
    machine,
    notice,
    refused,
    scale_set,
    visible_events,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1", "C6")

MACHINES = f"{COMPUTE}/virtualMachines"
LOCATION = {"location": "local"}
SPOT = {"priority": "Spot", "evictionPolicy": "Deallocate"}
FLEET = """
[[machine]]
name = "vm"
group = "rg"
terminate_notice = "PT10M"
zone = "2"
size = "Standard_B2s"
tags = { a = "b" }
"""


def test_secrets_are_not_stored(arm: ArmHarness) -> None:
    """Secrets are neither returned nor stored, whatever their case."""
    machine(
        arm,
        osProfile={"computerName": "c", "adminPassword": "s3cret", "customData": "s3cret"},
        userData="s3cret",
        list=[{"protectedSettings": {"key": "s3cret"}, "AdminPassword": "s3cret"}],
    )
    arm.patch(VM, {"properties": {"osProfile": {"adminPassword": "s3cret"}}})
    assert b"s3cret" not in arm.get(VM).body
    assert "s3cret" not in repr(vars(arm.store))
    assert arm.get(VM).json["properties"]["osProfile"]["computerName"] == "c"


@pytest.mark.parametrize("path", [VM, WEB])
def test_empty_texts_mean_not_set(arm: ArmHarness, path: str) -> None:
    """Templates send `evictionPolicy: ''` and `zones: ''` for machines without them."""
    profile: Json = {"priority": "Regular", "evictionPolicy": ""}
    properties = profile if path == VM else {"virtualMachineProfile": profile}
    created(arm.put(path, {**LOCATION, "zones": "", "properties": properties}))
    document = arm.get(path).json
    assert "zones" not in document
    assert "evictionPolicy" not in str(document)


@pytest.mark.parametrize(
    "profile",
    [
        {"storageProfile": {"osDisk": {"osType": "Windows"}}},
        {"storageProfile": {"imageReference": {"publisher": "MicrosoftWindowsServer"}}},
        {"osProfile": {"windowsConfiguration": {}}},
    ],
)
@pytest.mark.parametrize("mode", ["", "Uniform", "Flexible"])
def test_windows(arm: ArmHarness, profile: Json, mode: str) -> None:
    """A machine or an instance reads `osType: Windows`."""
    path, scope = (WEB, WEB_SCOPE) if mode else (VM, VM_SCOPE)
    if mode:
        scale_set(arm, capacity=1, model=profile, orchestrationMode=mode)
        paths = [f"{WEB}/virtualMachines/0"]
        paths += [f"{MACHINES}/web_0"] if mode == "Flexible" else []
        model = arm.get(path).json["properties"]["virtualMachineProfile"]
        assert model["storageProfile"]["osDisk"]["osType"] == "Windows"
    else:
        machine(arm, **profile)
        paths = [VM]
    for shown in paths:
        storage = arm.get(shown).json["properties"]["storageProfile"]
        assert storage["osDisk"]["osType"] == "Windows"
    (own,) = arm.machines(scope).values()
    assert own.windows


def test_eviction_policies_need_spot_machines(arm: ArmHarness) -> None:
    """Which can neither be in an availability set nor have notice of deletes."""
    created(arm.put(AV, LOCATION))
    policy_alone = arm.put(VM, {**LOCATION, "properties": {"evictionPolicy": "Delete"}})
    assert policy_alone.error_code == "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines"
    properties = {**SPOT, "availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}
    in_set = arm.put(VM, {**LOCATION, "properties": properties})
    assert in_set.error_code == "AzureSpotVMNotSupportedInAvailabilitySet"
    with_notice = {"virtualMachineProfile": {**SPOT, **notice()}}
    spot_set = arm.put(WEB, {**LOCATION, "properties": with_notice})
    assert refused(spot_set) == (409, "OperationNotAllowed")
    assert arm.get(VM).status == 404


@pytest.mark.parametrize(
    "change",
    [
        {"tags": {"a": "b"}},
        {"properties": {"hardwareProfile": {"vmSizeProperties": {"vCPUsAvailable": 1}}}},
        {"properties": {"scheduledEventsProfile": {"osImageNotificationProfile": {}}}},
        {"properties": {"scheduledEventsProfile": {"terminateNotificationProfile": {}}}},
    ],
)
def test_a_patch_keeps_other_properties(arm: ArmHarness, change: Json) -> None:
    """A change is merged into the machine, including the values of a fleet file."""
    arm.create_fleet(FLEET)
    before = arm.machines("vm")["vm"]
    assert arm.patch(VM, change).status == 200
    after = arm.machines("vm")["vm"]
    assert (after.terminate_seconds, after.size) == (600, "Standard_B2s")
    assert (after.tags, after.zone) == (before.tags, before.zone)


def test_sizes(arm: ArmHarness) -> None:
    """`az vm list-vm-resize-options` and `az vmss list-skus`: those of the region."""
    machine(arm)
    scale_set(arm)
    region = arm.get("/providers/Microsoft.Compute/locations/local/vmSizes").json
    assert arm.get(f"{VM}/vmSizes").json == region
    sizes = arm.get(f"{WEB}/skus").json["value"]
    assert [entry["sku"]["name"] for entry in sizes] == [e["name"] for e in region["value"]]
    assert {entry["resourceType"] for entry in sizes} == {
        "Microsoft.Compute/virtualMachineScaleSets"
    }


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", VM, "DELETE, GET, PATCH, PUT"),
        ("GET", f"{VM}/restart", "POST"),
        ("PUT", f"{VM}/instanceView", "GET"),
        ("DELETE", VM.rpartition("/")[0], "GET"),
    ],
)
def test_a_method_that_is_not_allowed(
    arm: ArmHarness, method: str, path: str, allowed: str
) -> None:
    """The error names those that are: of a resource, an action, a view and a list."""
    machine(arm)
    response = arm.request(method, path, {})
    assert refused(response) == (405, "MethodNotAllowed")
    assert response.error_message.endswith(f"; use {allowed}.")


def test_the_head_of_a_view(arm: ArmHarness) -> None:
    """It has the headers of GET, and needs a token and an api-version, too."""
    machine(arm)
    head, get = arm.request("HEAD", f"{VM}/instanceView"), arm.get(f"{VM}/instanceView")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]
    assert arm.request("HEAD", VM, version="").status == 400
    query = "api-version=2024-11-01"
    assert arm.send("HEAD", f"{SUBSCRIPTION}{VM}", query, b"", {}).status == 401


def test_new_machines_have_the_rules_of_the_settings() -> None:
    """The rules of the settings apply to every new machine."""
    with ArmHarness(ArmSettings(rules=Rules(reboot_seconds=60))) as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        accepted = arm.post(f"{VM}/restart")
        arm.advance(59)
        assert visible_events(arm, VM_SCOPE) == [("Reboot", "Scheduled", ["vm"])]
        arm.advance(61)
        assert arm.ended(accepted)["status"] == "Succeeded"
