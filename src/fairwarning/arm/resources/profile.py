"""How much notice a machine gets, as Azure spells it: profiles, policies, and since when (T1, T2).

Versions are compared as dates; what a version did not know yet is an error in it, as on Azure.
"""

from typing import Any

from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources.documents import merged, strict, wrong_value
from fairwarning.core import limits, times
from fairwarning.core.errors import Refused
from fairwarning.core.model import Rules
from fairwarning.core.record import changed

SET_PROFILE = "properties.virtualMachineProfile"
MACHINE_PROFILE = "properties"

# Since when a member is known: of a scale set's model, and of a machine.
_PROFILE_SINCE = {SET_PROFILE: "2019-03-01", MACHINE_PROFILE: "2021-03-01"}
_OBJECT = {SET_PROFILE: "VirtualMachineProfile", MACHINE_PROFILE: "VirtualMachineProperties"}
_IMAGE_SINCE = "2022-11-01"
_POLICY_SINCE = "2024-03-01"
AVAILABILITY_POLICY_SINCE = "2024-07-01"
_IMAGE_SECONDS = 15 * 60  # the only notice there is of a new image


def check_versions(body: Body, version: str, at: str, policy_since: str = _POLICY_SINCE) -> None:
    """Refuse what this api-version does not know (T2)."""
    events = strict(body, f"{at}.scheduledEventsProfile", dict)
    if events is not None and version < _PROFILE_SINCE.get(at, "9"):
        raise _unknown("scheduledEventsProfile", _OBJECT[at])
    if events and "osImageNotificationProfile" in events and version < _IMAGE_SINCE:
        raise _unknown("osImageNotificationProfile", "ScheduledEventsProfile")
    properties = strict(body, "properties", dict, {})
    if properties.get("scheduledEventsPolicy") is not None and version < policy_since:
        raise _unknown("scheduledEventsPolicy", "Properties")


def _unknown(member: str, kind: str) -> ArmError:
    text = f"Could not find member '{member}' on object of type '{kind}'"
    return ArmError("BadRequest", text)


def terminate_seconds(body: Body, at: str) -> int:
    """The notice of a delete; 0 if none is given (T1)."""
    where = f"{at}.scheduledEventsProfile.terminateNotificationProfile"
    _check_image(body, f"{at}.scheduledEventsProfile.osImageNotificationProfile")
    given = strict(body, where, dict)
    if given is None:
        return 0
    seconds = _seconds(given, where)
    least, most = limits.TERMINATE_MIN_SECONDS, limits.TERMINATE_MAX_SECONDS
    if not least <= seconds <= most:
        raise _wrong_notice(given, where, "PT5M to PT15M")
    return seconds if strict(given, "enable", bool, default=False) else 0


def spelt(body: Body, at: str) -> Body:
    """The body with what it says of the notice as Azure spells it: a boolean, and a duration."""
    where = f"{at}.scheduledEventsProfile.terminateNotificationProfile"
    given = strict(body, where, dict)
    if given is None:
        return body
    told: Body = {}
    if "enable" in given:
        told["enable"] = strict(given, "enable", bool)
    if "notBeforeTimeout" in given:
        told["notBeforeTimeout"] = times.format_duration(_seconds(given, where))
    return merged(body, _nested(where, told))


def whole(body: Body, at: str) -> Body:
    """The body with both halves of the notice, if it says anything of it."""
    where = f"{at}.scheduledEventsProfile.terminateNotificationProfile"
    if strict(body, where, dict) is None:
        return body
    least = times.format_duration(limits.TERMINATE_MIN_SECONDS)
    return merged(_nested(where, {"enable": False, "notBeforeTimeout": least}), body)


def _nested(path: str, value: Body) -> Body:
    for step in reversed(path.split(".")):
        value = {step: value}
    return value


def _check_image(body: Body, where: str) -> None:
    given = strict(body, where, dict)
    if given is not None and _seconds(given, where, _IMAGE_SECONDS) != _IMAGE_SECONDS:
        raise _wrong_notice(given, where, "PT15M")


def _seconds(given: Body, where: str, default: int = limits.TERMINATE_MIN_SECONDS) -> int:
    value = strict(given, "notBeforeTimeout", str)
    if value is None:
        return default
    try:
        return times.parse_duration(value)
    except Refused as refused:
        raise _wrong_notice(given, where, "PT5M to PT15M") from refused


def _wrong_notice(given: Body, where: str, allowed: str) -> ArmError:
    text = f"an ISO 8601 duration, {allowed}"
    return wrong_value(f"{where}.notBeforeTimeout", given.get("notBeforeTimeout"), text)


def with_policy(rules: Rules, body: Body) -> Rules:
    """The rules with what `scheduledEventsPolicy` says of automatic approval (E8)."""
    policy = "properties.scheduledEventsPolicy"
    reboot = strict(body, f"{policy}.userInitiatedReboot.automaticallyApprove", bool)
    redeploy = strict(body, f"{policy}.userInitiatedRedeploy.automaticallyApprove", bool)
    return changed(
        rules,
        approve_reboot=rules.approve_reboot if reboot is None else reboot,
        approve_redeploy=rules.approve_redeploy if redeploy is None else redeploy,
    )


def events_profile(seconds: int) -> dict[str, Any]:
    """The profile that gives this notice, for a document; nothing for none."""
    if not seconds:
        return {}
    notice = {"enable": True, "notBeforeTimeout": times.format_duration(seconds)}
    return {"scheduledEventsProfile": {"terminateNotificationProfile": notice}}
