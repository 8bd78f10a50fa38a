"""Machines that a user creates by themselves and adds to a Flexible scale set (C6)."""

from collections.abc import Mapping

from fairwarning.core import limits
from fairwarning.core.commands import JoinSet
from fairwarning.core.errors import Conflict, Refused
from fairwarning.core.growing import add_to
from fairwarning.core.messages import AddInstances
from fairwarning.core.model import Machine, ScaleSet, Scope
from fairwarning.core.record import changed


def group_with_room(scale_set: ScaleSet, groups: Mapping[str, Scope]) -> str:
    """Return the placement group of the next machine: the first one with room, or a new one."""
    most = limits.PLACEMENT_GROUP_MACHINES
    for name in scale_set.groups:
        if name not in groups or len(groups[name].machines) < most:
            return name
    return f"{scale_set.id}/{len(scale_set.groups)}"


def join(
    scale_set: ScaleSet, command: JoinSet, groups: Mapping[str, Scope]
) -> tuple[ScaleSet, AddInstances]:
    """Add a machine to a set; it counts as an instance and keeps its name."""
    _check(scale_set, command.machine.name, groups)
    scope = group_with_room(scale_set, groups)
    if scope != command.scope:
        raise Conflict("Changed", f"scale set {scale_set.name!r} changed meanwhile; read it again")
    placed = _place(scale_set, command.machine, groups.get(scope))
    joined = changed(placed, resource=command.resource)
    names = scale_set.groups if scope in scale_set.groups else (*scale_set.groups, scope)
    grown = changed(scale_set, next_instance=scale_set.next_instance + 1, groups=names)
    return grown, add_to(scale_set, groups, scope, (joined,))


def _check(scale_set: ScaleSet, name: str, groups: Mapping[str, Scope]) -> None:
    if not scale_set.flexible:
        raise Refused("NotFlexible", f"scale set {scale_set.name!r} is not Flexible")
    if sum(len(scope.machines) for scope in groups.values()) >= limits.SET_INSTANCES:
        raise Conflict("SetFull", f"a scale set has at most {limits.SET_INSTANCES} instances")
    if _is_numbered(scale_set, name) or any(name in scope.machines for scope in groups.values()):
        raise Conflict("MachineExists", f"the name {name!r} is for another instance of the set")


def _is_numbered(scale_set: ScaleSet, name: str) -> bool:
    """Whether a name is one that the set gives to its instances, now or later."""
    prefix = f"{scale_set.name}_".lower()
    return name.lower().startswith(prefix) and name[len(prefix) :].isdigit()


def _place(scale_set: ScaleSet, machine: Machine, scope: Scope | None) -> Machine:
    used = [member.update_domain for member in scope.machines.values()] if scope else []
    return changed(
        machine,
        update_domain=min(range(scale_set.update_domains), key=used.count),
        fault_domain=scale_set.next_instance % scale_set.fault_domains,
        instance=scale_set.next_instance,
    )
