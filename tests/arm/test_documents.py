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
HERE = {"location": "local"}


def test_what_it_may_be_called_and_where() -> None:
    """A name that a path can hold, a location, a group that is there; else nothing is made."""
    with ArmHarness() as arm:
        missing = arm.put(VM, HERE)
        assert refused(missing) == (404, "ResourceGroupNotFound")
        arm.group()
        assert refused(arm.put(VM, {})) == (400, "LocationRequired")
        assert refused(arm.put(f"{MACHINES}/.vm", HERE)) == (400, "InvalidParameter")
        assert refused(arm.put(VM, {**HERE, "properties": 1})) == (400, "InvalidParameter")
        assert refused(arm.put(VM, {**HERE, "tags": {"a": 1}})) == (400, "InvalidParameter")
        assert refused(arm.get(VM)) == (404, "ResourceNotFound")
        assert arm.get(MACHINES).json == {"value": []}


def test_names_are_compared_without_case() -> None:
    """What was made is found however it is spelt, and keeps the spelling of its maker."""
    with ArmHarness() as arm:
        machine(arm, f"{MACHINES}/Front")
        path = "/resourcegroups/RG/providers/microsoft.compute/virtualmachines/FRONT"
        assert arm.get(path).json["name"] == "Front"
        assert arm.put(path, {**HERE, "tags": {"a": "b"}}).status == 200
        assert names(arm, MACHINES) == ["Front"]


def test_what_we_do_not_know_is_kept() -> None:
    """Every property comes back as it was sent; what is ours to say cannot be written."""
    with ArmHarness() as arm:
        written: Json = {
            "storageProfile": {"imageReference": {"sku": "22_04-lts"}, "dataDisks": [{"lun": 1}]},
            "somethingNew": {"deep": [1, {"x": "y"}, True, 0.5]},
            "provisioningState": "Wrong",
            "vmId": "mine",
        }
        machine(arm, **written)
        shown = arm.get(VM).json["properties"]
        assert shown["somethingNew"] == written["somethingNew"]
        assert shown["storageProfile"]["imageReference"] == {"sku": "22_04-lts"}
        assert shown["storageProfile"]["dataDisks"] == [{"lun": 1}]
        assert shown["provisioningState"] == "Succeeded"
        assert shown["vmId"] != "mine"


def test_secrets_are_not_kept() -> None:
    """Neither shown nor anywhere in what is stored, however they are spelt."""
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


def test_null_is_not_said() -> None:
    """Clients send it for what they leave open: it neither sets nor clears anything."""
    with ArmHarness() as arm:
        machine(arm, licenseType=None, priority=None, **notice("PT10M"))
        assert "licenseType" not in arm.get(VM).json["properties"]
        unset = {"tags": None, "properties": {"scheduledEventsProfile": None}}
        assert arm.patch(VM, unset).status == 200
        assert arm.machines(VM_SCOPE)["vm"].terminate_seconds == 600


def test_tags_are_replaced_whole() -> None:
    """What is left out of them is meant to go; everything else is merged."""
    with ArmHarness() as arm:
        machine(arm, one={"a": 1})
        arm.patch(VM, {"tags": {"a": "1", "b": "2"}})
        arm.patch(VM, {"tags": {"b": "3"}, "properties": {"one": {"b": 2}}})
        shown = arm.get(VM).json
        assert shown["tags"] == {"b": "3"} == arm.machines(VM_SCOPE)["vm"].tags
        assert shown["properties"]["one"] == {"a": 1, "b": 2}


def test_conditions() -> None:
    """Whoever read an older state, or wants a new one, does not overwrite what is there."""
    with ArmHarness() as arm:
        machine(arm)
        etag = arm.get(VM).json["etag"]
        matched = arm.put(VM, HERE, headers={"If-Match": etag})
        assert matched.status == 200
        assert matched.headers["etag"] == arm.get(VM).json["etag"] != etag
        old = arm.patch(VM, {"tags": {"a": "b"}}, headers={"If-Match": etag})
        assert refused(old) == (412, "PreconditionFailed")
        new = arm.put(VM, HERE, headers={"If-None-Match": "*"})
        assert refused(new) == (412, "PreconditionFailed")
        assert "tags" not in arm.get(VM).json
        other = arm.put(f"{MACHINES}/other", HERE, headers={"If-None-Match": "*"})
        assert other.status == 201
        none = arm.put(f"{MACHINES}/none", HERE, headers={"If-Match": '"1"'})
        assert refused(none) == (412, "PreconditionFailed")


def test_a_patch_changes_what_there_is() -> None:
    """Of what is not there it makes nothing."""
    with ArmHarness() as arm:
        arm.group()
        assert refused(arm.patch(VM, HERE)) == (404, "ResourceNotFound")
        assert arm.get(MACHINES).json == {"value": []}


def test_a_listing_has_pages() -> None:
    """200 at a time; every page says where the next begins, and what was asked for stays asked."""
    with ArmHarness() as arm:
        arm.demo('[[machine]]\nname = "m"\ncount = 201\ngroup = "rg"')
        first = arm.get(MACHINES, **{"$expand": "instanceView"}).json
        second = arm.follow(first["nextLink"]).json
        assert len(first["value"]) == 200
        assert len(second["value"]) == 1
        assert "nextLink" not in second
        assert "instanceView" in second["value"][0]["properties"]
        seen = {one["name"] for one in [*first["value"], *second["value"]]}
        assert seen == {f"m_{n}" for n in range(201)}
        wrong = arm.get(MACHINES, **{"$skiptoken": "bm8="})
        assert refused(wrong) == (400, "InvalidSkipToken")


def test_nothing_moves() -> None:
    """Another location is refused, whatever it is for; the same one may be spelt otherwise."""
    with ArmHarness() as arm:
        machine(arm)
        scale_set(arm)
        created(arm.put(AV, HERE))
        for path in (VM, WEB, AV, "/resourceGroups/rg"):
            before = arm.get(path).json
            assert arm.put(path, {"location": "elsewhere"}).status == 409
            assert arm.get(path).json == before
            assert arm.put(path, {"location": "Local"}).status == 200
