from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from fairwarning.arm.resources.writing import ResourceWrite, WriteResult

from fairwarning.arm.resources import network
from fairwarning.service.tokens import Principal, Role
from tests.fixtures.arm import SUBSCRIPTION, VERSION, ArmHarness
from tests.fixtures.http import Response

NETWORK = "/resourceGroups/rg/providers/Microsoft.Network"
COMPUTE = "/resourceGroups/rg/providers/Microsoft.Compute"
VNET = f"{NETWORK}/virtualNetworks/net"
LB = f"{NETWORK}/loadBalancers/lb"
READER = Principal(name="eve", role=Role.READER)
ANN = Principal(name="ann", role=Role.TENANT, group="hers")

PATHS = [
    f"/resourceGroups/rg/providers/{kind}" for kind in sorted(network.KINDS)
]  # where each type is listed


def created(response: Response) -> Any:  # noqa: ANN401  (a document)
    """Return the document of a new resource. For a new disk, clients accept only 200."""
    assert response.status == (200 if "/disks/" in response.json.get("id", "") else 201), (
        response.body
    )
    return response.json


def vnet(arm: ArmHarness, **properties: Any) -> Any:  # noqa: ANN401  (any JSON)
    """Create a virtual network with a subnet."""
    subnets = [{"name": "front", "properties": {"addressPrefix": "10.7.0.0/24"}}]
    body = {"location": "local", "properties": {"subnets": subnets, **properties}}
    return created(arm.put(VNET, body))


# --- All types ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_written_read_listed_and_deleted(path: str) -> None:
    """Resources are returned as written, and are gone after a delete."""
    with ArmHarness() as arm:
        arm.group()
        body = {"location": "westus", "tags": {"a": "b"}, "properties": {"theirs": {"own": [1]}}}
        document = created(arm.put(f"{path}/x", body))
        assert document["id"] == f"{SUBSCRIPTION}{path}/x"
        assert document["type"] == path.partition("/providers/")[2]
        assert (document["name"], document["location"], document["tags"]) == (
            "x",
            "westus",
            {"a": "b"},
        )
        assert document["properties"]["theirs"] == {"own": [1]}
        assert document["properties"]["provisioningState"] == "Succeeded"
        assert arm.get(f"{path}/X").json == document
        assert arm.get(path).json == {"value": [document]}
        everywhere = path.removeprefix("/resourceGroups/rg")
        assert arm.get(everywhere).json == {"value": [document]}
        deleted = arm.delete(f"{path}/x")
        assert deleted.status == 202
        assert arm.ended(deleted)["status"] == "Succeeded"
        assert arm.get(f"{path}/x").error_code == "ResourceNotFound"
        assert arm.get(path).json == {"value": []}
        assert arm.delete(f"{path}/x").status == 204


def test_a_put_replaces() -> None:
    """A PUT deletes members that are left out; a write-back changes nothing."""
    path = f"{NETWORK}/networkSecurityGroups/nsg"
    with ArmHarness() as arm:
        arm.group()
        created(arm.put(path, {"location": "local", "tags": {"a": "b"}, "properties": {"x": 1}}))
        again = arm.put(path, {"location": "local", "properties": {"y": 2}})
        assert again.status == 200
        assert "tags" not in again.json
        assert "x" not in again.json["properties"]
        back = arm.put(path, again.json).json
        assert {**back, "etag": again.json["etag"]} == again.json


