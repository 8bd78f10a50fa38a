"""What the body of a scale set says, for the rules: policies, placement, the model of instances."""

from collections.abc import Mapping

from fairwarning.arm.compute import profile
from fairwarning.arm.compute.profile import SET_PROFILE
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents, writing
from fairwarning.arm.types.documents import choice, typed_value
from fairwarning.core import limits
from fairwarning.core.commands import CreateSet
from fairwarning.core.model import EvictionPolicy, Priority, ScaleInRule, UpgradeMode

UPGRADE_MODES: Mapping[str, UpgradeMode] = {
    "Manual": UpgradeMode.MANUAL,
    "Automatic": UpgradeMode.AUTOMATIC,
    "Rolling": UpgradeMode.MANUAL,  # there are no rolling upgrades
}
_RULES = {rule.value: rule for rule in ScaleInRule}
_FAULT_DOMAINS_MAX = 5
_IMMUTABLE = {
    "orchestrationMode": "flexible",
    "priority": "priority",
    "zones": "zones",
    "platformFaultDomainCount": "fault_domains",
    "evictionPolicy": "eviction",
    "computerNamePrefix": "prefix",
}
"""The properties that cannot change after the creation of a set."""


def parse(body: Body) -> CreateSet:
    """Return what a body says of a set, without its name; refuse values that are not allowed."""
    at = SET_PROFILE
    model = typed_value(body, at, dict)
    priority = choice(body, f"{at}.priority", profile.PRIORITIES, Priority.REGULAR)
    profile.check_eviction(body, at, priority)
    evictions = profile.EVICTIONS
    rules = typed_value(body, "properties.scaleInPolicy.rules", list, [])
    modes = {"Uniform": False, "Flexible": True}
    flexible = model is None and "sku" not in body  # as a set without a model
    return CreateSet(
        set="",
        capacity=0,
        flexible=choice(body, "properties.orchestrationMode", modes, default=flexible),
        priority=priority,
        eviction=choice(body, f"{at}.evictionPolicy", evictions, EvictionPolicy.DEALLOCATE),
        zones=profile.zones_of(body),
        fault_domains=documents.number(
            body,
            "properties.platformFaultDomainCount",
            range(1, _FAULT_DOMAINS_MAX + 1),
            limits.FAULT_DOMAINS,
        ),
        prefix=typed_value(body, f"{at}.osProfile.computerNamePrefix", str, ""),
        upgrade=choice(body, "properties.upgradePolicy.mode", UPGRADE_MODES, UpgradeMode.MANUAL),
        scale_in=choice({"rule": rules[0]} if rules else {}, "rule", _RULES, ScaleInRule.DEFAULT),
        size=typed_value(body, "sku.name", str, ""),
        terminate_seconds=profile.terminate_seconds(body, at),
        tags=documents.tags_of(body),
        windows=profile.os_type(model or {}) == "Windows",
    )


def check_immutable(before: Body, after: Body) -> None:
    """Refuse to change what cannot change after the creation of a set."""
    first, second = parse(before), parse(after)
    fixed = {name: (getattr(first, at), getattr(second, at)) for name, at in _IMMUTABLE.items()}
    fixed["location"] = writing.location_of(before), writing.location_of(after)
    writing.refuse_changes(fixed)
    if _single_group(before) is False:
        writing.refuse_changes({"singlePlacementGroup": (False, _single_group(after) or False)})


def _single_group(body: Body) -> bool | None:
    """Return whether the set has one placement group; None if no client has said so."""
    single: bool | None = typed_value(body, "properties.singlePlacementGroup", bool)
    return single


def capacity_of(sent: Body, body: Body, name: str) -> int | None:
    """Return the requested number of instances; None without one."""
    if typed_value(sent, "sku.capacity", int) is None:
        return None
    capacity = documents.number(sent, "sku.capacity", range(limits.SET_INSTANCES + 1), 0)
    most = limits.PLACEMENT_GROUP_MACHINES
    if _single_group(body) and capacity > most:
        raise azure_error("OperationNotAllowed/single placement group", name=name, most=most)
    return capacity


def instance_model(body: Body) -> Body:
    """Return the model of the instances without the notice of a delete, which has its own check."""
    return documents.without(typed_value(body, SET_PROFILE, dict, {}), "scheduledEventsProfile")
