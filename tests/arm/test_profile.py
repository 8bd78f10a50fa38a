from typing import Any

import pytest

from tests.arm.bodies import (
    AV,
    COMPUTE,
    VM,
    VM_SCOPE,
    WEB,
    WEB_SCOPE,
    created,
    machine,
    notice,
    policy,
    refused,
    scale_set,
)
from tests.fixtures.arm import ArmHarness

Json = dict[str, Any]

HERE: Json = {"location": "local"}
IMAGE: Json = {
    "scheduledEventsProfile": {
        "osImageNotificationProfile": {"enable": True, "notBeforeTimeout": "PT15M"}
    }
}


def in_set(model: Json) -> Json:
    """A scale set with this model."""
    return {**HERE, "sku": {"capacity": 1}, "properties": {"virtualMachineProfile": model}}


def in_machine(properties: Json) -> Json:
    """A machine, or another resource, with these properties."""
    return {**HERE, "properties": properties}


def terminate(**told: object) -> Json:
    """A profile that says this of deletes."""
    return {"scheduledEventsProfile": {"terminateNotificationProfile": told}}


# --- Since when -----------------------------------------------------------------------------------

SINCE = [
    (WEB, in_set(notice()), "scheduledEventsProfile", "2018-10-01", "2019-03-01"),
    (VM, in_machine(notice()), "scheduledEventsProfile", "2020-12-01", "2021-03-01"),
    (WEB, in_set(IMAGE), "osImageNotificationProfile", "2022-08-01", "2022-11-01"),
    (VM, in_machine(IMAGE), "osImageNotificationProfile", "2022-08-01", "2022-11-01"),
    (WEB, in_machine(policy()), "scheduledEventsPolicy", "2023-09-01", "2024-03-01"),
    (VM, in_machine(policy()), "scheduledEventsPolicy", "2023-09-01", "2024-03-01"),
    (AV, in_machine(policy()), "scheduledEventsPolicy", "2024-03-01", "2024-07-01"),
]


@pytest.mark.spec("T2")
@pytest.mark.parametrize(("path", "body", "member", "before", "since"), SINCE)
def test_a_version_knows_a_member_from_its_time_on(
    path: str, body: Json, member: str, before: str, since: str
) -> None:
    """Before it is an error in Azure's words, and nothing is made; a preview counts by its date."""
    with ArmHarness() as arm:
        arm.group()
        for version in (before, f"{before}-preview"):
            answer = arm.put(path, body, version=version)
            assert refused(answer) == (400, "BadRequest")
            start = f"Could not find member '{member}' on object of type '"
            assert answer.error_message.startswith(start)
            assert arm.get(path).status == 404
        created(arm.put(path, body, version=f"{since}-preview"))
        for version in (since, "2031-01-01"):
            assert arm.put(path, body, version=version).status == 200


@pytest.mark.spec("T2")
def test_the_words_for_a_scale_set() -> None:
    """Letter by letter: scripts look for them."""
    with ArmHarness() as arm:
        scale_set(arm)
        body = {"properties": {"virtualMachineProfile": notice()}}
        for ask in (arm.put, arm.patch):
            answer = ask(WEB, body, version="2018-10-01")
            assert answer.error_message == (
                "Could not find member 'scheduledEventsProfile' on object of type "
                "'VirtualMachineProfile'"
            )


