from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from fairwarning.arm.resources import network
from fairwarning.arm.resources.writing import ResourceWrite, WriteResult
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


def made(answer: Response) -> Any:  # noqa: ANN401  (a document)
    """What was made; of a disk it is not said that it is new, which Azure's clients rely on."""
    assert answer.status == (200 if "/disks/" in answer.json.get("id", "") else 201), answer.body
    return answer.json


def vnet(arm: ArmHarness, **properties: Any) -> Any:  # noqa: ANN401
    """A network with a subnet."""
    subnets = [{"name": "front", "properties": {"addressPrefix": "10.7.0.0/24"}}]
    body = {"location": "local", "properties": {"subnets": subnets, **properties}}
    return made(arm.put(VNET, body))


# --- All of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_written_read_listed_and_deleted(path: str) -> None:
    """What was written is there, as it was written; once deleted it is gone."""
    with ArmHarness() as arm:
        arm.group()
        body = {"location": "westus", "tags": {"a": "b"}, "properties": {"theirs": {"own": [1]}}}
        shown = made(arm.put(f"{path}/x", body))
        assert shown["id"] == f"{SUBSCRIPTION}{path}/x"
        assert shown["type"] == path.partition("/providers/")[2]
        assert (shown["name"], shown["location"], shown["tags"]) == ("x", "westus", {"a": "b"})
        assert shown["properties"]["theirs"] == {"own": [1]}
        assert shown["properties"]["provisioningState"] == "Succeeded"
        assert arm.get(f"{path}/X").json == shown
        assert arm.get(path).json == {"value": [shown]}
        everywhere = path.removeprefix("/resourceGroups/rg")
        assert arm.get(everywhere).json == {"value": [shown]}
        deleted = arm.delete(f"{path}/x")
        assert deleted.status == 202
        assert arm.ended(deleted)["status"] == "Succeeded"
        assert arm.get(f"{path}/x").error_code == "ResourceNotFound"
        assert arm.get(path).json == {"value": []}
        assert arm.delete(f"{path}/x").status == 204


def test_a_put_replaces() -> None:
    """What is left out of it is meant to go; what clients read and send back changes nothing."""
    path = f"{NETWORK}/networkSecurityGroups/nsg"
    with ArmHarness() as arm:
        arm.group()
        made(arm.put(path, {"location": "local", "tags": {"a": "b"}, "properties": {"x": 1}}))
        again = arm.put(path, {"location": "local", "properties": {"y": 2}})
        assert again.status == 200
        assert "tags" not in again.json
        assert "x" not in again.json["properties"]
        back = arm.put(path, again.json).json
        assert {**back, "etag": again.json["etag"]} == again.json


def test_a_patch_merges() -> None:
    """Tags are the usual case; there has to be something to change."""
    path = f"{COMPUTE}/disks/disk"
    with ArmHarness() as arm:
        arm.group()
        missing = arm.patch(path, {"tags": {}})
        assert (missing.status, missing.error_code) == (404, "ResourceNotFound")
        made(arm.put(path, {"location": "local", "properties": {"diskSizeGB": 4, "b": 1}}))
        found = arm.patch(path, {"tags": {"a": "b"}, "properties": {"diskSizeGB": 8}}).json
        assert found["tags"] == {"a": "b"}
        assert (found["properties"]["diskSizeGB"], found["properties"]["b"]) == (8, 1)
        assert arm.get(path).json == found


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
def test_what_is_wrong_is_refused_and_changes_nothing(body: object, code: str) -> None:
    """Neither what is new nor what is there."""
    with ArmHarness() as arm:
        arm.group()
        for _ in range(2):
            refused = arm.put(VNET, body)
            assert (refused.status, refused.error_code) == (400, code)
        assert arm.get(VNET).status == 404
        before = vnet(arm)
        assert arm.put(VNET, body).status == 400
        assert arm.get(VNET).json == before


