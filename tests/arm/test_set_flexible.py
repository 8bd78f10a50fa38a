"""Instances of Flexible scale sets are virtual machines, and virtual machines join them (C1)."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairwarning.arm.compute import targets
from fairwarning.arm.types import context as arm_context
from tests.arm.bodies import (
    ANN,
    COMPUTE,
    VM,
    WEB,
    WEB_SCOPE,
    created,
    machine,
    names,
    notice,
    refused,
    scale_set,
    visible_events,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C6")

MACHINES = f"{COMPUTE}/virtualMachines"
ALL_MACHINES = "/providers/Microsoft.Compute/virtualMachines"
DB = f"{MACHINES}/db"


def flexible(arm: ArmHarness, path: str = WEB, capacity: int = 2, **properties: object) -> str:
    """Create a Flexible set, and return its path."""
    return scale_set(arm, path, capacity, None, orchestrationMode="Flexible", **properties)


def join(arm: ArmHarness, path: str = DB, owner: str = WEB, **properties: object) -> dict[str, Any]:
    """Create a machine in a set, and return its document."""
    owned = {"virtualMachineScaleSet": {"id": f"{SUBSCRIPTION}{owner}"}, **properties}
    return created(arm.put(path, {"location": "local", "properties": owned}))


def pages(arm: ArmHarness, path: str) -> Iterator[list[str]]:
    """Read a listing page by page."""
    page = arm.get(path).json
    while True:
        yield [item["name"] for item in page["value"]]
        if "nextLink" not in page:
            return
        page = arm.follow(page["nextLink"]).json


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put three machines on a page."""
    monkeypatch.setattr(arm_context, "PAGE", 3)
    monkeypatch.setattr(targets, "PAGE", 3)


@pytest.mark.usefixtures("small_pages")
def test_pages_have_one_order(arm: ArmHarness) -> None:
    """Every machine is on one page: first those with a resource of their own, then instances."""
    flexible(arm, capacity=5)
    flexible(arm, f"{COMPUTE}/virtualMachineScaleSets/api", capacity=2)
    scale_set(arm, f"{COMPUTE}/virtualMachineScaleSets/cache")
    for name in ("a", "b", "c", "d"):
        machine(arm, f"{MACHINES}/{name}")
    join(arm)
    expected = [
        ["a", "b", "c"],
        ["d", "db", "api_0"],
        ["api_1", "web_0", "web_1"],
        ["web_2", "web_3", "web_4"],
    ]
    for path in (MACHINES, ALL_MACHINES):
        assert list(pages(arm, path)) == expected


@pytest.mark.usefixtures("small_pages")
def test_a_page_looks_at_few_sets(arm: ArmHarness) -> None:
    """Sets without machines make a page short, not slow; the listing goes on after them."""
    for number in range(5):
        scale_set(arm, f"{COMPUTE}/virtualMachineScaleSets/set{number}", capacity=1)
    flexible(arm, capacity=1)
    assert list(pages(arm, MACHINES)) == [[], ["web_0"]]


@pytest.mark.usefixtures("small_pages")
def test_instances_come_and_go_between_pages(arm: ArmHarness) -> None:
    """A listing goes on where it was, even if the last machine of a page or its set is gone."""
    flexible(arm, capacity=4)
    flexible(arm, f"{COMPUTE}/virtualMachineScaleSets/zoo", capacity=1)
    first = arm.get(MACHINES).json
    assert [item["name"] for item in first["value"]] == ["web_0", "web_1", "web_2"]
    arm.delete(f"{MACHINES}/web_2")
    arm.advance(120)
    assert [item["name"] for item in arm.follow(first["nextLink"]).json["value"]] == [
        "web_3",
        "zoo_0",
    ]
    arm.delete(WEB)
    arm.advance(120)
    rest = arm.follow(first["nextLink"]).json
    assert [item["name"] for item in rest["value"]] == ["zoo_0"]


