"""What the body of a scale set says: capacity, policies, placement and the model of instances."""

from collections.abc import Mapping

from fairwarning.arm.compute import machine_model
from fairwarning.arm.compute.profile import SET_PROFILE
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents, writing
from fairwarning.arm.types.documents import choice, typed_value
from fairwarning.core import limits
from fairwarning.core.model import EvictionPolicy, Priority, ScaleInRule, UpgradeMode

UPGRADE_MODES: Mapping[str, UpgradeMode] = {
    "Manual": UpgradeMode.MANUAL,
    "Automatic": UpgradeMode.AUTOMATIC,
    "Rolling": UpgradeMode.MANUAL,  # there are no rolling upgrades
}
SINGLE_PLACEMENT_GROUP = "properties.singlePlacementGroup"
_RULES = {rule.value: rule for rule in ScaleInRule}
_ORCHESTRATION_MODES = {"Uniform": False, "Flexible": True}
_FAULT_DOMAINS = "properties.platformFaultDomainCount"
_FAULT_DOMAINS_MAX = 5


def check_immutable(before: Body, after: Body) -> None:
    """Refuse to change what cannot change after the creation of a set."""
    writing.refuse_changes(
        {
            "orchestrationMode": (is_flexible(before), is_flexible(after)),
            "priority": (priority_of(before), priority_of(after)),
            "zones": (machine_model.zones_of(before), machine_model.zones_of(after)),
            "platformFaultDomainCount": (fault_domains_of(before), fault_domains_of(after)),
            "evictionPolicy": (eviction_of(before), eviction_of(after)),
            "computerNamePrefix": (prefix_of(before), prefix_of(after)),
            "location": (writing.location_of(before), writing.location_of(after)),
        }
    )
    if single_group_of(before) is False:
        writing.refuse_changes({"singlePlacementGroup": (False, single_group_of(after) or False)})


def check_single_group(body: Body, name: str, capacity: int) -> None:
    """Refuse more instances than one placement group holds, if the set may have only one."""
    most = limits.PLACEMENT_GROUP_MACHINES
    if single_group_of(body) and capacity > most:
        text = (
            f"Virtual Machine Scale Set '{name}' exceeds the total limit of '{most}' Virtual "
            "Machine instances of a single placement group. Set singlePlacementGroup to false for "
            "more."
        )
        raise ArmError("OperationNotAllowed", text, 409)


def single_group_of(body: Body) -> bool | None:
    """Return whether the set may have only one placement group; None if no client has said so."""
    single: bool | None = typed_value(body, SINGLE_PLACEMENT_GROUP, bool)
    return single


def instance_model(body: Body) -> Body:
    """Return the model of the instances without the notice of a delete, which has its own check."""
    model = typed_value(body, SET_PROFILE, dict, {})
    return {key: part for key, part in model.items() if key != "scheduledEventsProfile"}


def capacity_of(body: Body) -> int | None:
    """Return the requested number of instances; None without one."""
    capacity: int | None = typed_value(body, "sku.capacity", int)
    if capacity is not None and not 0 <= capacity <= limits.SET_INSTANCES:
        text = f"a whole number from 0 to {limits.SET_INSTANCES}"
        raise documents.invalid_value("sku.capacity", capacity, text)
    return capacity


def priority_of(body: Body) -> Priority:
    """Return the priority of the instances."""
    priority: Priority = choice(
        body, f"{SET_PROFILE}.priority", machine_model.PRIORITIES, Priority.REGULAR
    )
    machine_model.check_eviction(body, SET_PROFILE, priority)
    return priority


def eviction_of(body: Body) -> EvictionPolicy:
    """Return what an eviction does to an instance."""
    policy: EvictionPolicy = choice(
        body, f"{SET_PROFILE}.evictionPolicy", machine_model.EVICTIONS, EvictionPolicy.DEALLOCATE
    )
    return policy


def prefix_of(body: Body) -> str:
    """Return the prefix of the instances' host names; "" without one."""
    prefix: str = typed_value(body, f"{SET_PROFILE}.osProfile.computerNamePrefix", str, "")
    return prefix


def upgrade_mode_of(body: Body) -> UpgradeMode:
    """Return how a changed model reaches the instances."""
    mode: UpgradeMode = choice(
        body, "properties.upgradePolicy.mode", UPGRADE_MODES, UpgradeMode.MANUAL
    )
    return mode


def is_flexible(body: Body) -> bool:
    """Return whether the orchestration mode is Flexible, as that of a set without a model."""
    without_model = typed_value(body, SET_PROFILE, dict) is None and "sku" not in body
    flexible: bool = choice(
        body, "properties.orchestrationMode", _ORCHESTRATION_MODES, default=without_model
    )
    return flexible


def scale_in_rule_of(body: Body) -> ScaleInRule:
    """Return the rule that chooses the instances to delete."""
    rules = typed_value(body, "properties.scaleInPolicy.rules", list, [])
    first = {"rule": rules[0]} if rules else {}
    rule: ScaleInRule = choice(first, "rule", _RULES, ScaleInRule.DEFAULT)
    return rule


def fault_domains_of(body: Body) -> int:
    """Return the number of fault domains."""
    count: int = typed_value(body, _FAULT_DOMAINS, int, limits.FAULT_DOMAINS)
    if not 1 <= count <= _FAULT_DOMAINS_MAX:
        text = f"a whole number from 1 to {_FAULT_DOMAINS_MAX}"
        raise documents.invalid_value(_FAULT_DOMAINS, count, text)
    return count
