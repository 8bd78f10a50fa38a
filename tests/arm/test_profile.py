import pytest

from tests.arm.bodies import (
    AV,
    COMPUTE,
    VM,
    VM_SCOPE,
    WEB,
    WEB_SCOPE,
    Json,
    created,
    machine,
    notice,
    policy,
    refused,
    scale_set,
)
from tests.fixtures.arm import ArmHarness

LOCATION: Json = {"location": "local"}
IMAGE: Json = {
    "scheduledEventsProfile": {
        "osImageNotificationProfile": {"enable": True, "notBeforeTimeout": "PT15M"}
    }
}


def in_set(model: Json) -> Json:
    """Return the body of a scale set with this model."""
    return {**LOCATION, "sku": {"capacity": 1}, "properties": {"virtualMachineProfile": model}}


def in_machine(properties: Json) -> Json:
    """Return the body of a machine, or another resource, with these properties."""
    return {**LOCATION, "properties": properties}


def terminate(**settings: object) -> Json:
    """Return a profile with these settings for deletes."""
    return {"scheduledEventsProfile": {"terminateNotificationProfile": settings}}


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
def test_members_need_a_recent_api_version(
    arm: ArmHarness, path: str, body: Json, *, member: str, before: str, since: str
) -> None:
    """An older api-version is refused in Azure's words."""
    response = arm.put(path, body, version=before)
    assert refused(response) == (400, "BadRequest")
    start = f"Could not find member '{member}' on object of type '"
    assert response.error_message.startswith(start)
    assert arm.get(path).status == 404
    created(arm.put(path, body, version=since))
    assert arm.put(path, body, version="2026-04-01").status == 200


@pytest.mark.spec("T2")
def test_the_error_message_for_a_scale_set(arm: ArmHarness) -> None:
    """The message is exactly Azure's, because scripts compare it."""
    scale_set(arm)
    body = {"properties": {"virtualMachineProfile": notice()}}
    for method in (arm.put, arm.patch):
        response = method(WEB, body, version="2018-10-01")
        assert response.error_message == (
            "Could not find member 'scheduledEventsProfile' on object of type "
            "'VirtualMachineProfile'"
        )


def test_other_changes_with_an_older_api_version(arm: ArmHarness) -> None:
    """The notice set by a newer version stays, and null changes nothing."""
    scale_set(arm, model=notice())
    body = {
        "sku": {"capacity": 1},
        "properties": {"virtualMachineProfile": {"scheduledEventsProfile": None}},
    }
    assert arm.patch(WEB, body, version="2017-03-30").status == 200
    assert arm.machines(WEB_SCOPE)["web_0"].terminate_seconds == 300


@pytest.mark.spec("T1")
@pytest.mark.parametrize(
    ("settings", "seconds", "timeout"),
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
def test_a_notice(arm: ArmHarness, settings: Json, seconds: int, timeout: str) -> None:
    """The default is 5 minutes; the response has a boolean and a duration."""
    machine(arm, **terminate(**settings))
    created(arm.put(WEB, in_set(terminate(**settings))))
    assert arm.machines(VM_SCOPE)["vm"].terminate_seconds == seconds
    assert arm.machines(WEB_SCOPE)["web_0"].terminate_seconds == seconds
    for properties in (
        arm.get(VM).json["properties"],
        arm.get(WEB).json["properties"]["virtualMachineProfile"],
    ):
        assert properties["scheduledEventsProfile"]["terminateNotificationProfile"] == {
            "enable": seconds > 0,
            "notBeforeTimeout": timeout,
        }


@pytest.mark.spec("T1")
@pytest.mark.parametrize("enable", [True, False])
@pytest.mark.parametrize("duration", ["PT4M59S", "PT15M1S", "PT0S", "P1D", "10M", "", "-PT5M", 5])
def test_any_other_notice_is_refused(arm: ArmHarness, duration: object, enable: bool) -> None:
    """The error names the allowed range, and nothing is created or changed."""
    profile = terminate(enable=enable, notBeforeTimeout=duration)
    for path, body in ((WEB, in_set(profile)), (VM, in_machine(profile))):
        response = arm.put(path, body)
        assert refused(response) == (400, "InvalidParameter")
        assert "notBeforeTimeout" in response.error_message
        if isinstance(duration, str):
            assert "PT5M to PT15M" in response.error_message
        assert arm.get(path).status == 404
    scale_set(arm, model=notice())
    change = {"properties": {"virtualMachineProfile": profile}}
    assert refused(arm.patch(WEB, change)) == (400, "InvalidParameter")
    assert arm.machines(WEB_SCOPE)["web_0"].terminate_seconds == 300


@pytest.mark.spec("T1", "T3", "T8")
def test_the_request_of_azures_page(arm: ArmHarness) -> None:
    """A PUT of nothing but the notice changes a set's model; an upgrade changes its instances."""
    scale_set(arm, capacity=2)
    profile = terminate(notBeforeTimeout="PT5M", enable=True)
    body = {"properties": {"virtualMachineProfile": profile}}
    assert arm.put(WEB, body, version="2019-03-01").status == 200
    assert {each.terminate_seconds for each in arm.machines(WEB_SCOPE).values()} == {0}
    arm.post(f"{WEB}/manualupgrade", {"instanceIds": ["*"]}, version="2019-03-01")
    assert [each.terminate_seconds for each in arm.machines(WEB_SCOPE).values()] == [300, 300]


@pytest.mark.parametrize("settings", [{"enable": "yes"}, {"enable": 1}, [], "PT5M"])
def test_invalid_profiles(arm: ArmHarness, settings: object) -> None:
    """An invalid profile is refused."""
    profile = {"scheduledEventsProfile": {"terminateNotificationProfile": settings}}
    for path, body in ((WEB, in_set(profile)), (VM, in_machine(profile))):
        assert refused(arm.put(path, body)) == (400, "InvalidParameter")


@pytest.mark.parametrize(
    ("duration", "allowed"), [("PT15M", True), (None, True), ("PT5M", False), ("PT20M", False)]
)
def test_the_notice_of_an_image_upgrade(
    arm: ArmHarness, duration: str | None, allowed: bool
) -> None:
    """It must be 15 minutes, and does not change the notice of deletes."""
    settings = {"enable": True, "notBeforeTimeout": duration}
    profile = {"scheduledEventsProfile": {"osImageNotificationProfile": settings}}
    for path, body in ((WEB, in_set(profile)), (VM, in_machine(profile))):
        response = arm.put(path, body)
        if allowed:
            created(response)
        else:
            assert refused(response) == (400, "InvalidParameter")
            assert "PT15M" in response.error_message
            assert "PT5M to" not in response.error_message
    if allowed:
        assert arm.machines(VM_SCOPE)["vm"].terminate_seconds == 0
        document = arm.get(VM).json["properties"]["scheduledEventsProfile"]
        assert document["osImageNotificationProfile"]["enable"] is True


@pytest.mark.parametrize("value", [{"userInitiatedReboot": {"automaticallyApprove": 1}}, [], "x"])
def test_invalid_policies(arm: ArmHarness, value: object) -> None:
    """An invalid policy is refused on every resource type."""
    for path in (WEB, VM, AV):
        body = in_machine({"scheduledEventsPolicy": value})
        assert refused(arm.put(path, body)) == (400, "InvalidParameter")
    assert arm.get(f"{COMPUTE}/virtualMachines").json == {"value": []}
