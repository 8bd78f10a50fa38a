"""The Azure ids of instances of scale sets, and of their network interfaces.

An instance of a Flexible set is a machine of the group, and its interfaces are interfaces of the
group. Everything of an instance of a Uniform set is nested in the set.
"""

from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.names import INSTANCE, INTERFACE, MACHINE
from fairwarning.core.model import Machine, Resource, ScaleSet


def machine_id(context: ArmContext, owner: Resource, scale_set: ScaleSet, machine: Machine) -> str:
    """Return the Azure id of an instance of the set that `owner` describes."""
    if scale_set.flexible:
        return context.arm_id(MACHINE, owner.group, machine.name)
    return context.arm_id(INSTANCE, owner.group, f"{owner.name}/{machine.instance}")


def interface_id(
    context: ArmContext, owner: Resource, scale_set: ScaleSet, machine: Machine, name: str
) -> str:
    """Return the Azure id of an instance's interface; `name` is the one that the model has."""
    if scale_set.flexible:
        return context.arm_id(INTERFACE, owner.group, f"{machine.name}-{name}")
    return f"{machine_id(context, owner, scale_set, machine)}/networkInterfaces/{name}"