def test_a_tenant_lists_its_own_instances(arm: ArmHarness) -> None:
    """The listing of the subscription and a token of it show only the tenant's group."""
    flexible(arm, capacity=1)
    flexible(arm, WEB.replace("/rg/", "/other/"), capacity=201)
    page = arm.get(ALL_MACHINES, principal=ANN).json
    assert [item["id"] for item in page["value"]] == [f"{SUBSCRIPTION}{MACHINES}/web_0"]
    operators = arm.get(ALL_MACHINES.replace("/rg/", "/other/")).json
    token = operators["nextLink"].partition("skiptoken=")[2].partition("&")[0]
    foreign = arm.get(f"{ALL_MACHINES}?$skiptoken={token}", principal=ANN)
    assert refused(foreign) == (400, "InvalidSkipToken")


def test_an_instance_is_changed_as_a_machine(arm: ArmHarness) -> None:
    """Tags, size and notice change, and the instance shows them, too."""
    flexible(arm)
    body = {
        "tags": {"team": "web"},
        "properties": {"hardwareProfile": {"vmSize": "Standard_D2s_v5"}, **notice()},
    }
    document = created(arm.patch(f"{MACHINES}/web_0", body))
    assert (document["name"], document["tags"]) == ("web_0", {"team": "web"})
    assert document["properties"]["hardwareProfile"] == {"vmSize": "Standard_D2s_v5"}
    changed = arm.machines(WEB_SCOPE)["web_0"]
    assert (changed.size, changed.terminate_seconds) == ("Standard_D2s_v5", 300)
    assert arm.get(f"{WEB}/virtualMachines/0").json["tags"] == {"team": "web"}
    assert arm.get(f"{MACHINES}/web_0").json == document
    assert "tags" not in arm.get(f"{MACHINES}/web_1").json
    assert names(arm, MACHINES) == ["web_0", "web_1"]


def test_an_instance_has_one_body(arm: ArmHarness) -> None:
    """What is written of the instance and of the machine is kept together."""
    flexible(arm)
    instance = f"{WEB}/virtualMachines/0"
    policy = {"protectionPolicy": {"protectFromScaleIn": True}}
    created(arm.put(instance, {"location": "local", "properties": policy}))
    created(arm.patch(f"{MACHINES}/web_0", {"tags": {"a": "b"}}))
    properties = arm.get(instance).json["properties"]
    assert properties["protectionPolicy"]["protectFromScaleIn"] is True
    assert arm.get(instance).json["tags"] == {"a": "b"}
    assert "protectionPolicy" not in arm.get(f"{MACHINES}/web_0").json["properties"]


def test_an_instance_is_not_created_twice(arm: ArmHarness) -> None:
    """`If-None-Match: *` is refused for an instance, and its names are not for other machines."""
    flexible(arm)
    body = {"location": "local"}
    for path in (f"{MACHINES}/web_0", f"{WEB}/virtualMachines/0"):
        response = arm.put(path, body, headers={"if-none-match": "*"})
        assert refused(response) == (412, "PreconditionFailed")
    assert refused(arm.put(f"{MACHINES}/WEB_7", body)) == (409, "Conflict")
    assert refused(arm.patch(f"{MACHINES}/web_7", body)) == (404, "ResourceNotFound")


def test_a_machine_joins_its_set(arm: ArmHarness) -> None:
    """`az vm create --vmss`: the machine has its own name, counts, and shares the set's events."""
    flexible(arm)
    document = join(arm, hardwareProfile={"vmSize": "Standard_D2s_v5"})
    owner = document["properties"]["virtualMachineScaleSet"]
    assert owner == {"id": f"{SUBSCRIPTION}{WEB}"}
    assert arm.get(WEB).json["sku"]["capacity"] == 3
    assert names(arm, MACHINES) == ["db", "web_0", "web_1"]
    assert names(arm, f"{WEB}/virtualMachines") == ["web_0", "web_1", "db"]
    instance = arm.get(f"{WEB}/virtualMachines/2").json
    assert (instance["name"], instance["sku"]["name"]) == ("db", "Standard_D2s_v5")
    assert instance["properties"]["modelDefinitionApplied"] == "VirtualMachine"
    arm.poll(WEB_SCOPE)
    arm.post(f"{DB}/restart")
    assert visible_events(arm, WEB_SCOPE) == [("Reboot", "Scheduled", ["db"])]