def test_a_patch_merges() -> None:
    """A PATCH merges into an existing resource and creates none."""
    path = f"{COMPUTE}/disks/disk"
    with ArmHarness() as arm:
        arm.group()
        missing = arm.patch(path, {"tags": {}})
        assert (missing.status, missing.error_code) == (404, "ResourceNotFound")
        created(arm.put(path, {"location": "local", "properties": {"diskSizeGB": 4, "b": 1}}))
        result = arm.patch(path, {"tags": {"a": "b"}, "properties": {"diskSizeGB": 8}}).json
        assert result["tags"] == {"a": "b"}
        assert (result["properties"]["diskSizeGB"], result["properties"]["b"]) == (8, 1)
        assert arm.get(path).json == result


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "LocationRequired"),
        ({"location": 1}, "InvalidParameter"),
        ({"location": "local", "tags": {"a": 1}}, "InvalidParameter"),
        ({"location": "local", "properties": []}, "InvalidParameter"),
        ({"location": "local", "properties": {"subnets": {}}}, "InvalidParameter"),
        ({"location": "local", "properties": {"subnets": ["a"]}}, "InvalidParameter"),
        ({"location": "local", "properties": {"subnets": [{}]}}, "InvalidParameter"),
        ({"location": "local", "properties": {"subnets": [{"name": "a/b"}]}}, "InvalidParameter"),
        (
            {"location": "local", "properties": {"subnets": [{"name": "a"}, {"name": "A"}]}},
            "InvalidParameter",
        ),
        (
            {"location": "local", "properties": {"subnets": [{"name": "a", "properties": 1}]}},
            "InvalidParameter",
        ),
    ],
)
def test_invalid_bodies(body: object, code: str) -> None:
    """An invalid body neither creates nor changes a resource."""
    with ArmHarness() as arm:
        arm.group()
        for _ in range(2):
            response = arm.put(VNET, body)
            assert (response.status, response.error_code) == (400, code)
        assert arm.get(VNET).status == 404
        before = vnet(arm)
        assert arm.put(VNET, body).status == 400
        assert arm.get(VNET).json == before


def test_a_group_is_required() -> None:
    """Every request in an unknown group returns 404."""
    with ArmHarness() as arm:
        responses = (
            arm.put(VNET, {"location": "local"}),
            arm.get(VNET),
            arm.get(f"{NETWORK}/virtualNetworks"),
            arm.delete(VNET),
            arm.put(f"{VNET}/subnets/a", {}),
            arm.delete(f"{VNET}/subnets/a"),
        )
    for response in responses:
        assert (response.status, response.error_code) == (404, "ResourceGroupNotFound")


def test_authorization() -> None:
    """A reader writes nothing, and a tenant sees no other group."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        body = {"location": "local"}
        for response in (
            arm.put(VNET, body, principal=READER),
            arm.delete(VNET, principal=READER),
            arm.put(f"{VNET}/subnets/a", {}, principal=READER),
            arm.get(VNET, principal=ANN),
        ):
            assert (response.status, response.error_code) == (403, "AuthorizationFailed")
        assert arm.get(VNET, principal=READER).status == 200
        everywhere = arm.get("/providers/Microsoft.Network/virtualNetworks", principal=ANN)
        assert everywhere.json == {"value": []}


def test_conditions() -> None:
    """If-Match and If-None-Match prevent overwriting another state."""
    with ArmHarness() as arm:
        arm.group()
        first = vnet(arm)["etag"]
        body = {"location": "local"}
        assert arm.put(VNET, body, headers={"if-none-match": "*"}).status == 412
        assert arm.put(VNET, body, headers={"if-match": first}).status == 200
        late = arm.put(VNET, body, headers={"if-match": first})
        assert (late.status, late.error_code) == (412, "PreconditionFailed")


def test_names_are_case_insensitive() -> None:
    """A resource keeps the name of its creation."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        again = arm.put(
            VNET.upper().replace("/RESOURCEGROUPS", "/resourceGroups"), {"location": "l"}
        )
        assert (again.status, again.json["name"]) == (200, "net")
        assert again.json["id"] == f"{SUBSCRIPTION}{VNET}"


# --- Nested resources -----------------------------------------------------------------------------


def test_nested_resources_have_ids() -> None:
    """Clients refer to subnets, pools and rules by their ids."""
    parts = (
        "frontendIPConfigurations", "backendAddressPools", "probes", "loadBalancingRules",
        "inboundNatRules", "inboundNatPools",
    )  # fmt: skip
    with ArmHarness() as arm:
        arm.group()
        (subnet,) = vnet(arm)["properties"]["subnets"]
        assert subnet["id"] == f"{SUBSCRIPTION}{VNET}/subnets/front"
        assert subnet["properties"]["addressPrefix"] == "10.7.0.0/24"
        assert subnet["properties"]["provisioningState"] == "Succeeded"
        body = {part: [{"name": "one", "properties": {"port": 1}}] for part in parts}
        result = created(arm.put(LB, {"location": "local", "properties": body}))["properties"]
    for part in parts:
        (nested,) = result[part]
        assert nested["id"] == f"{SUBSCRIPTION}{LB}/{part}/one"
        assert nested["type"] == f"Microsoft.Network/loadBalancers/{part}"
        assert nested["properties"]["port"] == 1
    assert result["outboundRules"] == []