def test_an_older_version_does_everything_else() -> None:
    """What was set with a newer one stays set, and null says nothing."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice())
        body = {
            "sku": {"capacity": 1},
            "properties": {"virtualMachineProfile": {"scheduledEventsProfile": None}},
        }
        assert arm.patch(WEB, body, version="2017-03-30").status == 200
        assert arm.machines(WEB_SCOPE)["web_0"].terminate_seconds == 300


# --- How long -------------------------------------------------------------------------------------


@pytest.mark.spec("T1")
@pytest.mark.parametrize(
    ("told", "seconds", "shown"),
    [
        ({"enable": True}, 300, "PT5M"),
        ({"enable": True, "notBeforeTimeout": None}, 300, "PT5M"),
        ({"enable": True, "notBeforeTimeout": "PT5M"}, 300, "PT5M"),
        ({"enable": "true", "notBeforeTimeout": "PT300S"}, 300, "PT5M"),
        ({"enable": "True", "notBeforeTimeout": "PT7M30S"}, 450, "PT7M30S"),
        ({"enable": True, "notBeforeTimeout": "PT15M"}, 900, "PT15M"),
        ({"enable": False}, 0, "PT5M"),
        ({"enable": "false", "notBeforeTimeout": "PT10M"}, 0, "PT10M"),
        ({"notBeforeTimeout": "PT10M"}, 0, "PT10M"),
    ],
)
def test_a_notice(told: Json, seconds: int, shown: str) -> None:
    """5 minutes unless another time is said; given back as a boolean and a duration."""
    with ArmHarness() as arm:
        machine(arm, **terminate(**told))
        created(arm.put(WEB, in_set(terminate(**told))))
        assert arm.machines(VM_SCOPE)["vm"].terminate_seconds == seconds
        assert arm.machines(WEB_SCOPE)["web_0"].terminate_seconds == seconds
        for properties in (
            arm.get(VM).json["properties"],
            arm.get(WEB).json["properties"]["virtualMachineProfile"],
        ):
            assert properties["scheduledEventsProfile"]["terminateNotificationProfile"] == {
                "enable": seconds > 0,
                "notBeforeTimeout": shown,
            }


@pytest.mark.spec("T1")
@pytest.mark.parametrize("enable", [True, False])
@pytest.mark.parametrize(
    "duration",
    [
        "PT4M",
        "PT4M59S",
        "PT16M",
        "PT15M1S",
        "PT0S",
        "PT1H",
        "P1D",
        "10",
        "10M",
        "",
        "PT",
        "-PT5M",
        5,
    ],
)
def test_any_other_notice_is_refused(duration: object, enable: bool) -> None:
    """The answer names the range; nothing is made, and nothing is changed."""
    with ArmHarness() as arm:
        arm.group()
        told = terminate(enable=enable, notBeforeTimeout=duration)
        for path, body in ((WEB, in_set(told)), (VM, in_machine(told))):
            answer = arm.put(path, body)
            assert refused(answer) == (400, "InvalidParameter")
            assert "notBeforeTimeout" in answer.error_message
            if isinstance(duration, str):
                assert "PT5M to PT15M" in answer.error_message
            assert arm.get(path).status == 404
        scale_set(arm, model=notice())
        change = {"properties": {"virtualMachineProfile": told}}
        assert refused(arm.patch(WEB, change)) == (400, "InvalidParameter")
        assert arm.machines(WEB_SCOPE)["web_0"].terminate_seconds == 300


@pytest.mark.parametrize("told", [{"enable": "yes"}, {"enable": 1}, [], "PT5M"])
def test_what_is_no_profile_at_all(told: object) -> None:
    """It is refused where it stands."""
    with ArmHarness() as arm:
        arm.group()
        profile = {"scheduledEventsProfile": {"terminateNotificationProfile": told}}
        for path, body in ((WEB, in_set(profile)), (VM, in_machine(profile))):
            assert refused(arm.put(path, body)) == (400, "InvalidParameter")


@pytest.mark.spec("T1", "T4")
def test_switched_off_again() -> None:
    """`enable: false` needs no time, and from then on a delete gives no notice."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice("PT10M"), upgradePolicy={"mode": "Automatic"})
        arm.poll(WEB_SCOPE)
        off = {"properties": {"virtualMachineProfile": terminate(enable=False)}}
        assert arm.patch(WEB, off).status == 200
        arm.delete(f"{WEB}/virtualMachines/0")
        assert arm.poll(WEB_SCOPE)["Events"] == []
        on = {"properties": {"virtualMachineProfile": terminate(enable=True)}}
        arm.patch(WEB, on)
        assert arm.machines(WEB_SCOPE)["web_1"].terminate_seconds == 600


@pytest.mark.parametrize(
    ("duration", "taken"), [("PT15M", True), (None, True), ("PT5M", False), ("PT20M", False)]
)
def test_the_notice_of_a_new_image(duration: str | None, taken: bool) -> None:
    """A quarter of an hour and nothing else; it does not touch the notice of a delete."""
    told = {"enable": True, "notBeforeTimeout": duration}
    profile = {"scheduledEventsProfile": {"osImageNotificationProfile": told}}
    with ArmHarness() as arm:
        arm.group()
        for path, body in ((WEB, in_set(profile)), (VM, in_machine(profile))):
            answer = arm.put(path, body)
            if taken:
                created(answer)
            else:
                assert refused(answer) == (400, "InvalidParameter")
                assert "PT15M" in answer.error_message
                assert "PT5M to" not in answer.error_message
        if taken:
            assert arm.machines(VM_SCOPE)["vm"].terminate_seconds == 0
            shown = arm.get(VM).json["properties"]["scheduledEventsProfile"]
            assert shown["osImageNotificationProfile"]["enable"] is True


# --- Policies -------------------------------------------------------------------------------------


@pytest.mark.spec("E8")
def test_a_machine_in_a_set_has_no_policy_of_its_own() -> None:
    """That is its set's to say, whether the machine is new or not; else nothing is made of it."""
    with ArmHarness() as arm:
        arm.group()
        created(arm.put(AV, HERE))
        owner = {"availabilitySet": {"id": arm.get(AV).json["id"]}}
        own = arm.put(VM, in_machine({**owner, **policy(reboot=True)}))
        assert refused(own) == (409, "OperationNotAllowed")
        created(arm.put(VM, in_machine(owner)))
        later = arm.patch(VM, {"properties": policy(reboot=True)})
        assert refused(later) == (409, "OperationNotAllowed")
        assert arm.patch(VM, {"tags": {"a": "b"}}).status == 200


@pytest.mark.parametrize("said", [{"userInitiatedReboot": {"automaticallyApprove": 1}}, [], "x"])
def test_a_policy_that_is_none(said: object) -> None:
    """It is refused, on whatever it is written."""
    with ArmHarness() as arm:
        arm.group()
        for path in (WEB, VM, AV):
            body = in_machine({"scheduledEventsPolicy": said})
            assert refused(arm.put(path, body)) == (400, "InvalidParameter")
        assert arm.get(f"{COMPUTE}/virtualMachines").json == {"value": []}
