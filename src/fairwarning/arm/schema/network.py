"""Networks, security groups, addresses, interfaces and load balancers.

Tools read a resource and write it back with the resources that it refers to inside; of those only
the id is converted.
"""

from fairwarning.arm.schema.compute_parts import (
    ALLOCATION,
    AUXILIARY_MODE,
    AUXILIARY_SKU,
    DELETE_OPTION,
    IP_TAGS,
    IP_VERSION,
    LABEL_SCOPE,
)
from fairwarning.arm.schema.resource import resource
from fairwarning.arm.schema.values import (
    ANY,
    REFERENCE,
    REFERENCES,
    STRING,
    TEXTS,
    ListOf,
    Shape,
    ValueType,
    shape,
    words,
)

_PART = shape(text="id type etag", name=STRING)


def part(properties: Shape, **others: ValueType) -> Shape:
    """Return a named part of a resource: a subnet, a rule."""
    return Shape({**_PART.members, "properties": properties, **others})


_ENABLED = words("Enabled Disabled")
_ADDRESS_SPACE = shape(addressPrefixes=TEXTS, ipamPoolPrefixAllocations=ANY)

# --- Networks and security groups -----------------------------------------------------------------

SUBNET = part(
    shape(
        text="addressPrefix purpose provisioningState",
        flags="defaultOutboundAccess",
        addressPrefixes=TEXTS,
        networkSecurityGroup=REFERENCE,
        routeTable=REFERENCE,
        natGateway=REFERENCE,
        serviceEndpoints=ListOf(
            shape(text="service provisioningState", networkIdentifier=REFERENCE, locations=TEXTS)
        ),
        delegations=ListOf(part(shape(text="serviceName provisioningState", actions=TEXTS))),
        ipConfigurations=REFERENCES,
        privateEndpoints=REFERENCES,
        privateEndpointNetworkPolicies=words(
            "Enabled Disabled NetworkSecurityGroupEnabled RouteTableEnabled"
        ),
        privateLinkServiceNetworkPolicies=_ENABLED,
        sharingScope=words("Tenant DelegatedServices"),
    )
)
_PEERING = part(
    shape(
        text="provisioningState resourceGuid",
        flags="allowVirtualNetworkAccess allowForwardedTraffic allowGatewayTransit "
        "useRemoteGateways doNotVerifyRemoteGateways peerCompleteVnets enableOnlyIPv6Peering",
        remoteVirtualNetwork=REFERENCE,
        remoteAddressSpace=_ADDRESS_SPACE,
        remoteVirtualNetworkAddressSpace=_ADDRESS_SPACE,
        peeringState=words("Initiated Connected Disconnected"),
        localSubnetNames=TEXTS,
        remoteSubnetNames=TEXTS,
    )
)
NETWORK = resource(
    shape(
        text="resourceGuid provisioningState",
        flags="enableDdosProtection enableVmProtection",
        numbers="flowTimeoutInMinutes",
        addressSpace=_ADDRESS_SPACE,
        dhcpOptions=shape(dnsServers=TEXTS),
        subnets=ListOf(SUBNET),
        virtualNetworkPeerings=ListOf(_PEERING),
        ddosProtectionPlan=REFERENCE,
        bgpCommunities=shape(text="virtualNetworkCommunity regionalCommunity"),
        encryption=shape(flags="enabled", enforcement=words("DropUnencrypted AllowUnencrypted")),
        privateEndpointVNetPolicies=words("Disabled Basic"),
    )
)
SECURITY_RULE = part(
    shape(
        text="description sourcePortRange destinationPortRange sourceAddressPrefix "
        "destinationAddressPrefix provisioningState",
        numbers="priority",
        protocol=words("Tcp Udp Icmp Esp Ah *"),
        access=words("Allow Deny"),
        direction=words("Inbound Outbound"),
        sourceAddressPrefixes=TEXTS,
        destinationAddressPrefixes=TEXTS,
        sourcePortRanges=TEXTS,
        destinationPortRanges=TEXTS,
        sourceApplicationSecurityGroups=REFERENCES,
        destinationApplicationSecurityGroups=REFERENCES,
    )
)
SECURITY_GROUP = resource(
    shape(
        text="resourceGuid provisioningState",
        flags="flushConnection",
        securityRules=ListOf(SECURITY_RULE),
        defaultSecurityRules=ListOf(SECURITY_RULE),
        networkInterfaces=REFERENCES,
        subnets=REFERENCES,
    )
)

# --- Addresses and interfaces ---------------------------------------------------------------------