def test_a_nested_resource_is_part_of_its_parent() -> None:
    """A nested resource is in its parent's document and has a URL of its own."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        back = {"properties": {"addressPrefix": "10.7.1.0/24"}}
        document = created(arm.put(f"{VNET}/subnets/back", back))
        assert document["id"] == f"{SUBSCRIPTION}{VNET}/subnets/back"
        assert document["name"] == "back"
        assert arm.get(f"{VNET}/subnets/BACK").json == document
        inside = arm.get(VNET).json["properties"]["subnets"]
        assert [item["name"] for item in inside] == ["front", "back"]
        assert arm.get(f"{VNET}/subnets").json == {"value": inside}
        assert arm.get(f"{VNET}/subnets/front").json == inside[0]


def test_a_nested_resource_is_replaced() -> None:
    """It keeps its position, and its parent does not change otherwise."""
    with ArmHarness() as arm:
        arm.group()
        before = vnet(arm, addressSpace={"addressPrefixes": ["10.7.0.0/16"]})["properties"]
        created(arm.put(f"{VNET}/subnets/back", {}))
        again = arm.put(f"{VNET}/subnets/Front", {"properties": {"addressPrefix": "10.7.9.0/24"}})
        assert (again.status, again.json["name"]) == (200, "front")
        after = arm.get(VNET).json["properties"]
        assert [item["name"] for item in after["subnets"]] == ["front", "back"]
        assert after["subnets"][0]["properties"]["addressPrefix"] == "10.7.9.0/24"
        assert after["addressSpace"] == before["addressSpace"]
        response = arm.put(f"{VNET}/subnets/back", {}, headers={"if-none-match": "*"})
        assert (response.status, response.error_code) == (412, "PreconditionFailed")


def test_a_nested_resource_is_deleted() -> None:
    """It is removed from its parent; deleting a missing one returns 204."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        assert arm.delete(f"{VNET}/subnets/front").status == 200
        assert arm.get(VNET).json["properties"]["subnets"] == []
        gone = arm.get(f"{VNET}/subnets/front")
        assert (gone.status, gone.error_code) == (404, "ResourceNotFound")
        assert arm.delete(f"{VNET}/subnets/front").status == 204
        assert arm.delete(f"{NETWORK}/virtualNetworks/other/subnets/front").status == 204


def test_nested_resources_are_deleted_with_their_parent() -> None:
    """A new parent with the same name has no nested resources."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        created(arm.put(f"{VNET}/subnets/back", {}))
        arm.delete(VNET)
        created(arm.put(VNET, {"location": "local"}))
        assert arm.get(f"{VNET}/subnets").json == {"value": []}


def test_a_nested_resource_needs_its_parent() -> None:
    """Writing a nested resource without its parent is refused."""
    with ArmHarness() as arm:
        arm.group()
        response = arm.put(f"{LB}/inboundNatRules/ssh", {"properties": {}})
        assert (response.status, response.error_code) == (404, "ParentResourceNotFound")
        assert arm.get(LB).status == 404
        assert arm.get(f"{LB}/inboundNatRules").status == 404


def test_invalid_nested_resources() -> None:
    """An invalid nested resource is refused, and its parent does not change."""
    with ArmHarness() as arm:
        arm.group()
        before = vnet(arm)
        for path, body in (("a", {"properties": 1}), ("-", {}), ("x" * 81, {})):
            response = arm.put(f"{VNET}/subnets/{path}", body)
            assert (response.status, response.error_code) == (400, "InvalidParameter")
        assert arm.get(VNET).json == before


# --- Addresses ------------------------------------------------------------------------------------


def interface(subnet: str = "", **more: object) -> dict[str, Any]:
    """Return the body of a network interface."""
    inner = {**({"subnet": {"id": subnet}} if subnet else {}), **more}
    return {
        "location": "local",
        "properties": {"ipConfigurations": [{"name": "first", "properties": inner}]},
    }


def private(document: Any) -> str:  # noqa: ANN401  (a document)
    """Return the private address of the first configuration."""
    address: str = document["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"]
    return address


def test_an_interface_has_addresses() -> None:
    """It has a usable address of its subnet and a MAC address, and both never change."""
    path = f"{NETWORK}/networkInterfaces/nic"
    with ArmHarness() as arm:
        arm.group()
        subnet = vnet(arm)["properties"]["subnets"][0]["id"]
        document = created(arm.put(path, interface(subnet)))
        address = ip_address(private(document))
        assert address in ip_network("10.7.0.0/24")
        assert 4 <= int(address) % 256 < 255
        assert len(document["properties"]["macAddress"].split("-")) == 6
        again = arm.put(path, interface(subnet.upper())).json
        assert private(again) == private(document)
        assert again["properties"]["macAddress"] == document["properties"]["macAddress"]
        arm.restart()
        assert private(arm.get(path).json) == private(document)


def test_no_subnet() -> None:
    """The interface gets an address of the default range."""
    with ArmHarness() as arm:
        arm.group()
        document = created(arm.put(f"{NETWORK}/networkInterfaces/nic", interface()))
    assert ip_address(private(document)) in ip_network("10.0.0.0/16")


@pytest.mark.parametrize(
    "properties",
    [
        {"addressPrefix": "none"},
        {"addressPrefix": "fd00::/64"},
        {"addressPrefix": "10.9.0.0/31"},
        {"addressPrefixes": []},
    ],
)
def test_an_unusable_subnet(properties: dict[str, Any]) -> None:
    """The interface gets an address of the default range."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm, subnets=[{"name": "a", "properties": properties}])
        body = interface(f"{SUBSCRIPTION}{VNET}/subnets/a")
        document = created(arm.put(f"{NETWORK}/networkInterfaces/nic", body))
    assert ip_address(private(document)) in ip_network("10.0.0.0/16")


