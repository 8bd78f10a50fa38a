import pytest

from fairwarning.arm.resources import groups
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import (
    AV,
    AV_SCOPE,
    COMPUTE,
    SERVICE,
    VM,
    VM_SCOPE,
    WEB,
    WEB_SCOPE,
    actors,
    created,
    machine,
    names,
    notice,
    refused,
    scale_set,
    told,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

RG = "/resourceGroups/rg"
HERE = {"location": "local"}
NET = f"{RG}/providers/Microsoft.Network/virtualNetworks/net"


def filled(arm: ArmHarness) -> None:
    """A group with one of everything in it."""
    machine(arm, **notice())
    scale_set(arm, capacity=2, model=notice("PT10M"))
    created(arm.put(AV, HERE))
    machine(arm, f"{COMPUTE}/virtualMachines/in", availabilitySet={"id": f"{SUBSCRIPTION}{AV}"})
    role = {"name": "Web", "sku": {"capacity": 1}}
    created(arm.put(SERVICE, {**HERE, "properties": {"roleProfile": {"roles": [role]}}}))
    created(arm.put(NET, HERE))
    template = {"properties": {"mode": "Incremental", "template": {"resources": []}}}
    created(arm.put(f"{RG}/providers/Microsoft.Resources/deployments/d", template))


@pytest.mark.spec("C1")
def test_a_group_is_made_and_read() -> None:
    """201, then 200; by GET, by HEAD and in the listing; the first spelling stays."""
    with ArmHarness() as arm:
        assert arm.request("HEAD", RG).status == 404
        made = created(arm.put("/resourcegroups/rg", {**HERE, "tags": {"a": "b"}}))
        assert made == {
            "id": f"{SUBSCRIPTION}{RG}",
            "name": "rg",
            "type": "Microsoft.Resources/resourceGroups",
            "location": "local",
            "tags": {"a": "b"},
            "properties": {"provisioningState": "Succeeded"},
        }
        assert arm.put("/resourceGroups/RG", HERE).json == made
        assert arm.get(RG).json == made
        head = arm.request("HEAD", RG)
        assert (head.status, head.body) == (204, b"")
        assert arm.get("/resourceGroups").json == {"value": [made]}


def test_what_a_group_needs() -> None:
    """A location, a name that is one, tags that are strings; PATCH is for what there is."""
    with ArmHarness() as arm:
        assert refused(arm.put(RG, {})) == (400, "LocationRequired")
        assert refused(arm.put("/resourceGroups/a%20b", HERE)) == (400, "InvalidParameter")
        assert refused(arm.put(RG, {**HERE, "tags": {"a": 1}})) == (400, "InvalidParameter")
        assert refused(arm.patch(RG, HERE)) == (404, "ResourceGroupNotFound")
        arm.group()
        assert arm.patch(RG, {"tags": {"c": "d"}}).json["tags"] == {"c": "d"}
        assert arm.patch(RG, {"tags": {}}).json["tags"] == {}


def test_a_group_that_is_not_there() -> None:
    """404 for it, and for whatever somebody looks for in it."""
    with ArmHarness() as arm:
        paths = (
            RG, VM, WEB, AV, SERVICE, NET,
            f"{COMPUTE}/virtualMachines",
            f"{WEB}/virtualMachines/0",
        )  # fmt: skip
        for path in paths:
            assert refused(arm.get(path)) == (404, "ResourceGroupNotFound")
        for path in (RG, VM, WEB):
            assert refused(arm.delete(path)) == (404, "ResourceGroupNotFound")
        for path in (VM, WEB, AV, SERVICE, NET):
            assert refused(arm.put(path, HERE)) == (404, "ResourceGroupNotFound")


@pytest.mark.spec("C1", "T4", "T5")
def test_a_group_goes_with_all_that_is_in_it() -> None:
    """Each machine with its notice; the group is there until the last of them has gone."""
    with ArmHarness() as arm:
        filled(arm)
        for scope in (VM_SCOPE, WEB_SCOPE, AV_SCOPE):
            arm.poll(scope)
        asked = arm.delete(RG)
        assert asked.status == 202
        assert arm.get(RG).json["properties"]["provisioningState"] == "Deleting"
        assert told(arm, VM_SCOPE) == [("Terminate", "Scheduled", ["vm"])]
        assert {kind for kind, _, _ in told(arm, WEB_SCOPE)} == {"Terminate"}
        arm.advance(400)
        assert refused(arm.get(VM)) == (404, "ResourceNotFound")
        assert arm.get(WEB).status == arm.get(AV).status == arm.get(NET).status == 200
        assert arm.ended(asked)["status"] == "InProgress"
        arm.advance(300)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert arm.request("HEAD", RG).status == 404
        arm.group()
        for path in (VM, WEB, AV, SERVICE, NET):
            assert refused(arm.get(path)) == (404, "ResourceNotFound")
        assert arm.get(f"{RG}/providers/Microsoft.Resources/deployments").json == {"value": []}


def test_other_groups_are_not_touched() -> None:
    """What is called the same elsewhere stays, also in a group whose name begins the same."""
    with ArmHarness() as arm:
        filled(arm)
        others = ["/resourceGroups/rg2", "/resourceGroups/r"]
        for other in others:
            machine(arm, VM.replace(RG, other), **notice())
            scale_set(arm, WEB.replace(RG, other), capacity=1)
        arm.delete(RG)
        arm.advance(1000)
        for other in others:
            assert arm.get(other).json["properties"]["provisioningState"] == "Succeeded"
            assert names(arm, f"{other}/providers/Microsoft.Compute/virtualMachines") == ["vm"]
            assert arm.get(WEB.replace(RG, other)).json["sku"]["capacity"] == 1


def test_a_group_that_goes_takes_nothing_new() -> None:
    """Neither new things nor changes; a second delete is told of the first."""
    with ArmHarness() as arm:
        filled(arm)
        arm.poll(VM_SCOPE)
        asked = arm.delete(RG)
        for path in (f"{VM}2", f"{WEB}2", f"{AV}2", f"{SERVICE}2", f"{NET}2", RG):
            answer = arm.put(path, HERE)
            assert refused(answer) == (409, "ResourceGroupBeingDeleted")
        again = arm.delete(RG)  # which is the same operation
        assert again.headers["azure-asyncoperation"] == asked.headers["azure-asyncoperation"]


def test_an_empty_group_goes_at_once() -> None:
    """And can be made again."""
    with ArmHarness() as arm:
        arm.group()
        asked = arm.delete(RG)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert refused(arm.delete(RG)) == (404, "ResourceGroupNotFound")
        created(arm.put(RG, HERE))


def test_a_group_stays_if_something_in_it_cannot_go() -> None:
    """The operation fails and says why; the group takes new things again, and may be deleted."""
    with ArmHarness() as arm:
        machine(arm)
        arm.driver.fail = "the disk is full"
        asked = arm.delete(RG)
        arm.advance(60)
        ended = arm.ended(asked)
        assert ended["status"] == "Failed"
        assert "the disk is full" in ended["error"]["message"]
        assert arm.get(RG).json["properties"]["provisioningState"] == "Succeeded"
        created(arm.put(NET, HERE))
        arm.driver.fail = ""
        again = arm.delete(RG)
        arm.advance(60)
        assert arm.ended(again)["status"] == "Succeeded"
        assert arm.get(RG).status == 404


def test_what_is_going_already_goes_on() -> None:
    """What is being deleted does not keep its group from being deleted, and goes before it."""
    with ArmHarness() as arm:
        filled(arm)
        inside = f"{COMPUTE}/virtualMachines/in"
        arm.patch(inside, {"properties": notice()})
        for scope in (VM_SCOPE, WEB_SCOPE, AV_SCOPE):
            arm.poll(scope)
        for path in (VM, inside, WEB):
            assert arm.delete(path).status == 202
        asked = arm.delete(RG)
        assert asked.status == 202
        arm.advance(200)
        assert arm.get(VM).status == arm.get(WEB).status == arm.get(RG).status == 200
        assert arm.ended(asked)["status"] == "InProgress"
        arm.advance(1000)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert arm.get(RG).status == 404
        assert not arm.exists(AV_SCOPE)
        assert arm.get("/resources").json == {"value": []}


def test_it_survives_a_restart_of_the_service() -> None:
    """A delete that was acknowledged is carried out by whoever comes after."""
    with ArmHarness() as arm:
        filled(arm)
        arm.poll(VM_SCOPE)
        asked = arm.delete(RG)
        arm.restart()
        arm.advance(1000)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert arm.get(RG).status == 404


def test_groups_have_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one page holds; and what has more than a page in it goes whole."""
    monkeypatch.setattr("fairwarning.arm.http.context.PAGE", 2)
    monkeypatch.setattr(groups, "PAGE", 2)
    with ArmHarness() as arm:
        for number in range(3):
            arm.group(f"g{number}")
            created(arm.put(f"{NET}{number}".replace("/rg/", "/g0/"), HERE))
        first = arm.get("/resourceGroups").json
        second = arm.follow(first["nextLink"]).json
        assert [one["name"] for one in first["value"] + second["value"]] == ["g0", "g1", "g2"]
        arm.delete("/resourceGroups/g0")
        assert names(arm, "/resourceGroups") == ["g1", "g2"]
        arm.group("g0")
        network = "/resourceGroups/g0/providers/Microsoft.Network/virtualNetworks"
        assert names(arm, network) == []


def test_the_journal_says_who_it_was() -> None:
    """For everything that goes with the group."""
    ann = Principal(name="ann", role=Role.TENANT, group="rg")
    with ArmHarness() as arm:
        filled(arm)
        arm.poll(VM_SCOPE)
        arm.delete(RG, principal=ann)
        assert actors(arm, "Scheduled") == {"ann"}
