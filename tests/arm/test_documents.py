from tests.arm.bodies import (
    AV,
    COMPUTE,
    VM,
    VM_SCOPE,
    WEB,
    Json,
    created,
    machine,
    names,
    notice,
    refused,
    scale_set,
)
from tests.fixtures.arm import ArmHarness

MACHINES = f"{COMPUTE}/virtualMachines"
LOCATION = {"location": "local"}


def test_names_and_locations() -> None:
    """A valid name, a location and an existing group are required."""
    with ArmHarness() as arm:
        missing = arm.put(VM, LOCATION)
        assert refused(missing) == (404, "ResourceGroupNotFound")
        arm.group()
        assert refused(arm.put(VM, {})) == (400, "LocationRequired")
        assert refused(arm.put(f"{MACHINES}/.vm", LOCATION)) == (400, "InvalidParameter")
        assert refused(arm.put(VM, {**LOCATION, "properties": 1})) == (400, "InvalidParameter")
        assert refused(arm.put(VM, {**LOCATION, "tags": {"a": 1}})) == (400, "InvalidParameter")
        assert refused(arm.get(VM)) == (404, "ResourceNotFound")
        assert arm.get(MACHINES).json == {"value": []}


def test_names_are_compared_without_case() -> None:
    """A resource is found in any case and keeps the case of its creation."""
    with ArmHarness() as arm:
        machine(arm, f"{MACHINES}/Front")
        path = "/resourcegroups/RG/providers/microsoft.compute/virtualmachines/FRONT"
        assert arm.get(path).json["name"] == "Front"
        assert arm.put(path, {**LOCATION, "tags": {"a": "b"}}).status == 200
        assert names(arm, MACHINES) == ["Front"]


def test_unknown_properties_are_stored() -> None:
    """Unknown properties are returned as written; read-only properties cannot be written."""
    with ArmHarness() as arm:
        properties: Json = {
            "storageProfile": {"imageReference": {"sku": "22_04-lts"}, "more": [{"lun": 1}]},
            "somethingNew": {"deep": [1, {"x": "y"}, True, 0.5]},
            "provisioningState": "Wrong",
            "vmId": "mine",
        }
        machine(arm, **properties)
        document = arm.get(VM).json["properties"]
        assert document["somethingNew"] == properties["somethingNew"]
        assert document["storageProfile"]["imageReference"] == {"sku": "22_04-lts"}
        assert document["storageProfile"]["more"] == [{"lun": 1}]
        assert document["provisioningState"] == "Succeeded"
        assert document["vmId"] != "mine"


def test_secrets_are_not_stored() -> None:
    """Secrets are neither returned nor stored, whatever their case."""
    with ArmHarness() as arm:
        machine(
            arm,
            osProfile={"computerName": "c", "adminPassword": "s3cret", "customData": "s3cret"},
            userData="s3cret",
            list=[{"protectedSettings": {"key": "s3cret"}, "AdminPassword": "s3cret"}],
        )
        arm.patch(VM, {"properties": {"osProfile": {"adminPassword": "s3cret"}}})
        assert b"s3cret" not in arm.get(VM).body
        assert "s3cret" not in repr(vars(arm.store))
        assert arm.get(VM).json["properties"]["osProfile"]["computerName"] == "c"


def test_null_means_not_set() -> None:
    """Clients send null for members they do not set; it changes nothing."""
    with ArmHarness() as arm:
        machine(arm, licenseType=None, priority=None, **notice("PT10M"))
        assert "licenseType" not in arm.get(VM).json["properties"]
        unset = {"tags": None, "properties": {"scheduledEventsProfile": None}}
        assert arm.patch(VM, unset).status == 200
        assert arm.machines(VM_SCOPE)["vm"].terminate_seconds == 600


def test_tags_are_replaced() -> None:
    """A tag that is left out is deleted; all other members are merged."""
    with ArmHarness() as arm:
        machine(arm, nested={"a": 1})
        arm.patch(VM, {"tags": {"a": "1", "b": "2"}})
        arm.patch(VM, {"tags": {"b": "3"}, "properties": {"nested": {"b": 2}}})
        document = arm.get(VM).json
        assert document["tags"] == {"b": "3"} == arm.machines(VM_SCOPE)["vm"].tags
        assert document["properties"]["nested"] == {"a": 1, "b": 2}


def test_conditions() -> None:
    """If-Match and If-None-Match prevent overwriting another state."""
    with ArmHarness() as arm:
        machine(arm)
        etag = arm.get(VM).json["etag"]
        matched = arm.put(VM, LOCATION, headers={"If-Match": etag})
        assert matched.status == 200
        assert matched.headers["etag"] == arm.get(VM).json["etag"] != etag
        stale = arm.patch(VM, {"tags": {"a": "b"}}, headers={"If-Match": etag})
        assert refused(stale) == (412, "PreconditionFailed")
        new = arm.put(VM, LOCATION, headers={"If-None-Match": "*"})
        assert refused(new) == (412, "PreconditionFailed")
        assert "tags" not in arm.get(VM).json
        other = arm.put(f"{MACHINES}/other", LOCATION, headers={"If-None-Match": "*"})
        assert other.status == 201
        none = arm.put(f"{MACHINES}/none", LOCATION, headers={"If-Match": '"1"'})
        assert refused(none) == (412, "PreconditionFailed")


def test_a_patch_creates_nothing() -> None:
    """A PATCH of a resource that does not exist is refused."""
    with ArmHarness() as arm:
        arm.group()
        assert refused(arm.patch(VM, LOCATION)) == (404, "ResourceNotFound")
        assert arm.get(MACHINES).json == {"value": []}


def test_a_listing_has_pages() -> None:
    """A page has 200 items, and its nextLink keeps the query."""
    with ArmHarness() as arm:
        arm.create_fleet('[[machine]]\nname = "m"\ncount = 201\ngroup = "rg"')
        first = arm.get(MACHINES, **{"$expand": "instanceView"}).json
        second = arm.follow(first["nextLink"]).json
        assert len(first["value"]) == 200
        assert len(second["value"]) == 1
        assert "nextLink" not in second
        assert "instanceView" in second["value"][0]["properties"]
        seen = {item["name"] for item in [*first["value"], *second["value"]]}
        assert seen == {f"m_{n}" for n in range(201)}
        wrong = arm.get(MACHINES, **{"$skiptoken": "bm8="})
        assert refused(wrong) == (400, "InvalidSkipToken")


def test_the_location_is_immutable() -> None:
    """Another location is refused; the same one may be spelled differently."""
    with ArmHarness() as arm:
        machine(arm)
        scale_set(arm)
        created(arm.put(AV, LOCATION))
        for path in (VM, WEB, AV, "/resourceGroups/rg"):
            before = arm.get(path).json
            assert arm.put(path, {"location": "elsewhere"}).status == 409
            assert arm.get(path).json == before
            assert arm.put(path, {"location": "Local"}).status == 200
