from typing import Any

import pytest

from fairwarning.arm.http import context
from fairwarning.arm.http.context import encode_skip_token
from fairwarning.arm.resources import subscriptions
from fairwarning.arm.resources.providers import api_versions
from fairwarning.service.config.settings import TENANT, CloudSettings
from fairwarning.service.tokens import Principal, Role
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

ANN = Principal(name="ann", role=Role.TENANT, group="hers")
READER = Principal(name="eve", role=Role.READER)


def address(arm: ArmHarness, group: str, name: str, **more: Any) -> str:  # noqa: ANN401
    """A public address; its path."""
    path = f"{group}/providers/Microsoft.Network/publicIPAddresses/{name}"
    assert arm.put(path, {"location": "local", **more}).status == 201
    return path


def walk(arm: ArmHarness, path: str, **given: Any) -> tuple[list[Any], int]:  # noqa: ANN401
    """All that a listing holds, and in how many pages."""
    answer = arm.get(path, **given)
    found, pages = list(answer.json["value"]), 1
    while next_link := answer.json.get("nextLink"):
        answer = arm.follow(next_link)
        assert answer.status == 200
        found += answer.json["value"]
        pages += 1
    return found, pages


# --- The subscription -----------------------------------------------------------------------------


def test_there_is_one_subscription() -> None:
    """Clients find it by listing; it is enabled, and in the one tenant."""
    with ArmHarness() as arm:
        (found,) = arm.get("//subscriptions", version="2022-12-01").json["value"]
        assert found["id"] == SUBSCRIPTION
        assert found["subscriptionId"] == CloudSettings().subscription
        assert (found["state"], found["tenantId"]) == ("Enabled", TENANT)
        assert {"displayName", "subscriptionPolicies", "managedByTenants"} <= set(found)
        assert arm.get("").json == found


def test_another_subscription() -> None:
    """There is none."""
    with ArmHarness() as arm:
        other = "//subscriptions/11111111-1111-1111-1111-111111111111"
        for path in (other, f"{other}/locations", f"{other}/resources"):
            refused = arm.get(path)
            assert (refused.status, refused.error_code) == (404, "SubscriptionNotFound")


def test_there_is_one_tenant() -> None:
    """The one that tokens name."""
    with ArmHarness() as arm:
        (found,) = arm.get("//tenants").json["value"]
    assert (found["id"], found["tenantId"]) == (f"/tenants/{TENANT}", TENANT)


def test_regions() -> None:
    """The cloud's own comes first; the ones that examples use follow, with both their names."""
    with ArmHarness() as arm:
        found = arm.get("/locations").json["value"]
    assert found[0]["name"] == "local"
    names = {one["name"]: one for one in found}
    assert names["westus2"]["displayName"] == "West US 2"
    assert {"eastus", "westus", "westeurope"} <= set(names)
    for one in found:
        assert one["id"] == f"{SUBSCRIPTION}/locations/{one['name']}"
        assert one["metadata"]["regionType"] == "Physical"
        assert one["regionalDisplayName"]


# --- Providers ------------------------------------------------------------------------------------


def test_providers() -> None:
    """All are registered; each type has versions, the newest first."""
    with ArmHarness() as arm:
        found = arm.get("/providers").json["value"]
    assert [one["namespace"] for one in found] == [
        "Microsoft.Compute", "Microsoft.Maintenance", "Microsoft.Network", "Microsoft.Resources",
    ]  # fmt: skip
    for one in found:
        assert one["registrationState"] == "Registered"
        for kind in one["resourceTypes"]:
            assert kind["apiVersions"] == sorted(kind["apiVersions"], reverse=True)
            assert "West US 2" in kind["locations"]


def test_one_provider() -> None:
    """By its name in any case; what can be written is among its types."""
    with ArmHarness() as arm:
        found = arm.get("/providers/microsoft.network").json
        assert arm.post("/providers/Microsoft.Network/register").json == found
    types = {one["resourceType"] for one in found["resourceTypes"]}
    assert {"virtualNetworks", "virtualNetworks/subnets", "networkInterfaces"} <= types


def test_a_provider_that_there_is_not() -> None:
    """It is neither there nor can it be registered."""
    with ArmHarness() as arm:
        for refused in (arm.get("/providers/Acme.X"), arm.post("/providers/Acme.X/register")):
            assert (refused.status, refused.error_code) == (404, "InvalidResourceNamespace")


def test_a_reader_registers_nothing() -> None:
    """Not even what is registered already."""
    with ArmHarness() as arm:
        refused = arm.post("/providers/Microsoft.Network/register", principal=READER)
    assert (refused.status, refused.error_code) == (403, "AuthorizationFailed")


