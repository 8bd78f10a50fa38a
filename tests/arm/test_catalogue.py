"""What Azure offers everywhere: the subscription, providers, regions, images and sizes."""

import pytest

from fairwarning.arm.catalogue import api_versions
from fairwarning.arm.registry import TYPES
from fairwarning.service.config.settings import TENANT, CloudSettings
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness


def test_there_is_one_subscription(arm: ArmHarness) -> None:
    """Clients find the only subscription and tenant by listing; it is enabled."""
    (subscription,) = arm.get("//subscriptions", version="2022-12-01").json["value"]
    assert subscription["id"] == SUBSCRIPTION
    assert subscription["subscriptionId"] == CloudSettings().subscription
    assert (subscription["state"], subscription["tenantId"]) == ("Enabled", TENANT)
    assert {"displayName", "subscriptionPolicies", "managedByTenants"} <= set(subscription)
    assert arm.get("").json == subscription
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


REGION = "/providers/Microsoft.Compute/locations/westus"
UBUNTU = f"{REGION}/publishers/Canonical/artifacttypes/vmimage/offers/UbuntuServer/skus/18.04-LTS"


def test_the_newest_version_of_an_image(arm: ArmHarness) -> None:
    """`az vm create` first lists the versions of an image, and then reads the only one."""
    query = {"$top": "1", "$orderby": "name desc", "$expand": "properties"}
    listed = arm.get(f"{UBUNTU}/versions", **query).json
    assert len(listed) == 1
    assert listed[0]["location"] == "westus"
    assert listed[0]["id"] == f"{SUBSCRIPTION}{UBUNTU}/versions/{listed[0]['name']}"
    result = arm.get(f"{UBUNTU}/versions/{listed[0]['name']}").json
    assert {key: result[key] for key in listed[0]} == listed[0]
    properties = result["properties"]
    assert properties["osDiskImage"]["operatingSystem"] == "Linux"
    assert properties["dataDiskImages"] == []
    assert {"hyperVGeneration", "architecture", "features"} <= set(properties)


def test_images_with_aliases_are_listed(arm: ArmHarness) -> None:
    """Publishers, offers and SKUs are listed once; an unknown publisher has no offers."""
    publishers = [item["name"] for item in arm.get(f"{REGION}/publishers").json]
    assert publishers.count("Canonical") == 1
    offers = f"{REGION}/publishers/canonical/artifactTypes/vmImage/offers"
    assert "UbuntuServer" in [item["name"] for item in arm.get(offers).json]
    skus = [item["name"] for item in arm.get(f"{offers}/ubuntuserver/skus").json]
    assert skus == ["18.04-LTS"]
    assert arm.get(f"{REGION}/publishers/nobody/artifacttypes/vmimage/offers").json == []


def test_every_alias_has_an_image_of_its_system(arm: ArmHarness) -> None:
    """The alias document and the images agree."""
    aliases = arm.send("GET", "/aliases.json", "", b"", {}).json["outputs"]["aliases"]["value"]
    for system, images in aliases.items():
        for image in images.values():
            path = (
                f"{REGION}/publishers/{image['publisher']}/artifacttypes/vmimage/offers/"
                f"{image['offer']}/skus/{image['sku']}/versions/{image['version']}"
            )
            result = arm.get(path).json
            assert result["properties"]["osDiskImage"]["operatingSystem"] == system
            assert result["name"] != image["version"] == "latest"


def test_sizes(arm: ArmHarness) -> None:
    """Sizes have cores, memory and disks; the default size is among them."""
    sizes = {item["name"]: item for item in arm.get(f"{REGION}/vmSizes").json["value"]}
    assert sizes["Standard_B1s"]["numberOfCores"] == 1
    assert sizes["Standard_DS1_v2"]["memoryInMB"] == 3584
    fields = {
        "name", "numberOfCores", "osDiskSizeInMB", "resourceDiskSizeInMB", "memoryInMB",
        "maxDataDiskCount",
    }  # fmt: skip
    assert all(set(item) == fields for item in sizes.values())


def test_skus(arm: ArmHarness) -> None:
    """Every size is available in every region, in three zones, without restrictions or quotas."""
    assert arm.get(f"{REGION}/usages").json == {"value": []}
    one = {"$filter": "location eq 'West US 2'"}  # by its display name
    listed = arm.get("/providers/Microsoft.Compute/skus", **one).json["value"]
    assert {item["locations"][0] for item in listed} == {"westus2"}
    skus = arm.get("/providers/Microsoft.Compute/skus", version="2019-04-01").json["value"]
    sizes = {item["name"] for item in arm.get(f"{REGION}/vmSizes").json["value"]}
    regions = {item["name"] for item in arm.get("/locations").json["value"]}
    assert {(item["name"], *item["locations"]) for item in skus} == {
        (size, region) for size in sizes for region in regions
    }
    for item in skus:
        assert item["resourceType"] == "virtualMachines"
        assert item["restrictions"] == []
        assert item["locationInfo"][0]["location"] == item["locations"][0]
        assert item["locationInfo"][0]["zones"] == ["1", "2", "3"]
        assert all(isinstance(part["value"], str) for part in item["capabilities"])
