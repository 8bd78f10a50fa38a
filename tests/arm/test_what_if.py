"""What-if: the changes that a deployment would make."""

from typing import Any

import pytest

from tests.arm.bodies import COMPUTE, VM
from tests.arm.templates import resource
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1", "C2")

Json = dict[str, Any]
RG = "/resourceGroups/rg"
DEPLOYMENT = f"{RG}/providers/Microsoft.Resources/deployments/main"
NET = "Microsoft.Network/virtualNetworks"
MACHINE = "Microsoft.Compute/virtualMachines"


def body(*resources: Json, **more: object) -> Json:
    """Return the body of a deployment."""
    return {"properties": {"mode": "Incremental", "template": {"resources": [*resources]}, **more}}


def what_if(arm: ArmHarness, *resources: Json, **more: object) -> dict[str, Json]:
    """Return the changes, by the names of the resources."""
    response = arm.post(f"{DEPLOYMENT}/whatIf", body(*resources, **more))
    assert (response.status, response.json["status"]) == (200, "Succeeded"), response.body
    changes = response.json["properties"]["changes"]
    return {change["resourceId"].rpartition("/")[2]: change for change in changes}


def kinds(changes: dict[str, Json]) -> dict[str, str]:
    """Return the type of each change."""
    return {name: change["changeType"] for name, change in changes.items()}


def subnet(name: str, prefix: str) -> Json:
    """Return a subnet of a virtual network."""
    return {"name": name, "properties": {"addressPrefix": prefix}}


def network(*subnets: Json, **more: object) -> Json:
    """Return a virtual network."""
    space = {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}
    return resource(NET, "net", properties={**space, "subnets": [*subnets]}, **more)


FIRST = subnet("a", "10.0.0.0/24")


def test_changes() -> None:
    """New resources are created, equal ones do not change, others of the group are ignored."""
    with ArmHarness() as arm:
        arm.group()
        machine = resource(MACHINE, "vm", "net")
        first = what_if(arm, network(FIRST), machine)
        assert kinds(first) == {"net": "Create", "vm": "Create"}
        assert first["vm"]["after"]["apiVersion"] == machine["apiVersion"]
        assert arm.get(VM).status == 404
        arm.put(DEPLOYMENT, body(network(FIRST), machine))
        arm.put(f"{COMPUTE}/virtualMachines/other", {"location": "local"})
        second = what_if(arm, network(FIRST, location="Local"), machine)
        assert kinds(second) == {"net": "NoChange", "vm": "NoChange", "other": "Ignore"}
        assert second["other"]["before"]["id"] == f"{SUBSCRIPTION}{COMPUTE}/virtualMachines/other"


def test_properties_that_change() -> None:
    """The delta has the path, the old and the new value of each property that differs."""
    with ArmHarness() as arm:
        arm.group()
        second = subnet("b", "10.0.1.0/24")
        arm.put(DEPLOYMENT, body(network(FIRST, second, tags={"a": "1", "b": "2"})))
        changed = network(subnet("A", "10.0.7.0/24"), subnet("c", "10.0.2.0/24"), tags={"a": "3"})
        change = what_if(arm, changed)["net"]
        assert change["changeType"] == "Modify"
        delta = {entry["path"]: entry for entry in change["delta"]}
        assert delta["tags.a"] == {
            "path": "tags.a", "propertyChangeType": "Modify", "before": "1", "after": "3"
        }  # fmt: skip
        assert delta["tags.b"]["propertyChangeType"] == "Delete"
        subnets = delta["properties.subnets"]
        assert subnets["propertyChangeType"] == "Array"
        types = {(child["path"], child["propertyChangeType"]) for child in subnets["children"]}
        assert types == {("0", "Modify"), ("1", "Create"), ("1", "Delete")}
        (prefix,) = subnets["children"][0]["children"]
        assert (prefix["path"], prefix["after"]) == ("properties.addressPrefix", "10.0.7.0/24")
        assert set(delta) == {"tags.a", "tags.b", "properties.subnets"}


