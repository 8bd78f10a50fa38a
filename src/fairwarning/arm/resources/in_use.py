"""Refusals to delete what is in use, with Azure's codes and texts."""

from collections.abc import Callable, Mapping

from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources.references import (
    DISK,
    INTERFACE,
    NETWORK,
    PROXIMITY_GROUP,
    PUBLIC_ADDRESS,
    SECURITY_GROUP,
)

_NAMED = 10  # users in one text


def _interface(document: Body) -> ArmError | None:
    user = document["properties"].get("virtualMachine")
    if user is None:
        return None
    return ArmError(
        "NicInUse",
        f"Network Interface {document['id']} is used by existing resource {user['id']}. In order "
        "to delete the network interface, it must be dissociated from the resource. To learn more, "
        "see aka.ms/deletenic.",
    )


def _public_address(document: Body) -> ArmError | None:
    user = document["properties"].get("ipConfiguration")
    if user is None:
        return None
    return ArmError(
        "PublicIPAddressCannotBeDeleted",
        f"Public IP address {document['id']} can not be deleted since it is still allocated to "
        f"resource {user['id']}. In order to delete the public IP, disassociate/detach the Public "
        "IP address from the resource. To learn how to do this, see aka.ms/deletepublicip.",
    )


def _disk(document: Body) -> ArmError | None:
    user = document.get("managedBy")
    if user is None:
        return None
    text = f"Disk {document['name']} is attached to VM {user}."
    return ArmError("OperationNotAllowed", text, 409)


def subnet_in_use(document: Body) -> ArmError | None:
    """The error for deleting a subnet that is in use, from its document; None if it is not."""
    users = document["properties"].get("ipConfigurations")
    if users is None:
        return None
    return ArmError(
        "InUseSubnetCannotBeDeleted",
        f"Subnet {document['name']} is in use by {_ids(users)} and cannot be deleted. In order to "
        "delete the subnet, delete all the resources within the subnet. See aka.ms/deletesubnet.",
    )


def _network(document: Body) -> ArmError | None:
    refusals = map(subnet_in_use, document["properties"]["subnets"])
    return next((refusal for refusal in refusals if refusal), None)


def _security_group(document: Body) -> ArmError | None:
    properties = document["properties"]
    users = [*properties.get("networkInterfaces", ()), *properties.get("subnets", ())]
    if not users:
        return None
    return ArmError(
        "InUseNetworkSecurityGroupCannotBeDeleted",
        f"Network security group {document['id']} cannot be deleted because it is in use by the "
        f"following resources: {_ids(users)}. In order to delete the Network security group, "
        "remove the association with the resource(s). To learn how to do this, see "
        "aka.ms/deletensg.",
    )


def _proximity_group(document: Body) -> ArmError | None:
    members = ("virtualMachines", "virtualMachineScaleSets", "availabilitySets")
    users = [user for member in members for user in document["properties"].get(member, ())]
    if not users:
        return None
    text = (
        f"Proximity placement group {document['name']} cannot be deleted because it is in use by "
        f"{_ids(users)}. Delete these resources first."
    )
    return ArmError("OperationNotAllowed", text, 409)


def _ids(users: list[Body]) -> str:
    named = ", ".join(user["id"] for user in users[:_NAMED])
    more = len(users) - _NAMED
    return f"{named} and {more} more" if more > 0 else named


_REFUSALS: Mapping[str, Callable[[Body], ArmError | None]] = {
    INTERFACE: _interface,
    PUBLIC_ADDRESS: _public_address,
    DISK: _disk,
    NETWORK: _network,
    SECURITY_GROUP: _security_group,
    PROXIMITY_GROUP: _proximity_group,
}


def check(kind: str, document: Body) -> None:
    """Refuse to delete a resource whose document shows that it is in use."""
    refusal = _REFUSALS[kind](document) if kind in _REFUSALS else None
    if refusal:
        raise refusal
