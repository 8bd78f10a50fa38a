import json

import pytest

from deploy.schema.__main__ import FILE, PACKAGES, generate, installed, text_of
from fairwarning.arm.registry import TYPES
from fairwarning.arm.schema import types
from fairwarning.arm.schema.types import overlay
from fairwarning.arm.types.names import LOCKS
from tests.arm.bodies import (
    AV,
    VM,
    WEB,
    WEB_SCOPE,
    Json,
    machine,
    notice,
    policy,
    refused,
    scale_set,
)
from tests.fixtures.arm import ArmHarness

pytestmark = pytest.mark.spec("C6")

LOCATION: Json = {"location": "local"}


def in_set(**properties: object) -> Json:
    """Return the body of a scale set with these properties."""
    return {**LOCATION, "sku": {"capacity": 1}, "properties": properties}


def in_model(**model: object) -> Json:
    """Return the body of a scale set with this model of its instances."""
    return in_set(virtualMachineProfile=model)


@pytest.mark.parametrize(
    ("path", "body", "where", "allowed"),
    [
        (WEB, in_set(overprovision="maybe"), "properties.overprovision", "true or false"),
        (WEB, in_set(overprovision=1), "properties.overprovision", "true or false"),
        (WEB, in_set(platformFaultDomainCount="two"), "Count", "a whole number"),
        (WEB, in_set(platformFaultDomainCount=1.5), "Count", "a whole number"),
        (WEB, in_set(upgradePolicy={"mode": "Later"}), "mode", "Automatic, Manual, Rolling"),
        (WEB, in_set(scaleInPolicy={"rules": ["Newest"]}), "rules[0]", "NewestVM"),
        (WEB, in_set(orchestrationMode="Loose"), "orchestrationMode", "Uniform, Flexible"),
        (WEB, in_model(osProfile=[]), "virtualMachineProfile.osProfile", "an object"),
        (WEB, in_model(storageProfile={"dataDisks": {}}), "dataDisks", "a list"),
        (WEB, in_model(storageProfile={"dataDisks": [{"lun": "x"}]}), "dataDisks[0].lun", "number"),
        (VM, {**LOCATION, "properties": {"priority": "cheap"}}, "priority", "Regular, Spot, Low"),
        (VM, {**LOCATION, "properties": {"billingProfile": {"maxPrice": "x"}}}, "max", "a number"),
        (AV, {**LOCATION, "properties": {"virtualMachines": "all"}}, "virtualMachines", "a list"),
    ],
)
def test_values_of_another_type(
    arm: ArmHarness, path: str, body: Json, where: str, allowed: str
) -> None:
    """The error names the member and what is allowed, and nothing is created."""
    response = arm.put(path, body)
    assert refused(response) == (400, "InvalidParameter")
    assert where in response.error_message
    assert allowed in response.error_message
    assert arm.get(path).status == 404


def test_other_words_are_kept(arm: ArmHarness) -> None:
    """A word that the service does not act on may be newer than the service."""
    machine(arm, securityProfile={"securityType": "FutureVM"}, newMember={"a": "true"})
    properties = arm.get(VM).json["properties"]
    assert properties["securityProfile"]["securityType"] == "FutureVM"
    assert properties["newMember"] == {"a": "true"}


TERMINATE = "terminateNotificationProfile"