def test_it_needs_a_group() -> None:
    """Nothing is written, read, listed or deleted where there is none."""
    with ArmHarness() as arm:
        answers = (
            arm.put(VNET, {"location": "local"}),
            arm.get(VNET),
            arm.get(f"{NETWORK}/virtualNetworks"),
            arm.delete(VNET),
            arm.put(f"{VNET}/subnets/a", {}),
            arm.delete(f"{VNET}/subnets/a"),
        )
    for refused in answers:
        assert (refused.status, refused.error_code) == (404, "ResourceGroupNotFound")


def test_who_may() -> None:
    """A reader writes nothing, and nobody sees into another's group."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        body = {"location": "local"}
        for refused in (
            arm.put(VNET, body, principal=READER),
            arm.delete(VNET, principal=READER),
            arm.put(f"{VNET}/subnets/a", {}, principal=READER),
            arm.get(VNET, principal=ANN),
        ):
            assert (refused.status, refused.error_code) == (403, "AuthorizationFailed")
        assert arm.get(VNET, principal=READER).status == 200
        everywhere = arm.get("/providers/Microsoft.Network/virtualNetworks", principal=ANN)
        assert everywhere.json == {"value": []}


def test_conditions() -> None:
    """Who says which state he means changes no other."""
    with ArmHarness() as arm:
        arm.group()
        first = vnet(arm)["etag"]
        body = {"location": "local"}
        assert arm.put(VNET, body, headers={"if-none-match": "*"}).status == 412
        assert arm.put(VNET, body, headers={"if-match": first}).status == 200
        late = arm.put(VNET, body, headers={"if-match": first})
        assert (late.status, late.error_code) == (412, "PreconditionFailed")


def test_names_that_differ_in_case_are_the_same() -> None:
    """It keeps the name that it was made with."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        again = arm.put(
            VNET.upper().replace("/RESOURCEGROUPS", "/resourceGroups"), {"location": "l"}
        )
        assert (again.status, again.json["name"]) == (200, "net")
        assert again.json["id"] == f"{SUBSCRIPTION}{VNET}"


# --- Parts ----------------------------------------------------------------------------------------


def test_parts_have_ids() -> None:
    """Clients name a subnet, a pool or a rule by its id, which they read here."""
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
        found = made(arm.put(LB, {"location": "local", "properties": body}))["properties"]
    for part in parts:
        (one,) = found[part]
        assert one["id"] == f"{SUBSCRIPTION}{LB}/{part}/one"
        assert one["type"] == f"Microsoft.Network/loadBalancers/{part}"
        assert one["properties"]["port"] == 1
    assert found["outboundRules"] == []


def test_a_part_is_written_by_itself_or_with_the_whole() -> None:
    """Either way it is the same: both URLs show both."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        back = {"properties": {"addressPrefix": "10.7.1.0/24"}}
        shown = made(arm.put(f"{VNET}/subnets/back", back))
        assert shown["id"] == f"{SUBSCRIPTION}{VNET}/subnets/back"
        assert shown["name"] == "back"
        assert arm.get(f"{VNET}/subnets/BACK").json == shown
        inside = arm.get(VNET).json["properties"]["subnets"]
        assert [one["name"] for one in inside] == ["front", "back"]
        assert arm.get(f"{VNET}/subnets").json == {"value": inside}
        assert arm.get(f"{VNET}/subnets/front").json == inside[0]


def test_a_part_is_replaced_in_its_place() -> None:
    """And nothing else of the whole changes."""
    with ArmHarness() as arm:
        arm.group()
        before = vnet(arm, addressSpace={"addressPrefixes": ["10.7.0.0/16"]})["properties"]
        made(arm.put(f"{VNET}/subnets/back", {}))
        again = arm.put(f"{VNET}/subnets/Front", {"properties": {"addressPrefix": "10.7.9.0/24"}})
        assert (again.status, again.json["name"]) == (200, "front")
        after = arm.get(VNET).json["properties"]
        assert [one["name"] for one in after["subnets"]] == ["front", "back"]
        assert after["subnets"][0]["properties"]["addressPrefix"] == "10.7.9.0/24"
        assert after["addressSpace"] == before["addressSpace"]
        refused = arm.put(f"{VNET}/subnets/back", {}, headers={"if-none-match": "*"})
        assert (refused.status, refused.error_code) == (412, "PreconditionFailed")


def test_a_part_is_deleted() -> None:
    """From the whole as well; what is not there need not be."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        assert arm.delete(f"{VNET}/subnets/front").status == 200
        assert arm.get(VNET).json["properties"]["subnets"] == []
        gone = arm.get(f"{VNET}/subnets/front")
        assert (gone.status, gone.error_code) == (404, "ResourceNotFound")
        assert arm.delete(f"{VNET}/subnets/front").status == 204
        assert arm.delete(f"{NETWORK}/virtualNetworks/other/subnets/front").status == 204


