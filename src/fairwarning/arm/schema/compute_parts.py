"""Parts that machines, scale sets and their instances share."""

from fairwarning.arm.schema.values import (
    ANY,
    DECIMAL,
    REFERENCE,
    REFERENCES,
    TEXT,
    TEXTS,
    ListOf,
    MapOf,
    Words,
    closed_words,
    shape,
    words,
)

# --- What the service acts on ---------------------------------------------------------------------

PRIORITY = closed_words("Regular Spot Low")
EVICTION = closed_words("Deallocate Delete")
_NOTIFICATION = shape(text="notBeforeTimeout", flags="enable", exact=True)
EVENTS_PROFILE = shape(
    exact=True,
    terminateNotificationProfile=_NOTIFICATION,
    osImageNotificationProfile=_NOTIFICATION,
)
_APPROVAL = shape(flags="automaticallyApprove", exact=True)
EVENTS_POLICY = shape(
    exact=True,
    userInitiatedReboot=_APPROVAL,
    userInitiatedRedeploy=_APPROVAL,
    allInstancesDown=_APPROVAL,
    scheduledEventsAdditionalPublishingTargets=shape(
        eventGridAndResourceGraph=shape(
            text="scheduledEventsApiVersion", flags="enable", exact=True
        ),
        exact=True,
    ),
)
SKU = shape(text="name tier", numbers="capacity", exact=True)

# --- Disks ----------------------------------------------------------------------------------------

OS_TYPE = words("Windows Linux")
CACHING = words("None ReadOnly ReadWrite")
STORAGE = words(
    "Standard_LRS Premium_LRS StandardSSD_LRS UltraSSD_LRS Premium_ZRS StandardSSD_ZRS "
    "PremiumV2_LRS"
)
GENERATION = words("V1 V2")
DELETE_OPTION = words("Delete Detach")
_CREATE_OPTION = words("FromImage Empty Attach Copy Restore")
_ALIGNMENT = words("Aligned BestEffortAligned")
DELAY_ACTION = words("None AutomaticReattach")
NETWORK_ACCESS = words("AllowAll AllowPrivate DenyAll")
_FILE = shape(text="uri")
_DISK_PROPERTIES = shape(
    text="tier diskAccessId",
    flags="burstingEnabled performancePlus optimizedForFrequentAttach",
    numbers="maxShares diskIOPSReadOnly diskMBpsReadOnly logicalSectorSize",
    availabilityPolicy=shape(actionOnDiskDelay=DELAY_ACTION),
    networkAccessPolicy=NETWORK_ACCESS,
)
_MANAGED_DISK = shape(
    text="id",
    storageAccountType=STORAGE,
    diskEncryptionSet=REFERENCE,
    additionalDiskProperties=shape(managedDiskProperties=_DISK_PROPERTIES),
    securityProfile=shape(
        securityEncryptionType=words("VMGuestStateOnly DiskWithVMGuestState NonPersistedTPM"),
        diskEncryptionSet=REFERENCE,
    ),
)
_ENCRYPTION = shape(
    flags="enabled",
    diskEncryptionKey=shape(text="secretUrl", sourceVault=REFERENCE),
    keyEncryptionKey=shape(text="keyUrl", sourceVault=REFERENCE),
)
STORAGE_PROFILE = shape(
    text="diskApiVersion",
    flags="alignRegionalDisksToVMZone",
    imageReference=shape(
        text="id publisher offer sku version exactVersion sharedGalleryImageId "
        "communityGalleryImageId"
    ),
    osDisk=shape(
        text="name",
        flags="writeAcceleratorEnabled",
        numbers="diskSizeGB",
        osType=OS_TYPE,
        caching=CACHING,
        createOption=_CREATE_OPTION,
        deleteOption=DELETE_OPTION,
        storageFaultDomainAlignment=_ALIGNMENT,
        diffDiskSettings=shape(
            flags="enableFullCaching",
            option=words("Local"),
            placement=words("CacheDisk ResourceDisk NvmeDisk"),
        ),
        encryptionSettings=_ENCRYPTION,
        vhd=_FILE,
        image=_FILE,
        vhdContainers=TEXTS,
        managedDisk=_MANAGED_DISK,
    ),
    dataDisks=ListOf(
        shape(
            text="name",
            flags="writeAcceleratorEnabled toBeDetached",
            numbers="lun diskSizeGB diskIOPSReadWrite diskMBpsReadWrite",
            caching=CACHING,
            createOption=_CREATE_OPTION,
            deleteOption=DELETE_OPTION,
            detachOption=words("ForceDetach"),
            storageFaultDomainAlignment=_ALIGNMENT,
            vhd=_FILE,
            image=_FILE,
            managedDisk=_MANAGED_DISK,
            sourceResource=REFERENCE,
        )
    ),
    diskControllerType=words("SCSI NVMe"),
)

