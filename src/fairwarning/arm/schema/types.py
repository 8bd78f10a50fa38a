"""The shape of each resource type, and the conversion of what clients send to it."""

from collections.abc import Mapping
from typing import Any

from fairwarning.arm.schema import machines, network, storage
from fairwarning.arm.schema.resource import resource
from fairwarning.arm.schema.values import Shape, shape

SHAPES: Mapping[str, Shape] = {
    "Microsoft.Compute/availabilitySets": machines.AVAILABILITY_SET,
    "Microsoft.Compute/cloudServices": machines.CLOUD_SERVICE,
    "Microsoft.Compute/disks": storage.DISK,
    "Microsoft.Compute/images": storage.IMAGE,
    "Microsoft.Compute/proximityPlacementGroups": storage.PLACEMENT_GROUP,
    "Microsoft.Compute/sshPublicKeys": storage.PUBLIC_KEY,
    "Microsoft.Compute/virtualMachines": machines.MACHINE,
    "Microsoft.Compute/virtualMachineScaleSets": machines.SCALE_SET,
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines": machines.INSTANCE,
    "Microsoft.Network/loadBalancers": network.LOAD_BALANCER,
    "Microsoft.Network/loadBalancers/inboundNatRules": network.NAT_RULE,
    "Microsoft.Network/networkInterfaces": network.INTERFACE,
    "Microsoft.Network/networkSecurityGroups": network.SECURITY_GROUP,
    "Microsoft.Network/networkSecurityGroups/securityRules": network.SECURITY_RULE,
    "Microsoft.Network/publicIPAddresses": network.PUBLIC_ADDRESS,
    "Microsoft.Network/virtualNetworks": network.NETWORK,
    "Microsoft.Network/virtualNetworks/subnets": network.SUBNET,
    "Microsoft.Resources/resourceGroups": resource(shape(text="provisioningState")),
}
"""By resource type, in Azure's case."""

_BY_LOWER_CASE = {kind.lower(): shape for kind, shape in SHAPES.items()}


def normalize(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with names, words and values in Azure's form (C6).

    The same body is returned for a resource type without a shape. Unknown members are kept, except
    in the parts that the service acts on.
    """
    known = _BY_LOWER_CASE.get(kind.lower())
    return known.convert(body, "") if known else body