PUBLIC_ADDRESS = resource(
    shape(
        text="ipAddress resourceGuid provisioningState",
        numbers="idleTimeoutInMinutes",
        publicIPAllocationMethod=ALLOCATION,
        publicIPAddressVersion=IP_VERSION,
        ipConfiguration=REFERENCE,
        dnsSettings=shape(
            text="domainNameLabel fqdn reverseFqdn", domainNameLabelScope=LABEL_SCOPE
        ),
        ddosSettings=shape(
            protectionMode=words("VirtualNetworkInherited Enabled Disabled"),
            ddosProtectionPlan=REFERENCE,
        ),
        ipTags=IP_TAGS,
        publicIPPrefix=REFERENCE,
        natGateway=REFERENCE,
        deleteOption=DELETE_OPTION,
    ),
    sku=shape(name=words("Basic Standard StandardV2"), tier=words("Regional Global")),
)
_CONFIGURATION = part(
    shape(
        text="privateIPAddress provisioningState",
        flags="primary",
        numbers="privateIPAddressPrefixLength",
        privateIPAllocationMethod=ALLOCATION,
        privateIPAddressVersion=IP_VERSION,
        subnet=REFERENCE,
        publicIPAddress=REFERENCE,
        gatewayLoadBalancer=REFERENCE,
        applicationSecurityGroups=REFERENCES,
        applicationGatewayBackendAddressPools=REFERENCES,
        loadBalancerBackendAddressPools=REFERENCES,
        loadBalancerInboundNatRules=REFERENCES,
    )
)
INTERFACE = resource(
    shape(
        text="macAddress workloadType resourceGuid provisioningState",
        flags="primary vnetEncryptionSupported enableAcceleratedNetworking "
        "disableTcpStateTracking enableIPForwarding",
        virtualMachine=REFERENCE,
        networkSecurityGroup=REFERENCE,
        ipConfigurations=ListOf(_CONFIGURATION),
        dnsSettings=shape(
            text="internalDnsNameLabel internalFqdn internalDomainNameSuffix",
            dnsServers=TEXTS,
            appliedDnsServers=TEXTS,
        ),
        hostedWorkloads=TEXTS,
        dscpConfiguration=REFERENCE,
        nicType=words("Standard Elastic"),
        auxiliaryMode=AUXILIARY_MODE,
        auxiliarySku=AUXILIARY_SKU,
    )
)

# --- Load balancers -------------------------------------------------------------------------------

_PROTOCOL = words("Udp Tcp All Quic")
_RULE_FLAGS = "enableFloatingIP enableTcpReset"
_FRONTEND = part(
    shape(
        text="privateIPAddress provisioningState",
        privateIPAllocationMethod=ALLOCATION,
        privateIPAddressVersion=IP_VERSION,
        subnet=REFERENCE,
        publicIPAddress=REFERENCE,
        publicIPPrefix=REFERENCE,
        gatewayLoadBalancer=REFERENCE,
        inboundNatRules=REFERENCES,
        inboundNatPools=REFERENCES,
        outboundRules=REFERENCES,
        loadBalancingRules=REFERENCES,
    ),
    zones=TEXTS,
)
_BACKEND = part(
    shape(
        text="location provisioningState",
        numbers="drainPeriodInSeconds",
        backendIPConfigurations=REFERENCES,
        loadBalancingRules=REFERENCES,
        outboundRules=REFERENCES,
        inboundNatRules=REFERENCES,
        outboundRule=REFERENCE,
        virtualNetwork=REFERENCE,
        syncMode=words("Automatic Manual"),
        loadBalancerBackendAddresses=ListOf(
            shape(
                text="name",
                properties=shape(
                    text="ipAddress",
                    virtualNetwork=REFERENCE,
                    subnet=REFERENCE,
                    networkInterfaceIPConfiguration=REFERENCE,
                    adminState=words("None Up Down"),
                ),
            )
        ),
    )
)
_PROBE = part(
    shape(
        text="requestPath provisioningState",
        numbers="port intervalInSeconds numberOfProbes probeThreshold",
        protocol=words("Http Tcp Https"),
        loadBalancingRules=REFERENCES,
    )
)
_BALANCING_RULE = part(
    shape(
        text="provisioningState",
        flags=f"{_RULE_FLAGS} disableOutboundSnat enableConnectionTracking",
        numbers="frontendPort backendPort idleTimeoutInMinutes",
        frontendIPConfiguration=REFERENCE,
        backendAddressPool=REFERENCE,
        backendAddressPools=REFERENCES,
        probe=REFERENCE,
        protocol=_PROTOCOL,
        loadDistribution=words("Default SourceIP SourceIPProtocol"),
    )
)
NAT_RULE = part(
    shape(
        text="provisioningState",
        flags=_RULE_FLAGS,
        numbers="frontendPort backendPort idleTimeoutInMinutes frontendPortRangeStart "
        "frontendPortRangeEnd",
        frontendIPConfiguration=REFERENCE,
        backendIPConfiguration=REFERENCE,
        backendAddressPool=REFERENCE,
        protocol=_PROTOCOL,
    )
)
_OUTBOUND_RULE = part(
    shape(
        text="provisioningState",
        flags="enableTcpReset",
        numbers="allocatedOutboundPorts idleTimeoutInMinutes",
        frontendIPConfigurations=REFERENCES,
        backendAddressPool=REFERENCE,
        protocol=_PROTOCOL,
    )
)
LOAD_BALANCER = resource(
    shape(
        text="resourceGuid provisioningState",
        frontendIPConfigurations=ListOf(_FRONTEND),
        backendAddressPools=ListOf(_BACKEND),
        probes=ListOf(_PROBE),
        loadBalancingRules=ListOf(_BALANCING_RULE),
        inboundNatRules=ListOf(NAT_RULE),
        inboundNatPools=ListOf(NAT_RULE),
        outboundRules=ListOf(_OUTBOUND_RULE),
        scope=words("Public Private"),
    ),
    sku=shape(name=words("Basic Standard Gateway Service"), tier=words("Regional Global")),
)
