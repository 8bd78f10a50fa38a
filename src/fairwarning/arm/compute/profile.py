"""What the bodies of machines and scale sets say, for the rules (C1, T1, T2).

Api-versions compare as dates. A member that is newer than the api-version is an error, as on Azure.
"""

from collections.abc import Mapping

from fairwarning.arm.http.errors import ArmError, azure_error, invalid_value
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import writing
from fairwarning.arm.types.documents import choice, merge, number, tags_of, typed_value, without
from fairwarning.core import limits, times
from fairwarning.core.commands import CreateSet
from fairwarning.core.errors import Refused
from fairwarning.core.model import (
    EvictionPolicy,
    Machine,
    Priority,
    Rules,
    ScaleInRule,
    UpgradeMode,
)
from fairwarning.core.record import changed

SET_PROFILE = "properties.virtualMachineProfile"
MACHINE_PROFILE = "properties"

# The first api-version with each member: in a scale set's model, and in a machine.
_PROFILE_SINCE = {SET_PROFILE: "2019-03-01", MACHINE_PROFILE: "2021-03-01"}
_OBJECT = {SET_PROFILE: "VirtualMachineProfile", MACHINE_PROFILE: "VirtualMachineProperties"}
_IMAGE_SINCE = "2022-11-01"
_POLICY_SINCE = "2024-03-01"
AVAILABILITY_POLICY_SINCE = "2024-07-01"
_IMAGE_SECONDS = 15 * 60  # the only allowed notice of an OS image upgrade


def check_api_version(body: Body, version: str, at: str, policy_since: str = _POLICY_SINCE) -> None:
    """Refuse members that this api-version does not have (T2)."""
    events = f"{at}.scheduledEventsProfile"
    for path, since, kind in (
        (events, _PROFILE_SINCE[at], _OBJECT[at]),
        (f"{events}.osImageNotificationProfile", _IMAGE_SINCE, "ScheduledEventsProfile"),
        ("properties.scheduledEventsPolicy", policy_since, "Properties"),
    ):
        if version < since and typed_value(body, path, dict) is not None:
            raise azure_error("BadRequest", member=path.rpartition(".")[2], kind=kind)


def terminate_seconds(body: Body, at: str) -> int:
    """Return the notice of a delete; 0 without one (T1)."""
    where = f"{at}.scheduledEventsProfile.terminateNotificationProfile"
    of_image = f"{at}.scheduledEventsProfile.osImageNotificationProfile"
    notice = typed_value(body, of_image, dict)
    if notice is not None and _seconds(notice, of_image, _IMAGE_SECONDS) != _IMAGE_SECONDS:
        raise _invalid_timeout(notice, of_image, "PT15M")
    notice = typed_value(body, where, dict)
    if notice is None:
        return 0
    seconds = _seconds(notice, where)
    least, most = limits.TERMINATE_MIN_SECONDS, limits.TERMINATE_MAX_SECONDS
    if not least <= seconds <= most:
        raise _invalid_timeout(notice, where, "PT5M to PT15M")
    return seconds if typed_value(notice, "enable", bool, default=False) else 0


def normalize(body: Body, at: str) -> Body:
    """Return the body with the duration of the notice in Azure's form."""
    where = f"{at}.scheduledEventsProfile.terminateNotificationProfile"
    notice = typed_value(body, where, dict, {})
    if "notBeforeTimeout" not in notice:
        return body
    timeout = times.format_duration(_seconds(notice, where))
    return merge(body, _nested(where, {"notBeforeTimeout": timeout}))


def fill_defaults(body: Body, at: str) -> Body:
    """Return the body with both members of the notice, if it has either."""
    where = f"{at}.scheduledEventsProfile.terminateNotificationProfile"
    if typed_value(body, where, dict) is None:
        return body
    least = times.format_duration(limits.TERMINATE_MIN_SECONDS)
    return merge(_nested(where, {"enable": False, "notBeforeTimeout": least}), body)


