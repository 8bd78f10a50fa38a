import pytest

from tests.fixtures.arm import SUBSCRIPTION, VERSION, ArmHarness

HERE = "/providers/Microsoft.Compute/locations/westus"
UBUNTU = f"{HERE}/publishers/Canonical/artifacttypes/vmimage/offers/UbuntuServer/skus/18.04-LTS"
WINDOWS = (
    f"{HERE}/publishers/MicrosoftWindowsServer/artifacttypes/vmimage/offers/WindowsServer"
    "/skus/2022-datacenter-g2"
)


def test_the_newest_version_of_an_image() -> None:
    """What `az vm create` asks before anything else: a bare list, and then its one version."""
    with ArmHarness() as arm:
        query = {"$top": "1", "$orderby": "name desc", "$expand": "properties"}
        listed = arm.get(f"{UBUNTU}/versions", **query).json
        assert len(listed) == 1
        assert listed[0]["location"] == "westus"
        assert listed[0]["id"] == f"{SUBSCRIPTION}{UBUNTU}/versions/{listed[0]['name']}"
        found = arm.get(f"{UBUNTU}/versions/{listed[0]['name']}").json
    assert {key: found[key] for key in listed[0]} == listed[0]
    properties = found["properties"]
    assert properties["osDiskImage"]["operatingSystem"] == "Linux"
    assert properties["dataDiskImages"] == []
    assert {"hyperVGeneration", "architecture", "features"} <= set(properties)


def test_windows() -> None:
    """Clients want a password instead of a key then, so they have to be told."""
    with ArmHarness() as arm:
        found = arm.get(f"{WINDOWS}/versions/latest").json
    assert found["properties"]["osDiskImage"]["operatingSystem"] == "Windows"
    assert found["name"] != "latest"


def test_any_image_is_there() -> None:
    """Nobody is kept from naming his own; a version that he pins is the one he gets."""
    with ArmHarness() as arm:
        path = f"{HERE}/publishers/p/artifacttypes/vmimage/offers/o/skus/s/versions"
        assert len(arm.get(path).json) == 1
        assert arm.get(f"{path}/7.3.1").json["name"] == "7.3.1"


def test_what_there_is_short_names_for_is_listed() -> None:
    """Publishers, offers and SKUs, each once, as bare lists; what nobody knows has none."""
    with ArmHarness() as arm:
        publishers = [one["name"] for one in arm.get(f"{HERE}/publishers").json]
        assert publishers.count("Canonical") == 1
        offers = f"{HERE}/publishers/canonical/artifactTypes/vmImage/offers"
        assert "UbuntuServer" in [one["name"] for one in arm.get(offers).json]
        skus = [one["name"] for one in arm.get(f"{offers}/ubuntuserver/skus").json]
        assert skus == ["18.04-LTS"]
        assert arm.get(f"{HERE}/publishers/nobody/artifacttypes/vmimage/offers").json == []


def test_every_alias_has_an_image_of_its_system() -> None:
    """The document of aliases and the images agree."""
    with ArmHarness() as arm:
        aliases = arm.send("GET", "/aliases.json", "", b"", {}).json["outputs"]["aliases"]["value"]
        for system, images in aliases.items():
            for one in images.values():
                path = (
                    f"{HERE}/publishers/{one['publisher']}/artifacttypes/vmimage/offers/"
                    f"{one['offer']}/skus/{one['sku']}/versions/{one['version']}"
                )
                found = arm.get(path).json["properties"]["osDiskImage"]
                assert found["operatingSystem"] == system


def test_sizes() -> None:
    """Cores, memory and disks; the size that machines have by themselves is one of them."""
    with ArmHarness() as arm:
        sizes = {one["name"]: one for one in arm.get(f"{HERE}/vmSizes").json["value"]}
    assert sizes["Standard_B1s"]["numberOfCores"] == 1
    assert sizes["Standard_DS1_v2"]["memoryInMB"] == 3584
    fields = {
        "name", "numberOfCores", "osDiskSizeInMB", "resourceDiskSizeInMB", "memoryInMB",
        "maxDataDiskCount",
    }  # fmt: skip
    assert all(set(one) == fields for one in sizes.values())


def test_what_there_is_where() -> None:
    """Every size is in every region, in three zones and without restrictions."""
    with ArmHarness() as arm:
        everywhere = arm.get("/providers/Microsoft.Compute/skus", version="2019-04-01").json[
            "value"
        ]
        sizes = {one["name"] for one in arm.get(f"{HERE}/vmSizes").json["value"]}
        regions = {one["name"] for one in arm.get("/locations").json["value"]}
    assert {(one["name"], *one["locations"]) for one in everywhere} == {
        (size, region) for size in sizes for region in regions
    }
    for one in everywhere:
        assert one["resourceType"] == "virtualMachines"
        assert one["restrictions"] == []
        assert one["locationInfo"][0]["location"] == one["locations"][0]
        assert one["locationInfo"][0]["zones"] == ["1", "2", "3"]
        assert all(isinstance(part["value"], str) for part in one["capabilities"])


def test_what_there_is_in_one_region() -> None:
    """However it is spelt."""
    with ArmHarness() as arm:
        path = "/providers/Microsoft.Compute/skus"
        found = arm.get(path, **{"$filter": "location eq 'West US 2'"}).json["value"]
    assert {one["locations"][0] for one in found} == {"westus2"}


@pytest.mark.parametrize("given", ["name eq 'x'", "location eq westus", "location"])
def test_a_filter_that_is_not_understood(given: str) -> None:
    """It is refused: an answer to another question would be worse."""
    with ArmHarness() as arm:
        refused = arm.get("/providers/Microsoft.Compute/skus", **{"$filter": given})
    assert (refused.status, refused.error_code) == (400, "InvalidFilterInQueryString")


def test_there_are_no_quotas() -> None:
    """Clients that look for the rest of one find none."""
    with ArmHarness() as arm:
        assert arm.get(f"{HERE}/usages").json == {"value": []}


def test_it_takes_a_token_and_a_version() -> None:
    """None of this is public."""
    with ArmHarness() as arm:
        path = f"{SUBSCRIPTION}{UBUNTU}/versions"
        assert arm.send("GET", path, f"api-version={VERSION}", b"", {}).status == 401
        assert arm.get(f"{UBUNTU}/versions", version="").error_code == "MissingApiVersionParameter"
