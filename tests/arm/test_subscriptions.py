import pytest

from fairwarning.arm.catalogue import api_versions
from fairwarning.arm.registry import TYPES
from fairwarning.service.config.settings import TENANT, CloudSettings
from fairwarning.service.tokens import Principal, Role
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

ANN = Principal(name="ann", role=Role.TENANT, group="hers")
READER = Principal(name="eve", role=Role.READER)


def test_there_is_one_subscription(arm: ArmHarness) -> None:
    """Clients find the only subscription by listing; it is enabled."""
    (subscription,) = arm.get("//subscriptions", version="2022-12-01").json["value"]
    assert subscription["id"] == SUBSCRIPTION
    assert subscription["subscriptionId"] == CloudSettings().subscription
    assert (subscription["state"], subscription["tenantId"]) == ("Enabled", TENANT)
    assert {"displayName", "subscriptionPolicies", "managedByTenants"} <= set(subscription)
    assert arm.get("").json == subscription


def test_there_is_one_tenant(arm: ArmHarness) -> None:
    """The tenant is the one in the tokens."""
    (tenant,) = arm.get("//tenants").json["value"]
    assert (tenant["id"], tenant["tenantId"]) == (f"/tenants/{TENANT}", TENANT)


def test_regions(arm: ArmHarness) -> None:
    """The cloud's own region comes first; others have a name and a display name."""
    items = arm.get("/locations").json["value"]
    assert items[0]["name"] == "local"
    regions = {item["name"]: item for item in items}
    assert regions["westus2"]["displayName"] == "West US 2"
    assert {"eastus", "westus", "westeurope"} <= set(regions)
    for item in items:
        assert item["id"] == f"{SUBSCRIPTION}/locations/{item['name']}"
        assert item["metadata"]["regionType"] == "Physical"
        assert item["regionalDisplayName"]


def test_providers(arm: ArmHarness) -> None:
    """All providers are registered; each type has api-versions, newest first."""
    items = arm.get("/providers").json["value"]
    assert [item["namespace"] for item in items] == [
        "Microsoft.Authorization", "Microsoft.Compute", "Microsoft.Maintenance",
        "Microsoft.Network", "Microsoft.Resources",
    ]  # fmt: skip
    for item in items:
        assert item["registrationState"] == "Registered"
        for kind in item["resourceTypes"]:
            assert kind["apiVersions"] == sorted(kind["apiVersions"], reverse=True)
            assert "West US 2" in kind["locations"]


def test_a_provider(arm: ArmHarness) -> None:
    """Its name is case-insensitive, and its types include nested types."""
    provider = arm.get("/providers/microsoft.network").json
    assert arm.post("/providers/Microsoft.Network/register").json == provider
    types = {item["resourceType"] for item in provider["resourceTypes"]}
    assert {"virtualNetworks", "virtualNetworks/subnets", "networkInterfaces"} <= types


def test_other_providers(arm: ArmHarness) -> None:
    """Any provider is registered, since any type can be stored; a name has a dot."""
    for response in (arm.get("/providers/Acme.X"), arm.post("/providers/Acme.X/register")):
        assert (response.json["namespace"], response.json["resourceTypes"]) == ("Acme.X", [])
        assert response.json["registrationState"] == "Registered"
    bad = arm.get("/providers/acme")
    assert (bad.status, bad.error_code) == (404, "InvalidResourceNamespace")


def test_versions_for_templates() -> None:
    """Versions are newest first, names are case-insensitive, and unknown types have one."""
    for kind in TYPES:
        versions = api_versions(kind.name.upper())
        assert list(versions) == sorted(set(versions), reverse=True), kind.name
    assert api_versions("Microsoft.Compute/virtualMachineScaleSets")[0] == "2026-04-01"
    assert api_versions("Acme.X/y") == ("2024-11-01",)
    assert not hasattr(api_versions, "cache_info")  # clients send kinds without end


@pytest.mark.parametrize("token", ["ä", "x", "/w==", "_w=="])
def test_an_invalid_skip_token(arm: ArmHarness, token: str) -> None:
    """Only a token of a nextLink is valid."""
    response = arm.get("/resources", **{"$skiptoken": token})
    assert (response.status, response.error_code) == (400, "InvalidSkipToken")
