from typing import Any

import pytest

from fairwarning.core.model import ScaleSet
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import (
    COMPUTE,
    WEB,
    WEB_SCOPE,
    actors,
    created,
    names,
    notice,
    policy,
    refused,
    scale_set,
    told,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

SETS = f"{COMPUTE}/virtualMachineScaleSets"
NOTICE = {"properties": {"virtualMachineProfile": notice("PT10M")}}


def model(arm: ArmHarness, name: str = "rg:web") -> ScaleSet:
    """The set as the rules know it."""
    found = arm.scale_set(name)
    assert found is not None
    return found


def capacity(arm: ArmHarness, path: str = WEB) -> int:
    """How many there are, as Azure tells it."""
    found: int = arm.get(path).json["sku"]["capacity"]
    return found


def told_of(arm: ArmHarness) -> list[tuple[str, str, list[str]]]:
    """What the set's first instances are told."""
    return told(arm, WEB_SCOPE)


# --- The set and its model ------------------------------------------------------------------------


@pytest.mark.spec("C1", "T7")
def test_a_set_is_made_and_read() -> None:
    """201 with the whole document, then the same by GET and in both listings."""
    with ArmHarness() as arm:
        prefix = {"osProfile": {"computerNamePrefix": "front", "adminPassword": "s3cret"}}
        scale_set(arm, capacity=2, model=prefix, zoneBalance=True)
        made = arm.get(WEB).json
        assert made["id"] == f"{SUBSCRIPTION}{WEB}"
        assert made["type"] == "Microsoft.Compute/virtualMachineScaleSets"
        assert made["sku"] == {"name": "Standard_B1s", "tier": "Standard", "capacity": 2}
        properties = made["properties"]
        assert properties["provisioningState"] == "Succeeded"
        assert properties["orchestrationMode"] == "Uniform"
        assert properties["upgradePolicy"] == {"mode": "Manual"}
        assert properties["zoneBalance"] is True
        assert properties["virtualMachineProfile"]["osProfile"] == {"computerNamePrefix": "front"}
        assert arm.get(SETS).json == {"value": [made]}
        assert arm.get("/providers/Microsoft.Compute/virtualMachineScaleSets").json["value"]
        hosts = [machine.host_name for machine in arm.machines(WEB_SCOPE).values()]
        assert hosts == ["front000000", "front000001"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"sku": {"capacity": -1}}, "sku.capacity"),
        ({"sku": {"capacity": 1001}}, "sku.capacity"),
        ({"sku": {"capacity": True}}, "sku.capacity"),
        ({"properties": {"upgradePolicy": {"mode": "Whenever"}}}, "upgradePolicy.mode"),
        ({"properties": {"orchestrationMode": "Loose"}}, "orchestrationMode"),
        ({"properties": {"platformFaultDomainCount": 6}}, "platformFaultDomainCount"),
        ({"properties": {"virtualMachineProfile": []}}, "virtualMachineProfile"),
        ({"zones": [1]}, "zones"),
    ],
)
def test_what_may_not_stand_there(body: Any, path: str) -> None:  # noqa: ANN401
    """It is named, and nothing is made."""
    with ArmHarness() as arm:
        arm.group()
        answer = arm.put(WEB, {"location": "local", **body})
        assert refused(answer) == (400, "InvalidParameter")
        assert path in answer.error_message
        assert names(arm, SETS) == []


def test_a_new_set_is_somewhere_and_a_patch_makes_none() -> None:
    """A location is required once, and PATCH is for what there is."""
    with ArmHarness() as arm:
        arm.group()
        assert refused(arm.put(WEB, {"sku": {"capacity": 1}})) == (400, "LocationRequired")
        assert refused(arm.patch(WEB, {"location": "local"})) == (404, "ResourceNotFound")


