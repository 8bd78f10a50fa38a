from collections import Counter
from typing import Any

import pytest

from tests.arm.bodies import AV, AV_SCOPE, COMPUTE, created, names, notice, policy, refused, told
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

SETS = f"{COMPUTE}/availabilitySets"
MACHINES = f"{COMPUTE}/virtualMachines"
HERE = {"location": "local"}
IN_SET = {"availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}


def with_machines(arm: ArmHarness, count: int, **properties: object) -> None:
    """An availability set of so many machines."""
    arm.group()
    created(arm.put(AV, {**HERE, "properties": properties}))
    for number in range(count):
        created(arm.put(f"{MACHINES}/m{number}", {**HERE, "properties": {**IN_SET, **notice()}}))


@pytest.mark.spec("C1")
def test_a_set_is_made_and_read() -> None:
    """201 with the whole document, then the same by GET and in both listings."""
    with ArmHarness() as arm:
        arm.group()
        own = {"platformUpdateDomainCount": 3, "other": {"a": 1}}
        body = {**HERE, "sku": {"name": "Aligned"}, "tags": {"a": "b"}, "properties": own}
        made = created(arm.put(AV, body))
        assert made["id"] == f"{SUBSCRIPTION}{AV}"
        assert (made["name"], made["type"]) == ("av", "Microsoft.Compute/availabilitySets")
        assert (made["sku"], made["tags"]) == ({"name": "Aligned"}, {"a": "b"})
        assert made["properties"] == {
            **own,
            "platformFaultDomainCount": 2,
            "virtualMachines": [],
        }
        assert arm.get(AV).json == made
        assert arm.get(SETS).json == {"value": [made]}
        assert arm.get("/providers/Microsoft.Compute/availabilitySets").json == {"value": [made]}
        assert arm.put(AV, made).status == 200
        assert arm.get(AV).json == made


@pytest.mark.parametrize(
    "properties",
    [
        {"platformUpdateDomainCount": 0},
        {"platformUpdateDomainCount": 21},
        {"platformFaultDomainCount": 4},
        {"platformFaultDomainCount": "many"},
    ],
)
def test_how_many_domains_there_may_be(properties: Any) -> None:  # noqa: ANN401
    """Azure's numbers; others are refused with the range."""
    with ArmHarness() as arm:
        arm.group()
        answer = arm.put(AV, {**HERE, "properties": properties})
        assert refused(answer) == (400, "InvalidParameter")
        assert next(iter(properties)) in answer.error_message
        assert names(arm, SETS) == []


def test_domains_are_for_life() -> None:
    """The machines are spread over them already; other things may change."""
    with ArmHarness() as arm:
        with_machines(arm, 1, platformUpdateDomainCount=3)
        change = {"properties": {"platformUpdateDomainCount": 5}}
        assert refused(arm.patch(AV, change)) == (409, "PropertyChangeNotAllowed")
        assert arm.patch(AV, {"tags": {"a": "b"}}).json["tags"] == {"a": "b"}


@pytest.mark.spec("E4")
def test_machines_are_spread() -> None:
    """Over the update domains and the fault domains, each into the emptiest; the set lists them."""
    with ArmHarness() as arm:
        with_machines(arm, 6, platformUpdateDomainCount=3)
        machines = arm.machines(AV_SCOPE).values()
        assert Counter(one.update_domain for one in machines) == {0: 2, 1: 2, 2: 2}
        assert Counter(one.fault_domain for one in machines) == {0: 3, 1: 3}
        listed = [one["id"] for one in arm.get(AV).json["properties"]["virtualMachines"]]
        assert listed == [f"{SUBSCRIPTION}{MACHINES}/m{n}" for n in range(6)]
        read = arm.get(f"{MACHINES}/m0").json["properties"]
        assert read["availabilitySet"]["id"].lower() == f"{SUBSCRIPTION}{AV}".lower()
        view = arm.get(f"{MACHINES}/m4/instanceView").json
        assert view["platformUpdateDomain"] == 1


def test_the_set_is_one_of_the_same_group() -> None:
    """However its id is spelt; what is not there, or somewhere else, is refused."""
    with ArmHarness() as arm:
        arm.group()
        arm.group("other")
        created(arm.put(AV, HERE))
        for owner, expected in (
            (f"{SUBSCRIPTION}{AV}x", (404, "ResourceNotFound")),
            (f"{SUBSCRIPTION}{AV}".replace("/rg/", "/other/"), (400, "InvalidParameter")),
            ("av", (400, "InvalidParameter")),
        ):
            body = {**HERE, "properties": {"availabilitySet": {"id": owner}}}
            assert refused(arm.put(f"{MACHINES}/vm", body)) == expected
        owner = f"{SUBSCRIPTION}{AV}".upper().replace("SUBSCRIPTIONS", "subscriptions")
        created(
            arm.put(f"{MACHINES}/vm", {**HERE, "properties": {"availabilitySet": {"id": owner}}})
        )
        assert list(arm.machines(AV_SCOPE)) == ["vm"]


@pytest.mark.spec("M16", "T4")
def test_machines_of_a_set_hear_of_each_other() -> None:
    """One scope for all; each may go by itself, and the set stays."""
    with ArmHarness() as arm:
        with_machines(arm, 2)
        arm.poll(AV_SCOPE)
        arm.post(f"{MACHINES}/m0/restart")
        asked = arm.delete(f"{MACHINES}/m1")
        assert told(arm, AV_SCOPE) == [
            ("Reboot", "Scheduled", ["m0"]),
            ("Terminate", "Scheduled", ["m1"]),
        ]
        arm.advance(400)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert names(arm, MACHINES) == ["m0"]
        assert len(arm.get(AV).json["properties"]["virtualMachines"]) == 1


@pytest.mark.spec("E8")
def test_a_policy_of_the_set() -> None:
    """What users want of its machines appears as Started."""
    with ArmHarness() as arm:
        with_machines(arm, 1)
        arm.poll(AV_SCOPE)
        assert arm.patch(AV, {"properties": policy(reboot=True)}).status == 200
        arm.post(f"{MACHINES}/m0/restart")
        assert told(arm, AV_SCOPE) == [("Reboot", "Started", ["m0"])]


def test_a_set_goes_when_it_is_empty() -> None:
    """Not before; and then it is gone, and what is gone may be deleted again."""
    with ArmHarness() as arm:
        with_machines(arm, 1)
        held = arm.delete(AV)
        assert refused(held) == (409, "OperationNotAllowed")
        arm.delete(f"{MACHINES}/m0")
        arm.advance(400)
        asked = arm.delete(AV)
        assert asked.status in {200, 202}
        assert arm.get(AV).status == 404
        assert not arm.exists(AV_SCOPE)
        assert arm.delete(AV).status == 204


def test_sets_of_a_fleet_file() -> None:
    """They are there with their machines, take others, and change nothing by being written back."""
    with ArmHarness() as arm:
        arm.demo(
            '[[availability_set]]\nname = "av"\ngroup = "rg"\nmachines = 3\nupdate_domains = 3'
        )
        read = arm.get(AV).json
        assert len(read["properties"]["virtualMachines"]) == 3
        assert arm.put(AV, read).status == 200
        assert arm.get(AV).json == read
        created(arm.put(f"{MACHINES}/new", {**HERE, "properties": IN_SET}))
        assert set(arm.machines("av")) == {"av_0", "av_1", "av_2", "new"}