@pytest.mark.parametrize(
    ("path", "body", "suggestion"),
    [
        (VM, {"properties": {"scheduledEventProfile": {}}}, "scheduledEventsProfile"),
        (VM, {"properties": {"scheduledEventsPolicies": {}}}, "scheduledEventsPolicy"),
        (VM, {"properties": {"evictionPolicies": "Delete"}}, "evictionPolicy"),
        (WEB, in_model(scheduledEventProfile={}), "scheduledEventsProfile"),
        (WEB, in_model(scheduleEventsProfile={}), "scheduledEventsProfile"),
        (WEB, in_model(scheduledEventsProfile={"terminationNotificationProfile": {}}), TERMINATE),
        (WEB, in_model(scheduledEventsProfile={TERMINATE: {"enabled": True}}), "enable"),
        (WEB, in_model(scheduledEventsProfile={TERMINATE: {"notBefore": "PT5M"}}), "notBefore"),
        (WEB, in_set(upgradePolicies={}), "upgradePolicy"),
        (WEB, in_set(upgradePolicy={"modes": "Manual"}), "mode"),
        (WEB, in_set(scaleInPolicy={"rule": ["Default"]}), "rules"),
        (WEB, {**in_set(), "sku": {"capcity": 2}}, "capacity"),
        (WEB, in_set(scheduledEventsPolicy={"userInitiatedReboots": {}}), "userInitiatedReboot"),
        (
            AV,
            {"properties": {"scheduledEventsPolicy": {"userInitiatedReboot": {"approve": True}}}},
            "automaticallyApprove",
        ),
    ],
)
def test_misspelled_members_are_refused(
    arm: ArmHarness, path: str, body: Json, suggestion: str
) -> None:
    """A member that would have no effect is refused, with the name that was meant."""
    response = arm.put(path, {**LOCATION, **body})
    assert refused(response) == (400, "BadRequest")
    assert response.error_message.startswith("Could not find member '")
    assert suggestion in response.error_message
    assert arm.get(path).status == 404


def test_misspelled_members_change_nothing(arm: ArmHarness) -> None:
    """A PATCH with a misspelled member changes neither the set nor an instance."""
    scale_set(arm, model=notice(), **policy(reboot=True))
    before = arm.get(WEB).json
    wrong = {TERMINATE: {"enable": True, "notBeforeTime": "PT10M"}}
    change = {"properties": {"virtualMachineProfile": {"scheduledEventsProfile": wrong}}}
    assert refused(arm.patch(WEB, {"tags": {"a": "b"}, **change})) == (400, "BadRequest")
    instance = f"{WEB}/virtualMachines/0"
    protection = {"properties": {"protectionPolicy": {"protectFromScalein": 1, "protect": 1}}}
    assert arm.put(instance, protection).status == 400
    assert arm.get(WEB).json == before
    assert not arm.machines(WEB_SCOPE)["web_0"].protected


def test_every_modeled_type_has_a_shape() -> None:
    """The types that machines consist of or refer to have shapes, and so have their parts."""
    stored = {"Microsoft.Resources/deployments", "Microsoft.Resources/tags", LOCKS}
    assert {kind.name.lower() for kind in TYPES if kind.name not in stored} <= set(types.shapes())


NOT_IN_SDK = {"AutoOSUpgradePolicy", "ResourceGroup", "ResourceGroupProperties"}


@pytest.fixture(scope="module")
def kept() -> Json:
    """Return the content of shapes.json."""
    content: Json = json.loads(FILE.read_text("utf-8"))
    return content


def test_the_shapes_are_those_of_the_sdk(kept: Json) -> None:
    """The generator writes what is kept."""
    for provider, package in PACKAGES.items():
        if kept[provider]["sdk"] != installed(package):
            pytest.skip(f"{installed(package)} is installed, {FILE.name} is of another version")
    assert FILE.read_text("utf-8") == f"{text_of(generate())}\n", "run `python -m deploy.schema`"


def test_the_overlay_names_models_of_the_sdk(kept: Json) -> None:
    """A model or a word that a new version of the SDK renames does not stop being exact."""
    compute, network = kept["Microsoft.Compute"], kept["Microsoft.Network"]
    models = {*overlay()["exact"], *overlay()["models"]} - NOT_IN_SDK
    assert models <= compute["models"].keys()
    assert models.isdisjoint(network["models"])
    assert overlay()["words"].keys().isdisjoint(network["words"])
    for name, words in overlay()["words"].items():
        assert set(words) <= set(compute["words"][name]), name