def test_a_part_goes_with_the_whole() -> None:
    """One that is made later under the same name has none of its parts."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        made(arm.put(f"{VNET}/subnets/back", {}))
        arm.delete(VNET)
        made(arm.put(VNET, {"location": "local"}))
        assert arm.get(f"{VNET}/subnets").json == {"value": []}


def test_a_part_of_nothing() -> None:
    """The whole has to be there first."""
    with ArmHarness() as arm:
        arm.group()
        refused = arm.put(f"{LB}/inboundNatRules/ssh", {"properties": {}})
        assert (refused.status, refused.error_code) == (404, "ParentResourceNotFound")
        assert arm.get(LB).status == 404
        assert arm.get(f"{LB}/inboundNatRules").status == 404


def test_a_part_that_is_wrong() -> None:
    """It is refused, and the whole is as it was."""
    with ArmHarness() as arm:
        arm.group()
        before = vnet(arm)
        for path, body in (("a", {"properties": 1}), ("-", {}), ("x" * 81, {})):
            refused = arm.put(f"{VNET}/subnets/{path}", body)
            assert (refused.status, refused.error_code) == (400, "InvalidParameter")
        assert arm.get(VNET).json == before


# --- Addresses ------------------------------------------------------------------------------------


def interface(subnet: str = "", **more: object) -> dict[str, Any]:
    """A network interface, as it is written."""
    inner = {**({"subnet": {"id": subnet}} if subnet else {}), **more}
    return {
        "location": "local",
        "properties": {"ipConfigurations": [{"name": "first", "properties": inner}]},
    }


def private(shown: Any) -> str:  # noqa: ANN401  (a document)
    """The address of its first configuration."""
    address: str = shown["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"]
    return address


def test_an_interface_has_addresses() -> None:
    """One of its subnet's, past those that Azure keeps, and a hardware address; for good."""
    path = f"{NETWORK}/networkInterfaces/nic"
    with ArmHarness() as arm:
        arm.group()
        subnet = vnet(arm)["properties"]["subnets"][0]["id"]
        shown = made(arm.put(path, interface(subnet)))
        address = ip_address(private(shown))
        assert address in ip_network("10.7.0.0/24")
        assert 4 <= int(address) % 256 < 255
        assert len(shown["properties"]["macAddress"].split("-")) == 6
        again = arm.put(path, interface(subnet.upper())).json
        assert private(again) == private(shown)
        assert again["properties"]["macAddress"] == shown["properties"]["macAddress"]
        arm.restart()
        assert private(arm.get(path).json) == private(shown)


