"""Named parts of a resource, such as subnets: in its document, and with URLs of their own (C6)."""

import pytest

from tests.arm.bodies import LB, SUBNET, VNET, created, network, put, refused
from tests.arm.everything import state
from tests.arm.type_samples import PARTS, TypeSample, label
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C6")

BAD_SUBNETS: tuple[object, ...] = (
    {},
    ["a"],
    [{}],
    [{"name": "a/b"}],
    [{"name": "a"}, {"name": "A"}],
    [{"name": "a", "properties": 1}],
)


def test_parts_have_ids(arm: ArmHarness) -> None:
    """Clients refer to subnets, pools and rules by their ids."""
    lists = (
        "frontendIPConfigurations", "backendAddressPools", "probes", "loadBalancingRules",
        "inboundNatRules", "inboundNatPools",
    )  # fmt: skip
    (subnet,) = network(arm)["properties"]["subnets"]
    assert subnet["id"] == f"{SUBSCRIPTION}{SUBNET}"
    assert subnet["properties"]["addressPrefix"] == "10.7.0.0/24"
    parts = {name: [{"name": "one", "properties": {"port": 1}}] for name in lists}
    shown = put(arm, LB, **parts)["properties"]
    for name in lists:
        (part,) = shown[name]
        assert part["id"] == f"{SUBSCRIPTION}{LB}/{name}/one"
        assert part["type"] == f"Microsoft.Network/loadBalancers/{name}"
        assert part["properties"] == {"port": 1, "provisioningState": "Succeeded"}
    assert shown["outboundRules"] == []


@pytest.mark.parametrize("sample", PARTS, ids=label)
def test_a_part_is_in_its_parent(arm: ArmHarness, sample: TypeSample) -> None:
    """It keeps its place when it is replaced, and the parent does not change otherwise."""
    name = sample.kind.rpartition("/")[2]
    sample.prepare(arm)
    (path, body), *_ = sample.needs
    created(arm.put(path, {**body, "properties": {"more": {"a": 1}}}))
    for part in ("first", "second"):
        created(arm.put(f"{sample.list_path}/{part}", sample.body))
    again = arm.put(f"{sample.list_path}/First", {"properties": {"new": 2}})
    assert (again.status, again.json["name"]) == (200, "first")
    document = arm.get(path).json["properties"]
    assert document["more"] == {"a": 1}
    assert document[name] == arm.get(sample.list_path).json["value"]
    assert [part["name"] for part in document[name]] == ["first", "second"]
    assert "theirs" not in document[name][0]["properties"]
    assert arm.delete(f"{sample.list_path}/first").status == 200
    assert [part["name"] for part in arm.get(path).json["properties"][name]] == ["second"]


@pytest.mark.parametrize("subnets", BAD_SUBNETS, ids=str)
def test_bad_parts(arm: ArmHarness, subnets: object) -> None:
    """A parent with bad parts is neither created nor changed."""
    body = {"location": "local", "properties": {"subnets": subnets}}
    assert refused(arm.put(VNET, body)) == (400, "InvalidParameter")
    assert arm.get(VNET).status == 404
    network(arm)
    before = state(arm)
    assert refused(arm.put(VNET, body)) == (400, "InvalidParameter")
    assert refused(arm.put(f"{VNET}/subnets/-", {})) == (400, "InvalidParameter")
    assert refused(arm.put(f"{VNET}/subnets/{'x' * 81}", {})) == (400, "InvalidParameter")
    assert state(arm) == before