def test_a_requested_address() -> None:
    """A requested private address is used; without a subnet it may be any."""
    with ArmHarness() as arm:
        arm.group()
        body = interface(privateIPAddress="10.1.2.3")
        document = created(arm.put(f"{NETWORK}/networkInterfaces/nic", body))
    assert private(document) == "10.1.2.3"


def test_public_addresses_are_reserved() -> None:
    """They are in the documentation ranges, which are not routed."""
    ranges = [ip_network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
    with ArmHarness() as arm:
        arm.group()
        addresses = set()
        for number in range(20):
            path = f"{NETWORK}/publicIPAddresses/ip{number}"
            document = created(arm.put(path, {"location": "local"}))["properties"]
            assert any(ip_address(document["ipAddress"]) in net for net in ranges)
            assert document["publicIPAllocationMethod"] == "Dynamic"
            assert arm.get(path).json["sku"] == {"name": "Basic", "tier": "Regional"}
            addresses.add(document["ipAddress"])
        assert len(addresses) > 10


# --- As a part of a deployment --------------------------------------------------------------------


def deploy(arm: ArmHarness, kind: str, write: ResourceWrite) -> WriteResult:
    """Write a resource as a deployment does."""

    async def put() -> WriteResult:
        return await network.PUTS[kind.lower()](arm.app.context, write)

    return arm.run(put())


def test_all_types_can_be_deployed() -> None:
    """A template can write every type, including nested resources."""
    with ArmHarness() as arm:
        arm.group()
        cases = [
            ("Microsoft.Network/loadBalancers", "lb"),
            ("Microsoft.Network/loadBalancers/inboundNatRules", "lb/ssh"),
        ]
        for kind, name in cases:
            write = ResourceWrite(
                "rg", name, {"location": "local", "properties": {}}, VERSION, "ann"
            )
            result = deploy(arm, kind, write)
            assert result.created
            assert result.resource.name == name
            assert result.document["id"] == arm.app.context.arm_id(kind, "rg", name)
        assert arm.get(f"{LB}/inboundNatRules/ssh").json == result.document
        assert set(network.PUTS) == {kind.lower() for kind in network.TYPES}


def test_a_write_does_not_change_the_body() -> None:
    """The caller can use the body again."""
    with ArmHarness() as arm:
        arm.group()
        body = interface()
        write = ResourceWrite("rg", "nic", body, VERSION, "ann")
        deploy(arm, "Microsoft.Network/networkInterfaces", write)
        assert body == interface()


def test_resources_are_deleted_with_their_group() -> None:
    """A new group with the same name is empty."""
    with ArmHarness() as arm:
        arm.group()
        for path in PATHS:
            created(arm.put(f"{path}/x", {"location": "local"}))
        arm.delete("/resourceGroups/rg")
        arm.group()
        for path in PATHS:
            assert arm.get(path).json == {"value": []}
