"""Machines, scale sets and their instances, availability sets, cloud services."""

from fairwarning.arm.schema.compute_parts import (
    APPLICATION_PROFILE,
    BILLING_PROFILE,
    CAPABILITIES,
    CAPACITY_RESERVATION,
    DIAGNOSTICS_PROFILE,
    EVENTS_POLICY,
    EVENTS_PROFILE,
    EVICTION,
    EXTENSION,
    HARDWARE_PROFILE,
    INTERCONNECT_BLOCK,
    INTERCONNECT_GROUP,
    INTERFACE_CONFIGURATIONS,
    NETWORK_PROFILE,
    OS_PROFILE,
    PRIORITY,
    SECURITY_PROFILE,
    SKU,
    STORAGE_PROFILE,
)
from fairwarning.arm.schema.resource import resource
from fairwarning.arm.schema.values import (
    ANY,
    FLAG,
    REFERENCE,
    REFERENCES,
    TEXT,
    TEXTS,
    ListOf,
    closed_words,
    shape,
    words,
)

_PLACEMENT = shape(zonePlacementPolicy=words("Any Auto"), includeZones=TEXTS, excludeZones=TEXTS)
_ENABLED = shape(flags="enabled")

MACHINE = resource(
    shape(
        text="licenseType userData extensionsTimeBudget provisioningState vmId timeCreated",
        numbers="platformFaultDomain",
        hardwareProfile=HARDWARE_PROFILE,
        storageProfile=STORAGE_PROFILE,
        osProfile=OS_PROFILE,
        networkProfile=NETWORK_PROFILE,
        securityProfile=SECURITY_PROFILE,
        diagnosticsProfile=DIAGNOSTICS_PROFILE,
        additionalCapabilities=CAPABILITIES,
        availabilitySet=REFERENCE,
        virtualMachineScaleSet=REFERENCE,
        proximityPlacementGroup=REFERENCE,
        host=REFERENCE,
        hostGroup=REFERENCE,
        priority=PRIORITY,
        evictionPolicy=EVICTION,
        billingProfile=BILLING_PROFILE,
        scheduledEventsProfile=EVENTS_PROFILE,
        scheduledEventsPolicy=EVENTS_POLICY,
        capacityReservation=CAPACITY_RESERVATION,
        applicationProfile=APPLICATION_PROFILE,
        flexProfile=shape(text="preferredVMSize"),
        interconnectBlockProfile=INTERCONNECT_BLOCK,
        resiliencyProfile=shape(zoneMovement=shape(flags="isEnabled")),
        instanceView=ANY,
    ),
    resources=ListOf(EXTENSION),
    placement=_PLACEMENT,
)

_MODEL = shape(
    text="licenseType userData timeCreated",
    hardwareProfile=HARDWARE_PROFILE,
    storageProfile=STORAGE_PROFILE,
    osProfile=OS_PROFILE,
    networkProfile=NETWORK_PROFILE,
    securityProfile=SECURITY_PROFILE,
    diagnosticsProfile=DIAGNOSTICS_PROFILE,
    extensionProfile=shape(text="extensionsTimeBudget", extensions=ListOf(EXTENSION)),
    priority=PRIORITY,
    evictionPolicy=EVICTION,
    billingProfile=BILLING_PROFILE,
    scheduledEventsProfile=EVENTS_PROFILE,
    capacityReservation=CAPACITY_RESERVATION,
    applicationProfile=APPLICATION_PROFILE,
    interconnectBlockProfile=INTERCONNECT_BLOCK,
    serviceArtifactReference=REFERENCE,
    securityPostureReference=shape(text="id", flags="isOverridable", excludeExtensions=TEXTS),
)
# Api-versions of 2017 and 2018 have automaticOSUpgrade and autoOSUpgradePolicy.
_UPGRADE_POLICY = shape(
    exact=True,
    mode=closed_words("Automatic Manual Rolling"),
    rollingUpgradePolicy=shape(
        text="pauseTimeBetweenBatches",
        flags="enableCrossZoneUpgrade prioritizeUnhealthyInstances "
        "rollbackFailedInstancesOnPolicyBreach maxSurge",
        numbers="maxBatchInstancePercent maxUnhealthyInstancePercent "
        "maxUnhealthyUpgradedInstancePercent",
        exact=True,
    ),
    automaticOSUpgradePolicy=shape(
        flags="enableAutomaticOSUpgrade disableAutomaticRollback useRollingUpgradePolicy "
        "osRollingUpgradeDeferral",
        exact=True,
    ),
    autoOSUpgradePolicy=shape(flags="disableAutoRollback", exact=True),
    automaticOSUpgrade=FLAG,
)
_RESILIENCY = shape(
    resilientVMCreationPolicy=_ENABLED,
    resilientVMDeletionPolicy=_ENABLED,
    automaticZoneRebalancingPolicy=shape(
        flags="enabled",
        rebalanceStrategy=words("Recreate"),
        rebalanceBehavior=words("CreateBeforeDelete"),
    ),
    zoneAllocationPolicy=shape(
        numbers="maxZoneCount",
        maxInstancePercentPerZonePolicy=shape(flags="enabled", numbers="value"),
    ),
    operationRecoverySettings=shape(
        restartRecoveryPolicy=_ENABLED,
        startRecoveryPolicy=_ENABLED,
        reimageRecoveryPolicy=_ENABLED,
    ),
)
SCALE_SET = resource(
    shape(
        text="provisioningState uniqueId timeCreated",
        flags="overprovision doNotRunExtensionsOnOverprovisionedVMs singlePlacementGroup "
        "zoneBalance constrainedMaximumCapacity",
        numbers="platformFaultDomainCount",
        orchestrationMode=closed_words("Uniform Flexible"),
        upgradePolicy=_UPGRADE_POLICY,
        scaleInPolicy=shape(
            flags="forceDeletion prioritizeUnhealthyVMs",
            rules=ListOf(closed_words("Default OldestVM NewestVM")),
            exact=True,
        ),
        virtualMachineProfile=_MODEL,
        scheduledEventsPolicy=EVENTS_POLICY,
        automaticRepairsPolicy=shape(
            text="gracePeriod", flags="enabled", repairAction=words("Replace Restart Reimage")
        ),
        spotRestorePolicy=shape(text="restoreTimeout", flags="enabled"),
        priorityMixPolicy=shape(
            numbers="baseRegularPriorityCount regularPriorityPercentageAboveBase"
        ),
        resiliencyPolicy=_RESILIENCY,
        skuProfile=shape(
            vmSizes=ListOf(shape(text="name", numbers="rank")),
            allocationStrategy=words("LowestPrice CapacityOptimized Prioritized"),
            automaticSkuMigrationPolicy=_ENABLED,
        ),
        highSpeedInterconnectPlacement=words("None Trunk"),
        lifecycleHooksProfile=shape(
            lifecycleHooks=ListOf(
                shape(
                    text="waitDuration",
                    type=words("UpgradeAutoOSScheduling UpgradeAutoOSRollingBatchStarting"),
                    defaultAction=words("Approve Reject"),
                )
            )
        ),
        externalHealthPolicy=shape(text="expiryDuration gracePeriod", flags="enabled"),
        zonalPlatformFaultDomainAlignMode=words("Aligned Unaligned BestEffortAligned"),
        proximityPlacementGroup=REFERENCE,
        hostGroup=REFERENCE,
        additionalCapabilities=CAPABILITIES,
    ),
    sku=SKU,
    placement=_PLACEMENT,
)

