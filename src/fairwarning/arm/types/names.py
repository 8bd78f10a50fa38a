"""The names of the resource types that others refer to."""

from fairwarning.service.resources import AVAILABILITY_SET, GROUP, INSTANCE, MACHINE, SCALE_SET

DISK = "Microsoft.Compute/disks"
INTERFACE = "Microsoft.Network/networkInterfaces"
LOAD_BALANCER = "Microsoft.Network/loadBalancers"
NAT_RULE = f"{LOAD_BALANCER}/inboundNatRules"
NETWORK = "Microsoft.Network/virtualNetworks"
SUBNET = f"{NETWORK}/subnets"
PUBLIC_ADDRESS = "Microsoft.Network/publicIPAddresses"
DEPLOYMENT = "Microsoft.Resources/deployments"
LOCKS = "Microsoft.Authorization/locks"

__all__ = [
    "AVAILABILITY_SET", "DEPLOYMENT", "DISK", "GROUP", "INSTANCE", "INTERFACE", "LOAD_BALANCER",
    "LOCKS", "MACHINE", "NAT_RULE", "NETWORK", "PUBLIC_ADDRESS", "SCALE_SET", "SUBNET",
]  # fmt: skip
