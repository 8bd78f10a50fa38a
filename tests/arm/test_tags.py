"""Tags of groups, machines and the subscription (C1). For each type: `test_verbs.py`."""

import pytest

from tests.arm.bodies import ANN, COMPUTE, VM, Json, machine, refused
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1")

RG = "/resourceGroups/rg"
TAGS = "providers/Microsoft.Resources/tags/default"


def put(arm: ArmHarness, path: str, **tags: str) -> None:
    """Replace the tags at a path, as `az tag create --resource-id` does."""
    response = arm.put(f"{path}/{TAGS}", {"properties": {"tags": tags}})
    assert response.status == 200, response.body
    assert response.json["properties"]["tags"] == tags
    assert response.json["id"] == f"{SUBSCRIPTION}{path}/{TAGS}"


def patch(arm: ArmHarness, path: str, operation: str, **tags: str) -> dict[str, str]:
    """Change the tags at a path, as `az tag update --resource-id` does; return the new tags."""
    body = {"operation": operation, "properties": {"tags": tags}}
    response = arm.patch(f"{path}/{TAGS}", body)
    assert response.status == 200, response.body
    result: dict[str, str] = response.json["properties"]["tags"]
    assert arm.get(f"{path}/{TAGS}").json["properties"]["tags"] == result
    return result


def test_a_machine_gets_its_tags(arm: ArmHarness) -> None:
    """Tags reach the machine itself, and the rest of the resource stays."""
    machine(arm, hardwareProfile={"vmSize": "Standard_B2s"})
    before = arm.get(VM).json
    put(arm, VM, owner="ann")
    assert arm.scope("rg:vm").machines["vm"].tags == {"owner": "ann"}
    after = arm.get(VM).json
    assert after["properties"] == before["properties"]
    arm.create_fleet()
    path = "/resourceGroups/fairwarning/providers/Microsoft.Compute/virtualMachines/db_0"
    merged = patch(arm, path, "Merge", extra="1")
    assert merged["extra"] == "1"
    assert arm.get(path).json["tags"] == merged


def test_the_subscription(arm: ArmHarness) -> None:
    """The subscription has tags of its own, which a tenant of a group cannot change."""
    put(arm, "", cost="42")
    assert patch(arm, "", "Merge", more="1") == {"cost": "42", "more": "1"}
    body: Json = {"properties": {"tags": {}}}
    assert refused(arm.put(f"/{TAGS}", body, principal=ANN)) == (403, "AuthorizationFailed")
    assert refused(arm.get(f"/{TAGS}", principal=ANN)) == (403, "AuthorizationFailed")


def test_a_resource_of_the_subscription(arm: ArmHarness) -> None:
    """Its tags are its own, and not those of the subscription."""
    policy = "/providers/Microsoft.Authorization/policyDefinitions/p"
    put(arm, "", cost="42")
    arm.put(policy, {"location": "local"})
    put(arm, policy, owner="ann")
    assert arm.get(policy).json["tags"] == {"owner": "ann"}
    assert arm.get(f"/{TAGS}").json["properties"]["tags"] == {"cost": "42"}


def test_tag_names(arm: ArmHarness) -> None:
    """`az tag list` counts the tags of all groups and resources; a tenant sees its group's."""
    machine(arm)
    machine(arm, VM.replace("rg", "other"))
    put(arm, VM, owner="ann")
    put(arm, VM.replace("rg", "other"), owner="bob")
    put(arm, RG, owner="ann")
    (entry,) = arm.get("/tagNames").json["value"]
    assert (entry["tagName"], entry["count"]["value"]) == ("owner", 3)
    assert [(v["tagValue"], v["count"]["value"]) for v in entry["values"]] == [
        ("ann", 2), ("bob", 1),
    ]  # fmt: skip
    (entry,) = arm.get("/tagNames", principal=ANN).json["value"]
    assert [v["tagValue"] for v in entry["values"]] == ["ann"]


def test_refusals(arm: ArmHarness) -> None:
    """Bad input names what is allowed, and changes nothing."""
    machine(arm)
    put(arm, VM, owner="ann")
    tags = {f"t{n}": "" for n in range(51)}
    unknown = {"operation": "Add", "properties": {"tags": {}}}
    for body in ({"properties": {"tags": tags}}, {"properties": {"tags": {"a": 1}}}):
        assert refused(arm.put(f"{VM}/{TAGS}", body)) == (400, "InvalidParameter")
    assert "Merge, Replace, Delete" in arm.patch(f"{VM}/{TAGS}", unknown).error_message
    assert "Merge, Replace, Delete" in arm.patch(f"{VM}/{TAGS}", {}).error_message
    empty: Json = {"properties": {"tags": {}}}
    for path, code in (
        (f"{COMPUTE}/virtualMachines/none", "ResourceNotFound"),
        (f"{COMPUTE}/castles/one", "ResourceNotFound"),
        ("/resourceGroups/none", "ResourceGroupNotFound"),
    ):
        assert refused(arm.put(f"{path}/{TAGS}", empty)) == (404, code)
    assert arm.get(VM).json["tags"] == {"owner": "ann"}