def test_a_joined_machine_is_changed_and_deleted(arm: ArmHarness) -> None:
    """Through either of its URLs; its resource goes with it."""
    flexible(arm)
    join(arm)
    created(arm.patch(DB, {"tags": {"a": "b"}}))
    policy = {"protectionPolicy": {"protectFromScaleIn": True}}
    created(arm.put(f"{WEB}/virtualMachines/2", {"location": "local", "properties": policy}))
    assert arm.machines(WEB_SCOPE)["db"].protected is True
    assert arm.get(f"{WEB}/virtualMachines/db").json["tags"] == {"a": "b"}
    assert arm.post(f"{WEB}/delete", {"instanceIds": ["db"]}).status == 202
    arm.advance(120)
    assert arm.get(DB).status == 404
    assert names(arm, MACHINES) == ["web_0", "web_1"]
    join(arm)
    assert arm.delete(DB).status == 202
    arm.advance(120)
    assert arm.get(DB).status == 404


def test_the_name_of_an_instance_and_its_id_differ(arm: ArmHarness) -> None:
    """A joined machine has the third id; `web_2` is no machine and no instance."""
    flexible(arm)
    join(arm)
    assert arm.get(f"{MACHINES}/web_2").status == 404
    assert arm.get(f"{WEB}/virtualMachines/web_2").status == 404
    response = arm.post(f"{WEB}/delete", {"instanceIds": ["web_2"]})
    assert refused(response) == (400, "InvalidParameter")
    assert "db" in names(arm, MACHINES)


def test_a_machine_with_the_id_of_an_instance_as_its_name(arm: ArmHarness) -> None:
    """A number is always an id: the instance with this id is meant."""
    flexible(arm)
    join(arm, f"{MACHINES}/1")
    assert arm.get(f"{WEB}/virtualMachines/1").json["name"] == "web_1"
    assert arm.post(f"{WEB}/delete", {"instanceIds": ["1"]}).status == 202
    arm.advance(120)
    assert names(arm, MACHINES) == ["1", "web_0"]


def test_sets_that_cannot_be_joined(arm: ArmHarness) -> None:
    """A Uniform set, one of another group, and a set besides an availability set."""
    scale_set(arm)
    flexible(arm, WEB.replace("/rg/", "/other/"))
    owner = {"id": f"{SUBSCRIPTION}{WEB}"}
    both = {
        "virtualMachineScaleSet": owner,
        "availabilitySet": {"id": f"{SUBSCRIPTION}{COMPUTE}/availabilitySets/av"},
    }
    created(arm.put(f"{COMPUTE}/availabilitySets/av", {"location": "local"}))
    elsewhere = {"id": f"{SUBSCRIPTION}{WEB}".replace("/rg/", "/other/")}
    for properties, error in (
        ({"virtualMachineScaleSet": owner}, (409, "OperationNotAllowed")),
        ({"virtualMachineScaleSet": elsewhere}, (400, "InvalidParameter")),
        (both, (400, "InvalidParameter")),
    ):
        response = arm.put(DB, {"location": "local", "properties": properties})
        assert refused(response) == error
    assert arm.get(DB).status == 404
    assert names(arm, MACHINES) == []


def test_a_standalone_machine_does_not_join_later(arm: ArmHarness) -> None:
    """The set of a machine is chosen when it is created."""
    flexible(arm)
    machine(arm)
    change = {"properties": {"virtualMachineScaleSet": {"id": f"{SUBSCRIPTION}{WEB}"}}}
    assert refused(arm.patch(VM, change)) == (409, "PropertyChangeNotAllowed")


def test_a_group_is_deleted_with_joined_machines(arm: ArmHarness) -> None:
    """The group, the set and all its machines go."""
    flexible(arm)
    join(arm)
    accepted = arm.delete("/resourceGroups/rg")
    arm.advance(120)
    assert arm.ended(accepted)["status"] == "Succeeded"
    assert arm.get("/resourceGroups/rg").status == 404
    assert arm.get(ALL_MACHINES).json["value"] == []
