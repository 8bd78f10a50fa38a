from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

REGION = "/providers/Microsoft.Compute/locations/westus"
UBUNTU = f"{REGION}/publishers/Canonical/artifacttypes/vmimage/offers/UbuntuServer/skus/18.04-LTS"
WINDOWS = (
    f"{REGION}/publishers/MicrosoftWindowsServer/artifacttypes/vmimage/offers/WindowsServer"
    "/skus/2022-datacenter-g2"
)


def test_the_newest_version_of_an_image() -> None:
    """`az vm create` first lists the versions of an image, and then reads the only one."""
    with ArmHarness() as arm:
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


def test_windows() -> None:
    """Clients ask for a password instead of a key, so they need the operating system."""
    with ArmHarness() as arm:
        result = arm.get(f"{WINDOWS}/versions/latest").json
    assert result["properties"]["osDiskImage"]["operatingSystem"] == "Windows"
    assert result["name"] != "latest"


def test_any_image_exists() -> None:
    """Any image name is valid, and so is any pinned version."""
    with ArmHarness() as arm:
        path = f"{REGION}/publishers/p/artifacttypes/vmimage/offers/o/skus/s/versions"
        assert len(arm.get(path).json) == 1
        assert arm.get(f"{path}/7.3.1").json["name"] == "7.3.1"


def test_images_with_aliases_are_listed() -> None:
    """Publishers, offers and SKUs are listed once; an unknown publisher has no offers."""
    with ArmHarness() as arm:
        publishers = [item["name"] for item in arm.get(f"{REGION}/publishers").json]
        assert publishers.count("Canonical") == 1
        offers = f"{REGION}/publishers/canonical/artifactTypes/vmImage/offers"
        assert "UbuntuServer" in [item["name"] for item in arm.get(offers).json]
        skus = [item["name"] for item in arm.get(f"{offers}/ubuntuserver/skus").json]
        assert skus == ["18.04-LTS"]
        assert arm.get(f"{REGION}/publishers/nobody/artifacttypes/vmimage/offers").json == []


def test_every_alias_has_an_image_of_its_system() -> None:
    """The alias document and the images agree."""
    with ArmHarness() as arm:
        aliases = arm.send("GET", "/aliases.json", "", b"", {}).json["outputs"]["aliases"]["value"]
        for system, images in aliases.items():
            for image in images.values():
                path = (
                    f"{REGION}/publishers/{image['publisher']}/artifacttypes/vmimage/offers/"
                    f"{image['offer']}/skus/{image['sku']}/versions/{image['version']}"
                )
                disk = arm.get(path).json["properties"]["osDiskImage"]
                assert disk["operatingSystem"] == system


def test_sizes() -> None:
    """Sizes have cores, memory and disks; the default size is among them."""
    with ArmHarness() as arm:
        sizes = {item["name"]: item for item in arm.get(f"{REGION}/vmSizes").json["value"]}
    assert sizes["Standard_B1s"]["numberOfCores"] == 1
    assert sizes["Standard_DS1_v2"]["memoryInMB"] == 3584
    fields = {
        "name", "numberOfCores", "osDiskSizeInMB", "resourceDiskSizeInMB", "memoryInMB",
        "maxDataDiskCount",
    }  # fmt: skip
    assert all(set(item) == fields for item in sizes.values())


def test_skus() -> None:
    """Every size is available in every region, in three zones and without restrictions."""
    with ArmHarness() as arm:
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


def test_skus_of_a_region() -> None:
    """The filter accepts the display name of a region."""
    with ArmHarness() as arm:
        path = "/providers/Microsoft.Compute/skus"
        result = arm.get(path, **{"$filter": "location eq 'West US 2'"}).json["value"]
    assert {item["locations"][0] for item in result} == {"westus2"}


def test_there_are_no_quotas() -> None:
    """The list of usages is empty."""
    with ArmHarness() as arm:
        assert arm.get(f"{REGION}/usages").json == {"value": []}