# --- Operating system -----------------------------------------------------------------------------

_REBOOTS = shape(
    flags="bypassPlatformSafetyChecksOnUserSchedule",
    rebootSetting=words("Unknown IfRequired Never Always"),
)
_ASSESSMENT = words("ImageDefault AutomaticByPlatform")
OS_PROFILE = shape(
    text="computerName computerNamePrefix adminUsername adminPassword customData",
    flags="allowExtensionOperations requireGuestProvisionSignal",
    linuxConfiguration=shape(
        flags="disablePasswordAuthentication provisionVMAgent enableVMAgentPlatformUpdates",
        ssh=shape(publicKeys=ListOf(shape(text="path keyData"))),
        patchSettings=shape(
            patchMode=_ASSESSMENT, assessmentMode=_ASSESSMENT, automaticByPlatformSettings=_REBOOTS
        ),
    ),
    windowsConfiguration=shape(
        text="timeZone",
        flags="provisionVMAgent enableAutomaticUpdates enableVMAgentPlatformUpdates",
        additionalUnattendContent=ListOf(
            shape(
                text="content",
                passName=words("OobeSystem"),
                componentName=words("Microsoft-Windows-Shell-Setup"),
                settingName=words("AutoLogon FirstLogonCommands"),
            )
        ),
        patchSettings=shape(
            flags="enableHotpatching",
            patchMode=words("Manual AutomaticByOS AutomaticByPlatform"),
            assessmentMode=_ASSESSMENT,
            automaticByPlatformSettings=_REBOOTS,
        ),
        winRM=shape(listeners=ListOf(shape(text="certificateUrl", protocol=words("Http Https")))),
    ),
    secrets=ListOf(
        shape(
            sourceVault=REFERENCE,
            vaultCertificates=ListOf(shape(text="certificateUrl certificateStore")),
        )
    ),
)
HARDWARE_PROFILE = shape(
    text="vmSize",
    vmSizeProperties=shape(numbers="vCPUsAvailable vCPUsPerCore"),
    processorMode=words("Deterministic Opportunistic"),
)

# --- Network --------------------------------------------------------------------------------------