def _nested(path: str, value: Body) -> Body:
    for step in reversed(path.split(".")):
        value = {step: value}
    return value


def _seconds(notice: Body, where: str, default: int = limits.TERMINATE_MIN_SECONDS) -> int:
    value = typed_value(notice, "notBeforeTimeout", str)
    if value is None:
        return default
    try:
        return times.parse_duration(value)
    except Refused as refused:
        raise _invalid_timeout(notice, where, "PT5M to PT15M") from refused


def _invalid_timeout(notice: Body, where: str, allowed: str) -> ArmError:
    text = f"an ISO 8601 duration, {allowed}"
    return invalid_value(f"{where}.notBeforeTimeout", notice.get("notBeforeTimeout"), text)


def with_policy(rules: Rules, body: Body) -> Rules:
    """Return the rules with the automatic approvals of `scheduledEventsPolicy` (E8)."""
    policy = "properties.scheduledEventsPolicy"
    reboot = typed_value(body, f"{policy}.userInitiatedReboot.automaticallyApprove", bool)
    redeploy = typed_value(body, f"{policy}.userInitiatedRedeploy.automaticallyApprove", bool)
    return changed(
        rules,
        approve_reboot=rules.approve_reboot if reboot is None else reboot,
        approve_redeploy=rules.approve_redeploy if redeploy is None else redeploy,
    )


def events_profile(seconds: int) -> Body:
    """Return the `scheduledEventsProfile` member for this notice; nothing for no notice."""
    if not seconds:
        return {}
    notice = {"enable": True, "notBeforeTimeout": times.format_duration(seconds)}
    return {"scheduledEventsProfile": {"terminateNotificationProfile": notice}}


PRIORITIES = {"Regular": Priority.REGULAR, "Spot": Priority.SPOT, "Low": Priority.SPOT}
EVICTIONS = {policy.value: policy for policy in EvictionPolicy}


def parse_machine(name: str, body: Body) -> Machine:
    """Return the machine that a body describes."""
    priority = choice(body, "properties.priority", PRIORITIES, Priority.REGULAR)
    check_eviction(body, "properties", priority)
    zones = zones_of(body)
    if len(zones) > 1:
        raise invalid_value("zones", list(zones), "a list of one zone")
    return Machine(
        name=name,
        host_name=typed_value(body, "properties.osProfile.computerName", str, ""),
        size=typed_value(body, "properties.hardwareProfile.vmSize", str, ""),
        priority=priority,
        eviction=choice(body, "properties.evictionPolicy", EVICTIONS, EvictionPolicy.DEALLOCATE),
        terminate_seconds=terminate_seconds(body, MACHINE_PROFILE),
        zone="".join(zones),
        windows=os_type(body.get("properties", {})) == "Windows",
        tags=tags_of(body),
    )


def os_type(body: Body) -> str:
    """Return the operating system of a machine or a scale set's model."""
    sent: str | None = typed_value(body, "storageProfile.osDisk.osType", str)
    if sent:
        return sent
    publisher = typed_value(body, "storageProfile.imageReference.publisher", str, "")
    windows = typed_value(body, "osProfile.windowsConfiguration", dict) is not None
    return "Windows" if windows or "windows" in publisher.lower() else "Linux"


def check_eviction(body: Body, at: str, priority: Priority) -> None:
    """Refuse an eviction policy on a machine that is not a Spot machine."""
    if priority is not Priority.SPOT and typed_value(body, f"{at}.evictionPolicy", str):
        raise azure_error("EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines")


def zones_of(body: Body) -> tuple[str, ...]:
    """Return the zones of a body."""
    zones = typed_value(body, "zones", list, [])
    if not all(isinstance(zone, str) and zone for zone in zones) or len(set(zones)) < len(zones):
        raise invalid_value("zones", zones, "a list of different strings")
    return tuple(zones)


_IMMUTABLE = {
    "priority": "priority",
    "evictionPolicy": "eviction",
    "zones": "zone",
    "osProfile.computerName": "host_name",
}
"""The properties that cannot change after the creation of a machine, and the fields with them."""