def test_versions_for_templates() -> None:
    """The newest first, names compared without case; of what is unknown, one that will do."""
    assert api_versions("Microsoft.Compute", "virtualMachineScaleSets")[0] == "2026-04-01"
    assert api_versions("MICROSOFT.compute", "VIRTUALMACHINES")[-1] == "2015-06-15"
    assert api_versions("Microsoft.Network", "publicIpAddresses")[0] > "2022-01-01"
    assert api_versions("Microsoft.Compute", "nothing") == ("2024-11-01",)
    assert api_versions("Acme.X", "y") == ("2024-11-01",)


# --- Resources ------------------------------------------------------------------------------------


def test_all_resources() -> None:
    """Machines, scale sets and what was written beside them, each with what tells it."""
    with ArmHarness() as arm:
        arm.demo()
        address(arm, arm.group(), "ip", tags={"a": "b"})
        found, _ = walk(arm, "/resources")
        types = {one["type"] for one in found}
        assert "Microsoft.Compute/virtualMachines" in types
        assert "Microsoft.Compute/virtualMachineScaleSets" in types
        (ip,) = [one for one in found if one["type"] == "Microsoft.Network/publicIPAddresses"]
        shown = arm.get(ip["id"].removeprefix(SUBSCRIPTION)).json
        names = ("id", "name", "type", "location", "tags")
        assert {name: ip[name] for name in names} == {name: shown[name] for name in names}
        assert all(one["location"] and "tags" in one for one in found)


def test_the_resources_of_a_group() -> None:
    """Those, and no others; the group has to be there."""
    with ArmHarness() as arm:
        address(arm, arm.group("one"), "a")
        address(arm, arm.group("two"), "b")
        found, _ = walk(arm, "/resourceGroups/TWO/resources")
        assert [one["name"] for one in found] == ["b"]
        missing = arm.get("/resourceGroups/three/resources")
        assert (missing.status, missing.error_code) == (404, "ResourceGroupNotFound")


def test_whoever_is_bound_to_a_group_sees_that() -> None:
    """Also where he asks for all; wherever he says that he has read to."""
    with ArmHarness() as arm:
        address(arm, arm.group("hers"), "a")
        address(arm, arm.group("his"), "b")
        found, _ = walk(arm, "/resources", principal=ANN)
        assert [one["name"] for one in found] == ["a"]
        refused = arm.get("/resourceGroups/his/resources", principal=ANN)
        assert (refused.status, refused.error_code) == (403, "AuthorizationFailed")
        token = encode_skip_token("microsoft.network/publicipaddresses:his:")
        peek = arm.get("/resources", principal=ANN, **{"$skiptoken": token})
        assert peek.json["value"] == []


def test_no_resource_is_lost_between_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the pages' size, all are listed, once, in the same order."""
    with ArmHarness() as arm:
        for group in ("one", "two"):
            path = arm.group(group)
            for number in range(3):
                address(arm, path, f"ip{number}")
                disk = f"{path}/providers/Microsoft.Compute/disks/disk{number}"
                assert arm.put(disk, {"location": "local"}).status == 200
        whole, pages = walk(arm, "/resources")
        assert (len(whole), pages) == (12, 1)
        for size in (1, 2, 3, 5, 11, 12):
            for module in (context, subscriptions):
                monkeypatch.setattr(module, "PAGE", size)
            found, pages = walk(arm, "/resources")
            assert found == whole
            assert pages == -(-12 // size)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("resourceType eq 'Microsoft.Network/publicIPAddresses'", ["a", "b"]),
        ("resourcetype eq 'microsoft.network/publicipaddresses' and name eq 'B'", ["b"]),
        ("resourceGroup eq 'rg' and location eq 'West US'", ["b"]),
        ("tagname eq 'team' and tagvalue eq 'x and y'", ["a"]),
        ("resourceType eq 'Microsoft.Compute/disks'", []),
    ],
)
def test_a_filter(given: str, names: list[str]) -> None:
    """Equalities, all of which have to hold."""
    with ArmHarness() as arm:
        group = arm.group()
        address(arm, group, "a", tags={"team": "x and y"})
        address(arm, group, "b", location="westus")
        found, _ = walk(arm, "/resources", **{"$filter": given})
    assert [one["name"] for one in found] == names


@pytest.mark.parametrize(
    "given", ["name", "name eq x", "name ne 'x'", "size eq '1'", "startswith(tagname, 'a')", "'"]
)
def test_a_filter_that_is_not_understood(given: str) -> None:
    """It is refused: all resources would be a wrong answer."""
    with ArmHarness() as arm:
        refused = arm.get("/resources", **{"$filter": given})
    assert (refused.status, refused.error_code) == (400, "InvalidFilterInQueryString")


@pytest.mark.parametrize("token", ["ä", "x", "/w==", "_w=="])
def test_a_place_that_is_none(token: str) -> None:
    """Only a nextLink knows them."""
    with ArmHarness() as arm:
        refused = arm.get("/resources", **{"$skiptoken": token})
    assert (refused.status, refused.error_code) == (400, "InvalidSkipToken")