def test_a_put_is_merged() -> None:
    """`az vmss scale` sends a size alone, documentation shows a nested profile alone: both work."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1, model={"priority": "Regular", "licenseType": "None"})
        assert arm.put(WEB, {"location": "local", "sku": {"capacity": "3"}}).status == 200
        assert arm.put(WEB, NOTICE).status == 200
        shown = arm.get(WEB).json
        assert shown["sku"] == {"name": "Standard_B1s", "tier": "Standard", "capacity": 3}
        profile = shown["properties"]["virtualMachineProfile"]
        assert profile["licenseType"] == "None"
        assert profile["scheduledEventsProfile"] == notice("PT10M")["scheduledEventsProfile"]
        assert model(arm).terminate_seconds == 600


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"properties": {"orchestrationMode": "Flexible"}}, "orchestrationMode"),
        ({"properties": {"virtualMachineProfile": {"priority": "Spot"}}}, "priority"),
        ({"zones": ["1"]}, "zones"),
        ({"properties": {"platformFaultDomainCount": 1}}, "platformFaultDomainCount"),
        (
            {"properties": {"virtualMachineProfile": {"osProfile": {"computerNamePrefix": "x"}}}},
            "computerNamePrefix",
        ),
    ],
)
def test_some_values_are_for_life(change: Any, name: str) -> None:  # noqa: ANN401
    """They are refused with their name, and nothing else of the request is done."""
    with ArmHarness() as arm:
        scale_set(arm)
        before = arm.get(WEB).json
        answer = arm.patch(WEB, {**change, "sku": {"capacity": 1}})
        assert refused(answer) == (409, "PropertyChangeNotAllowed")
        assert name in answer.error_message
        assert arm.get(WEB).json == before


def test_how_spot_instances_leave_is_for_life() -> None:
    """Nobody is told of a policy that is not the one which holds."""
    with ArmHarness() as arm:
        spot = {"priority": "Spot", "evictionPolicy": "Deallocate"}
        scale_set(arm, model=spot)
        change = {"properties": {"virtualMachineProfile": {"evictionPolicy": "Delete"}}}
        answer = arm.patch(WEB, change)
        shown = arm.get(WEB).json["properties"]["virtualMachineProfile"]
        assert shown["evictionPolicy"] == "Deallocate"
        assert refused(answer) == (409, "PropertyChangeNotAllowed")


@pytest.mark.spec("T3")
def test_an_instance_follows_the_model_it_was_brought_to() -> None:
    """A new notice is for new instances, until the others are brought to it by hand."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=2)
        arm.poll(WEB_SCOPE)
        arm.patch(WEB, {**NOTICE, "sku": {"capacity": 3}})
        applied = [
            one["properties"]["latestModelApplied"]
            for one in arm.get(f"{WEB}/virtualMachines").json["value"]
        ]
        assert applied == [False, False, True]
        assert arm.post(f"{WEB}/manualupgrade", {"instanceIds": ["1"]}).status == 200
        arm.post(f"{WEB}/delete", {"instanceIds": ["0", "1", "2"]})
        assert {tuple(named) for _, _, named in told_of(arm)} == {("web_1",), ("web_2",)}


@pytest.mark.spec("T3")
@pytest.mark.parametrize("mode", ["Automatic", "Rolling"])
def test_upgrades_that_need_no_hand(mode: str) -> None:
    """Everybody follows the new model at once, and an event that exists stays as it is."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice(), upgradePolicy={"mode": mode})
        arm.poll(WEB_SCOPE)
        arm.post(f"{WEB}/delete", {"instanceIds": ["0"]})
        (before,) = arm.poll(WEB_SCOPE)["Events"]
        arm.patch(WEB, NOTICE)
        assert arm.poll(WEB_SCOPE)["Events"] == [before]
        machines = arm.machines(WEB_SCOPE)
        assert {machines[f"web_{n}"].terminate_seconds for n in (1, 2)} == {600}
        assert arm.get(WEB).json["properties"]["upgradePolicy"]["mode"] == mode


@pytest.mark.spec("E8")
def test_a_policy_is_for_all_instances() -> None:
    """Those that are there and those that come: what users want appears as Started."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        arm.poll(WEB_SCOPE)
        arm.patch(WEB, {"properties": policy(redeploy=True)})
        arm.post(f"{WEB}/redeploy")
        assert told_of(arm) == [("Redeploy", "Started", ["web_0"])]
        arm.advance(300)
        arm.post(f"{WEB}/restart")
        assert told_of(arm) == [("Reboot", "Scheduled", ["web_0"])]


# --- How many there are ---------------------------------------------------------------------------