@pytest.mark.parametrize(
    "subnet", ["", "nothing", f"{SUBSCRIPTION}{VNET}/subnets/other", f"{SUBSCRIPTION}{VNET}/x/y"]
)
def test_a_subnet_that_nobody_knows(subnet: str) -> None:
    """The interface gets an address all the same."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm)
        shown = made(arm.put(f"{NETWORK}/networkInterfaces/nic", interface(subnet)))
    assert ip_address(private(shown)) in ip_network("10.0.0.0/16")


@pytest.mark.parametrize(
    "properties",
    [
        {"addressPrefix": "none"},
        {"addressPrefix": "fd00::/64"},
        {"addressPrefix": "10.9.0.0/31"},
        {"addressPrefixes": []},
        {"addressPrefixes": [{}]},
    ],
)
def test_a_subnet_without_room(properties: dict[str, Any]) -> None:
    """As one that nobody knows."""
    with ArmHarness() as arm:
        arm.group()
        vnet(arm, subnets=[{"name": "a", "properties": properties}])
        body = interface(f"{SUBSCRIPTION}{VNET}/subnets/a")
        shown = made(arm.put(f"{NETWORK}/networkInterfaces/nic", body))
    assert ip_address(private(shown)) in ip_network("10.0.0.0/16")


def test_another_group_s_subnet_is_not_looked_up() -> None:
    """Its addresses are none of this group's business."""
    with ArmHarness() as arm:
        arm.group()
        arm.group("hers")
        subnet = vnet(arm)["properties"]["subnets"][0]["id"]
        path = "/resourceGroups/hers/providers/Microsoft.Network/networkInterfaces/nic"
        shown = made(arm.put(path, interface(subnet), principal=ANN))
    assert ip_address(private(shown)) not in ip_network("10.7.0.0/24")


def test_an_address_that_was_asked_for() -> None:
    """It is the one that is given; public ones of others are named by their ids."""
    with ArmHarness() as arm:
        arm.group()
        body = interface(privateIPAddress="10.1.2.3", publicIPAddress={"id": "/x"})
        shown = made(arm.put(f"{NETWORK}/networkInterfaces/nic", body))
    assert private(shown) == "10.1.2.3"
    inner = shown["properties"]["ipConfigurations"][0]["properties"]
    assert inner["publicIPAddress"] == {"id": "/x"}


def test_public_addresses_are_nobody_s() -> None:
    """They are those that documentation uses, so nothing that is sent there arrives."""
    ranges = [ip_network(one) for one in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
    with ArmHarness() as arm:
        arm.group()
        found = set()
        for number in range(20):
            path = f"{NETWORK}/publicIPAddresses/ip{number}"
            shown = made(arm.put(path, {"location": "local"}))["properties"]
            assert any(ip_address(shown["ipAddress"]) in one for one in ranges)
            assert shown["publicIPAllocationMethod"] == "Dynamic"
            found.add(shown["ipAddress"])
        assert len(found) > 10


# --- As a part of a deployment --------------------------------------------------------------------


def deployed(arm: ArmHarness, kind: str, ask: ResourceWrite) -> WriteResult:
    """What a deployment writes."""

    async def put() -> WriteResult:
        return await network.PUTS[kind.lower()](arm.app.context, ask)

    return arm._runner.run(put())


def test_everything_can_be_deployed() -> None:
    """Templates write each type as a request would, and what is in another by both names."""
    with ArmHarness() as arm:
        arm.group()
        asked = [
            ("Microsoft.Network/loadBalancers", "lb"),
            ("Microsoft.Network/loadBalancers/inboundNatRules", "lb/ssh"),
        ]
        for kind, name in asked:
            ask = ResourceWrite("rg", name, {"location": "local", "properties": {}}, VERSION, "ann")
            written = deployed(arm, kind, ask)
            assert written.created
            assert written.resource.name == name
            steps = arm.app.context.arm_id(kind, "rg", name)
            assert written.document["id"] == steps
        assert arm.get(f"{LB}/inboundNatRules/ssh").json == written.document
        assert set(network.PUTS) == {kind.lower() for kind in network.TYPES}


def test_what_is_asked_for_is_left_as_it_was() -> None:
    """Whoever deploys may use it again."""
    with ArmHarness() as arm:
        arm.group()
        body = interface()
        ask = ResourceWrite("rg", "nic", body, VERSION, "ann")
        deployed(arm, "Microsoft.Network/networkInterfaces", ask)
        assert body == interface()


def test_a_group_goes_with_all_of_it() -> None:
    """Nothing of what was kept in it is there when it is made again."""
    with ArmHarness() as arm:
        arm.group()
        for path in PATHS:
            made(arm.put(f"{path}/x", {"location": "local"}))
        arm.delete("/resourceGroups/rg")
        arm.group()
        for path in PATHS:
            assert arm.get(path).json == {"value": []}