IP_VERSION = words("IPv4 IPv6")
ALLOCATION = words("Dynamic Static")
IP_TAGS = ListOf(shape(text="ipTagType tag firstPartyServiceTagId"))
LABEL_SCOPE = words("TenantReuse SubscriptionReuse ResourceGroupReuse NoReuse")
_PUBLIC_ADDRESS = shape(
    text="name",
    tags=MapOf(TEXT),
    sku=shape(name=words("Basic Standard"), tier=words("Regional Global")),
    properties=shape(
        numbers="idleTimeoutInMinutes",
        dnsSettings=shape(text="domainNameLabel", domainNameLabelScope=LABEL_SCOPE),
        ipTags=IP_TAGS,
        publicIPPrefix=REFERENCE,
        publicIPAddressVersion=IP_VERSION,
        publicIPAllocationMethod=ALLOCATION,
        deleteOption=DELETE_OPTION,
    ),
)
_IP_CONFIGURATION = shape(
    text="id name",
    properties=shape(
        flags="primary",
        numbers="privateIPAddressPrefixLength",
        subnet=REFERENCE,
        publicIPAddressConfiguration=_PUBLIC_ADDRESS,
        privateIPAddressVersion=IP_VERSION,
        applicationSecurityGroups=REFERENCES,
        applicationGatewayBackendAddressPools=REFERENCES,
        loadBalancerBackendAddressPools=REFERENCES,
        loadBalancerInboundNatPools=REFERENCES,
    ),
)
AUXILIARY_MODE = words("None AcceleratedConnections Floating MaxConnections")
AUXILIARY_SKU = words("None A1 A2 A4 A8")
INTERFACE_CONFIGURATIONS = ListOf(
    shape(
        text="id name",
        tags=MapOf(TEXT),
        properties=shape(
            flags="primary enableAcceleratedNetworking disableTcpStateTracking enableFpga "
            "enableIPForwarding",
            networkSecurityGroup=REFERENCE,
            dscpConfiguration=REFERENCE,
            dnsSettings=shape(dnsServers=TEXTS),
            ipConfigurations=ListOf(_IP_CONFIGURATION),
            deleteOption=DELETE_OPTION,
            auxiliaryMode=AUXILIARY_MODE,
            auxiliarySku=AUXILIARY_SKU,
        ),
    )
)
INTERCONNECT_GROUP = shape(interconnectGroup=REFERENCE, subgroups=REFERENCES)
NETWORK_PROFILE = shape(
    text="networkApiVersion",
    interconnectGroupProfile=INTERCONNECT_GROUP,
    healthProbe=REFERENCE,
    networkInterfaces=ListOf(
        shape(text="id", properties=shape(flags="primary", deleteOption=DELETE_OPTION))
    ),
    networkInterfaceConfigurations=INTERFACE_CONFIGURATIONS,
)

# --- Other parts ----------------------------------------------------------------------------------

_ENDPOINT = shape(
    text="inVMAccessControlProfileReferenceId",
    flags="useLocalFileRules",
    mode=words("Audit Enforce Disabled"),
)
SECURITY_PROFILE = shape(
    flags="encryptionAtHost",
    uefiSettings=shape(flags="secureBootEnabled vTpmEnabled"),
    securityType=words("Standard TrustedLaunch ConfidentialVM"),
    encryptionIdentity=shape(text="userAssignedIdentityResourceId"),
    proxyAgentSettings=shape(
        flags="enabled addProxyAgentExtension",
        numbers="keyIncarnationId",
        mode=words("Audit Enforce"),
        wireServer=_ENDPOINT,
        imds=_ENDPOINT,
    ),
)
DIAGNOSTICS_PROFILE = shape(bootDiagnostics=shape(text="storageUri", flags="enabled"))
BILLING_PROFILE = shape(maxPrice=DECIMAL)
CAPABILITIES = shape(flags="ultraSSDEnabled hibernationEnabled enableFips1403Encryption")
CAPACITY_RESERVATION = shape(
    flags="disableCapacityReservationAssignment", capacityReservationGroup=REFERENCE
)
INTERCONNECT_BLOCK = shape(interconnectBlock=REFERENCE)
APPLICATION_PROFILE = shape(
    galleryApplications=ListOf(
        shape(
            text="tags packageReferenceId configurationReference",
            flags="treatFailureAsDeploymentFailure enableAutomaticUpgrade",
            numbers="order",
        )
    )
)
EXTENSION = shape(
    text="id name type location",
    tags=MapOf(TEXT),
    properties=shape(
        text="forceUpdateTag publisher type typeHandlerVersion provisioningState",
        flags="autoUpgradeMinorVersion enableAutomaticUpgrade suppressFailures",
        provisionAfterExtensions=TEXTS,
        settings=ANY,
        protectedSettings=ANY,
        protectedSettingsFromKeyVault=shape(text="secretUrl", sourceVault=REFERENCE),
    ),
)
IDENTITY = shape(
    text="principalId tenantId",
    type=Words(("SystemAssigned", "UserAssigned", "SystemAssigned, UserAssigned", "None")),
    userAssignedIdentities=MapOf(shape(text="principalId clientId")),
)
PLAN = shape(text="name publisher product promotionCode")