@pytest.mark.spec("C1", "T4")
def test_a_set_that_shrinks() -> None:
    """Those that leave get their notice; counted are those that stay; at the end they are gone."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice())
        arm.poll(WEB_SCOPE)
        asked = arm.patch(WEB, {"sku": {"capacity": 1}})
        assert (asked.status, asked.json["sku"]["capacity"]) == (200, 1)
        assert asked.json["properties"]["provisioningState"] == "Updating"
        assert [event[:2] for event in told_of(arm)] == [("Terminate", "Scheduled")] * 2
        assert arm.ended(asked)["status"] == "InProgress"
        assert len(names(arm, f"{WEB}/virtualMachines")) == 3
        arm.patch(WEB, {"sku": {"capacity": 1}})
        arm.advance(400)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert names(arm, f"{WEB}/virtualMachines") == ["web_0"]


def test_a_number_does_not_come_back() -> None:
    """Who deletes instances and then changes something else wants no others in their place."""
    with ArmHarness() as arm:
        scale_set(arm)
        arm.post(f"{WEB}/delete", {"instanceIds": ["0", "1"]})
        arm.advance(60)
        arm.patch(WEB, {"tags": {"a": "b"}})
        assert capacity(arm) == 1
        arm.patch(WEB, {"sku": {"capacity": 2}})
        assert names(arm, f"{WEB}/virtualMachines") == ["web_2", "web_3"]


def test_who_is_protected_stays() -> None:
    """A set cannot shrink below what it must keep: 409, and nothing of the request is done."""
    with ArmHarness() as arm:
        scale_set(arm)
        keep = {"properties": {"protectionPolicy": {"protectFromScaleIn": True}}}
        for number in (1, 2):
            arm.put(f"{WEB}/virtualMachines/{number}", keep)
        answer = arm.patch(WEB, {"sku": {"capacity": 1}, "tags": {"a": "b"}})
        assert refused(answer) == (409, "OperationNotAllowed")
        assert "tags" not in arm.get(WEB).json
        arm.patch(WEB, {"sku": {"capacity": 2}})
        arm.advance(60)
        assert names(arm, f"{WEB}/virtualMachines") == ["web_1", "web_2"]


@pytest.mark.parametrize(("rule", "left"), [("NewestVM", ["web_0"]), ("OldestVM", ["web_2"])])
def test_who_leaves_first(rule: str, left: list[str]) -> None:
    """As the set's policy says."""
    with ArmHarness() as arm:
        scale_set(arm, scaleInPolicy={"rules": [rule]})
        arm.patch(WEB, {"sku": {"capacity": 1}})
        arm.advance(60)
        assert names(arm, f"{WEB}/virtualMachines") == left


# --- Who and what else ----------------------------------------------------------------------------


def test_sets_of_a_fleet_file() -> None:
    """They are there, and writing what was read changes nothing and makes no new model."""
    with ArmHarness() as arm:
        arm.demo()
        path = "/resourceGroups/fairwarning/providers/Microsoft.Compute/virtualMachineScaleSets/web"
        read = arm.get(path).json
        assert read["sku"]["capacity"] == 3
        assert arm.put(path, read).status == 200
        assert {**arm.get(path).json, "etag": ""} == {**read, "etag": ""}
        assert model(arm, "web").model == 1
        image = {"scheduledEventsProfile": {"osImageNotificationProfile": {"enable": True}}}
        arm.patch(path, {"properties": {"virtualMachineProfile": image}})
        assert model(arm, "web").terminate_seconds == 300
        arm.patch(path, {"sku": {"capacity": 4}, "tags": {"a": "b"}})
        assert names(arm, f"{path}/virtualMachines") == [f"web_{n}" for n in range(4)]


def test_writing_what_was_read_makes_no_new_model() -> None:
    """`az vmss update` sends all of it back; nobody has to be upgraded for that."""
    with ArmHarness() as arm:
        arm.group()
        created(arm.put(WEB, {"location": "local", "sku": {"capacity": 1}}))
        for path in (WEB, scale_set(arm, f"{SETS}/db", model=notice())):
            assert arm.put(path, arm.get(path).json).status == 200
            name = path.rpartition("/")[2]
            assert model(arm, f"rg:{name}").model == 1
        arm.patch(WEB, {"tags": {"a": "b"}, "properties": {"zoneBalance": True}})
        assert model(arm).model == 1
        arm.patch(WEB, {"properties": {"virtualMachineProfile": {"licenseType": "None"}}})
        assert model(arm).model == 2


def test_the_journal_says_who_it_was() -> None:
    """Whoever the token names, for all that follows from it as well."""
    ann = Principal(name="ann", role=Role.TENANT, group="rg")
    with ArmHarness() as arm:
        scale_set(arm, model=notice())
        arm.poll(WEB_SCOPE)
        arm.patch(WEB, {"sku": {"capacity": 2}}, principal=ann)
        assert (
            actors(arm, "Scheduled") == {"ann"} == actors(arm, "OperationAccepted") - {"operator"}
        )
