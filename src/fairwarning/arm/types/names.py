"""The names of the resource types that others refer to."""

from fairwarning.service.resources import (
    AVAILABILITY_SET,
    GROUP,
    INSTANCE,
    MACHINE,
    SCALE_SET,
)

DISK = "Microsoft.Compute/disks"
INTERFACE = "Microsoft.Network/networkInterfaces"
LOAD_BALANCER = "Microsoft.Network/loadBalancers"
POOL = f"{LOAD_BALANCER}/backendAddressPools"
NAT_RULE = f"{LOAD_BALANCER}/inboundNatRules"
NAT_POOL = f"{LOAD_BALANCER}/inboundNatPools"
NETWORK = "Microsoft.Network/virtualNetworks"
SUBNET = f"{NETWORK}/subnets"
PROXIMITY_GROUP = "Microsoft.Compute/proximityPlacementGroups"
PUBLIC_ADDRESS = "Microsoft.Network/publicIPAddresses"
SECURITY_GROUP = "Microsoft.Network/networkSecurityGroups"
DEPLOYMENT = "Microsoft.Resources/deployments"
LOCKS = "Microsoft.Authorization/locks"

__all__ = [
    "AVAILABILITY_SET", "DEPLOYMENT", "DISK", "GROUP", "INSTANCE", "INTERFACE", "LOAD_BALANCER",
    "LOCKS", "MACHINE", "NAT_POOL", "NAT_RULE", "NETWORK", "POOL", "PROXIMITY_GROUP",
    "PUBLIC_ADDRESS", "SCALE_SET", "SECURITY_GROUP", "SUBNET",
]  # fmt: skip