def immutable_values(before: Machine, after: Machine) -> dict[str, tuple[object, object]]:
    """Return what cannot change after the creation of a machine, before and after a request."""
    return {name: (getattr(before, at), getattr(after, at)) for name, at in _IMMUTABLE.items()}


UPGRADE_MODES: Mapping[str, UpgradeMode] = {
    "Manual": UpgradeMode.MANUAL,
    "Automatic": UpgradeMode.AUTOMATIC,
    "Rolling": UpgradeMode.MANUAL,  # there are no rolling upgrades
}
_RULES = {rule.value: rule for rule in ScaleInRule}
_FAULT_DOMAINS_MAX = 5
_IMMUTABLE_IN_SET = {
    "orchestrationMode": "flexible",
    "priority": "priority",
    "zones": "zones",
    "platformFaultDomainCount": "fault_domains",
    "evictionPolicy": "eviction",
    "computerNamePrefix": "prefix",
}
_SINGLE_GROUP = "properties.singlePlacementGroup"


def parse_set(body: Body) -> CreateSet:
    """Return what a body says of a set, without its name; refuse values that are not allowed."""
    at = SET_PROFILE
    model = typed_value(body, at, dict)
    priority = choice(body, f"{at}.priority", PRIORITIES, Priority.REGULAR)
    check_eviction(body, at, priority)
    rules = typed_value(body, "properties.scaleInPolicy.rules", list, [])
    modes = {"Uniform": False, "Flexible": True}
    flexible = model is None and "sku" not in body  # as a set without a model
    return CreateSet(
        set="",
        capacity=0,
        flexible=choice(body, "properties.orchestrationMode", modes, default=flexible),
        priority=priority,
        eviction=choice(body, f"{at}.evictionPolicy", EVICTIONS, EvictionPolicy.DEALLOCATE),
        zones=zones_of(body),
        fault_domains=number(
            body,
            "properties.platformFaultDomainCount",
            range(1, _FAULT_DOMAINS_MAX + 1),
            limits.FAULT_DOMAINS,
        ),
        prefix=typed_value(body, f"{at}.osProfile.computerNamePrefix", str, ""),
        upgrade=choice(body, "properties.upgradePolicy.mode", UPGRADE_MODES, UpgradeMode.MANUAL),
        scale_in=choice({"rule": rules[0]} if rules else {}, "rule", _RULES, ScaleInRule.DEFAULT),
        size=typed_value(body, "sku.name", str, ""),
        terminate_seconds=terminate_seconds(body, at),
        tags=tags_of(body),
        windows=os_type(model or {}) == "Windows",
    )


def check_immutable_set(before: Body, after: Body) -> None:
    """Refuse to change what cannot change after the creation of a set."""
    first, second = parse_set(before), parse_set(after)
    members = _IMMUTABLE_IN_SET.items()
    fixed = {name: (getattr(first, at), getattr(second, at)) for name, at in members}
    fixed["location"] = writing.location_of(before), writing.location_of(after)
    writing.refuse_changes(fixed)
    if typed_value(before, _SINGLE_GROUP, bool) is False:
        single = typed_value(after, _SINGLE_GROUP, bool, default=False)
        writing.refuse_changes({"singlePlacementGroup": (False, single)})


def capacity_of(sent: Body, body: Body, name: str) -> int | None:
    """Return the requested number of instances; None without one."""
    if typed_value(sent, "sku.capacity", int) is None:
        return None
    capacity = number(sent, "sku.capacity", range(limits.SET_INSTANCES + 1), 0)
    most = limits.PLACEMENT_GROUP_MACHINES
    if typed_value(body, _SINGLE_GROUP, bool) and capacity > most:
        raise azure_error("OperationNotAllowed/single placement group", name=name, most=most)
    return capacity


def instance_model(body: Body) -> Body:
    """Return the model of the instances without the notice of a delete, which has its own check."""
    return without(typed_value(body, SET_PROFILE, dict, {}), "scheduledEventsProfile")