def test_lists_without_names_are_compared_by_position() -> None:
    """Numbers and booleans may be sent as strings."""
    with ArmHarness() as arm:
        arm.group()
        before = {"x": [1, {"on": True}, 3]}
        arm.put(DEPLOYMENT, body(resource(NET, "net", properties=before)))
        same = what_if(arm, resource(NET, "net", properties={"x": ["1", {"on": "True"}, 3]}))
        assert kinds(same) == {"net": "NoChange"}
        change = what_if(arm, resource(NET, "net", properties={"x": [2, {"on": False}]}))["net"]
        (array,) = change["delta"]
        types = [(child["path"], child["propertyChangeType"]) for child in array["children"]]
        assert types == [("0", "Modify"), ("1", "Modify"), ("2", "Delete")]


def test_ids_only() -> None:
    """`--result-format ResourceIdOnly` says what is created or deployed, without payloads."""
    with ArmHarness() as arm:
        arm.group()
        arm.put(DEPLOYMENT, body(network(FIRST)))
        settings = {"resultFormat": "ResourceIdOnly"}
        changes = what_if(arm, network(), resource(MACHINE, "vm"), whatIfSettings=settings)
        assert kinds(changes) == {"net": "Deploy", "vm": "Create"}
        assert all(set(change) == {"resourceId", "changeType"} for change in changes.values())


def test_nested_deployments_and_references() -> None:
    """Resources of nested templates are listed; a value that is not known yet is reported."""
    inside = body(resource(MACHINE, "inner"))["properties"]
    step = {
        "type": "Microsoft.Resources/deployments",
        "name": "nested",
        "apiVersion": "2022-09-01",
        "properties": inside,
    }
    known = resource(
        MACHINE, "vm", tags={"x": "[reference('net').addressSpace.addressPrefixes[0]]"}
    )
    unknown = resource(MACHINE, "late", tags={"x": "[reference('net').resourceGuid]"})
    foreign = resource(
        MACHINE, "far", tags={"x": f"[reference(resourceId('{MACHINE}', 'none')).vmId]"}
    )
    with ArmHarness() as arm:
        arm.group()
        changes = what_if(arm, step, network(FIRST), known, unknown, foreign)
        assert kinds(changes) == {
            "inner": "Create",
            "net": "Create",
            "vm": "Create",
            "late": "Unsupported",
            "far": "Unsupported",
        }
        assert changes["vm"]["after"]["tags"] == {"x": "10.0.0.0/16"}
        assert "does not exist yet" in changes["far"]["unsupportedReason"]
        arm.put(DEPLOYMENT, body(network(FIRST)))
        assert kinds(what_if(arm, network(FIRST), unknown))["late"] == "Create"


def test_secrets_are_not_shown() -> None:
    """A preview has no passwords."""
    with ArmHarness() as arm:
        arm.group()
        secret = {"osProfile": {"adminPassword": "s3cret", "computerName": "x"}}
        change = what_if(arm, resource(MACHINE, "vm", properties=secret))["vm"]
        assert change["after"]["properties"] == {"osProfile": {"computerName": "x"}}


@pytest.mark.parametrize(
    "request_body",
    [
        {},
        body(resource("Contoso.Sand/castles", "c")),
        body(resource(MACHINE, "[no()]")),
        body(whatIfSettings={"resultFormat": "Some"}),
        body(whatIfSettings={"resultFormat": 5}),
        body(mode="Complete"),
    ],
)
def test_an_invalid_template_is_the_result(request_body: Json) -> None:
    """As on Azure, the request succeeds, and the result has the status Failed and the error."""
    with ArmHarness() as arm:
        arm.group()
        response = arm.post(f"{DEPLOYMENT}/whatIf", request_body)
        assert (response.status, response.json["status"]) == (200, "Failed")
        assert response.json["error"]["message"]


def test_groups_with_many_resources() -> None:
    """Ignored resources come from all pages of the group's resources."""
    with ArmHarness() as arm:
        arm.group()
        many = resource(NET, "[concat('n', copyIndex())]", copy={"name": "n", "count": 230})
        arm.put(DEPLOYMENT, body(many))
        changes = what_if(arm, network(FIRST))
        assert sorted(kinds(changes).values()) == ["Create"] + ["Ignore"] * 230
