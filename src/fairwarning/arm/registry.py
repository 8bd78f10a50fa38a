"""All resource types that have a record. Any other type is only stored (`types/stored.py`)."""

from dataclasses import replace
from functools import partial

from fairwarning.arm.compute import (
    availability,
    disks,
    instances,
    machines,
    scale_sets,
    set_network,
)
from fairwarning.arm.network import addresses, interfaces, load_balancers
from fairwarning.arm.resources import deployments, locks, tags
from fairwarning.arm.types.names import INTERFACE, LOAD_BALANCER, NETWORK, PUBLIC_ADDRESS
from fairwarning.arm.types.resource_type import ResourceType, ResourceTypes

_OF_INSTANCES = (
    ResourceType(
        name=INTERFACE,
        purpose="gives a machine its private address",
        parts=("ipConfigurations",),
        plan=interfaces.plan,
        complete=interfaces.complete,
    ),
    ResourceType(
        name=PUBLIC_ADDRESS,
        purpose="is an address of a range for documentation, which no host has",
        plan=addresses.plan,
    ),
)
"""The types of resources that instances of Flexible sets have, too."""

TYPES = ResourceTypes(
    (
        machines.TYPE,
        scale_sets.TYPE,
        instances.TYPE,
        availability.TYPE,
        disks.TYPE,
        *(
            replace(
                kind,
                get=partial(set_network.get_with_instances, kind),
                list=partial(set_network.list_with_instances, kind),
                exists=partial(set_network.find, kind),
            )
            for kind in _OF_INSTANCES
        ),
        ResourceType(
            name=NETWORK,
            purpose="has the subnets that machines get their addresses from",
            parts=("subnets", "virtualNetworkPeerings"),
            nested=("subnets", "virtualNetworkPeerings"),
        ),
        ResourceType(
            name=LOAD_BALANCER,
            purpose="is stored, and names its users; no traffic is balanced",
            parts=(
                "frontendIPConfigurations", "backendAddressPools", "probes", "loadBalancingRules",
                "inboundNatRules", "inboundNatPools", "outboundRules",
            ),
            nested=("backendAddressPools", "inboundNatRules"),
            plan=load_balancers.plan,
            complete=load_balancers.complete,
        ),
        deployments.TYPE,
        locks.TYPE,
        tags.TYPE,
    )
)  # fmt: skip