INSTANCE = resource(
    shape(
        text="licenseType userData provisioningState vmId modelDefinitionApplied timeCreated "
        "virtualMachineResourceId",
        resilientVMDeletionStatus=words("Enabled Disabled InProgress Failed"),
        flags="latestModelApplied",
        protectionPolicy=shape(flags="protectFromScaleIn protectFromScaleSetActions", exact=True),
        hardwareProfile=HARDWARE_PROFILE,
        storageProfile=STORAGE_PROFILE,
        osProfile=OS_PROFILE,
        networkProfile=NETWORK_PROFILE,
        networkProfileConfiguration=shape(
            networkInterfaceConfigurations=INTERFACE_CONFIGURATIONS,
            interconnectGroupProfile=INTERCONNECT_GROUP,
        ),
        interconnectBlockProfile=INTERCONNECT_BLOCK,
        securityProfile=SECURITY_PROFILE,
        diagnosticsProfile=DIAGNOSTICS_PROFILE,
        additionalCapabilities=CAPABILITIES,
        availabilitySet=REFERENCE,
        capacityReservation=CAPACITY_RESERVATION,
        instanceView=ANY,
    ),
    sku=SKU,
    resources=ListOf(EXTENSION),
    instanceId=TEXT,
)

AVAILABILITY_SET = resource(
    shape(
        numbers="platformUpdateDomainCount platformFaultDomainCount",
        virtualMachines=REFERENCES,
        proximityPlacementGroup=REFERENCE,
        scheduledEventsPolicy=EVENTS_POLICY,
        virtualMachineScaleSetMigrationInfo=shape(
            migrateToVirtualMachineScaleSet=REFERENCE,
            defaultVirtualMachineScaleSetInfo=shape(
                flags="constrainedMaximumCapacity", defaultVirtualMachineScaleSet=REFERENCE
            ),
        ),
        statuses=ANY,
    ),
    sku=SKU,
)

CLOUD_SERVICE = resource(
    shape(
        text="packageUrl configuration configurationUrl provisioningState uniqueId",
        flags="startCloudService allowModelOverride",
        upgradeMode=words("Auto Manual Simultaneous"),
        roleProfile=shape(roles=ListOf(shape(text="name", sku=SKU)), exact=True),
        osProfile=OS_PROFILE,
        networkProfile=shape(
            slotType=words("Production Staging"),
            swappableCloudService=REFERENCE,
            loadBalancerConfigurations=ListOf(
                shape(
                    text="id name",
                    properties=shape(
                        frontendIpConfigurations=ListOf(
                            shape(
                                text="name",
                                properties=shape(
                                    text="privateIPAddress",
                                    publicIPAddress=REFERENCE,
                                    subnet=REFERENCE,
                                ),
                            )
                        )
                    ),
                )
            ),
        ),
        extensionProfile=shape(
            extensions=ListOf(
                shape(
                    text="name",
                    properties=shape(
                        text="publisher type typeHandlerVersion forceUpdateTag provisioningState",
                        flags="autoUpgradeMinorVersion",
                        rolesAppliedTo=TEXTS,
                        settings=ANY,
                    ),
                )
            )
        ),
    )
)
