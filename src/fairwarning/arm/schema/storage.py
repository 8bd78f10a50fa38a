"""Disks, images, placement groups and keys."""

from fairwarning.arm.schema.compute_parts import (
    CACHING,
    DELAY_ACTION,
    GENERATION,
    NETWORK_ACCESS,
    OS_TYPE,
    PLAN,
    STORAGE,
)
from fairwarning.arm.schema.resource import resource
from fairwarning.arm.schema.values import (
    ANY,
    DECIMAL,
    REFERENCE,
    TEXTS,
    ListOf,
    shape,
    words,
)

_IMAGE_REFERENCE = shape(text="id sharedGalleryImageId communityGalleryImageId", numbers="lun")
DISK = resource(
    shape(
        text="timeCreated uniqueId provisioningState diskAccessId tier burstingEnabledTime "
        "LastOwnershipUpdateTime",
        flags="burstingEnabled supportsHibernation optimizedForFrequentAttach",
        numbers="diskSizeGB diskSizeBytes diskIOPSReadWrite diskMBpsReadWrite diskIOPSReadOnly "
        "diskMBpsReadOnly maxShares",
        completionPercent=DECIMAL,
        osType=OS_TYPE,
        hyperVGeneration=GENERATION,
        purchasePlan=PLAN,
        supportedCapabilities=shape(
            text="diskControllerTypes",
            flags="acceleratedNetwork",
            architecture=words("x64 Arm64"),
            supportedSecurityOption=words(
                "TrustedLaunchSupported TrustedLaunchAndConfidentialVMSupported"
            ),
        ),
        creationData=shape(
            text="storageAccountId sourceUri sourceResourceId sourceUniqueId securityDataUri "
            "securityMetadataUri elasticSanResourceId",
            flags="performancePlus",
            numbers="uploadSizeBytes logicalSectorSize instantAccessDurationMinutes",
            provisionedBandwidthCopySpeed=words("None Enhanced"),
            createOption=words(
                "Empty Attach FromImage Import Copy Restore Upload CopyStart ImportSecure "
                "UploadPreparedSecure CopyFromSanSnapshot"
            ),
            imageReference=_IMAGE_REFERENCE,
            galleryImageReference=_IMAGE_REFERENCE,
        ),
        diskState=words(
            "Unattached Attached Reserved Frozen ActiveSAS ActiveSASFrozen ReadyToUpload "
            "ActiveUpload"
        ),
        encryption=shape(
            text="diskEncryptionSetId",
            type=words(
                "EncryptionAtRestWithPlatformKey EncryptionAtRestWithCustomerKey "
                "EncryptionAtRestWithPlatformAndCustomerKeys"
            ),
        ),
        encryptionSettingsCollection=shape(
            text="encryptionSettingsVersion", flags="enabled", encryptionSettings=ListOf(ANY)
        ),
        shareInfo=ListOf(shape(text="vmUri")),
        networkAccessPolicy=NETWORK_ACCESS,
        availabilityPolicy=shape(actionOnDiskDelay=DELAY_ACTION),
        propertyUpdatesInProgress=shape(text="targetTier"),
        publicNetworkAccess=words("Enabled Disabled"),
        dataAccessAuthMode=words("AzureActiveDirectory None"),
        securityProfile=shape(
            text="secureVMDiskEncryptionSetId",
            securityType=words(
                "TrustedLaunch ConfidentialVM_VMGuestStateOnlyEncryptedWithPlatformKey "
                "ConfidentialVM_DiskEncryptedWithPlatformKey "
                "ConfidentialVM_DiskEncryptedWithCustomerKey ConfidentialVM_NonPersistedTPM"
            ),
            confidentialVMVersion=GENERATION,
        ),
    ),
    managedByExtended=TEXTS,
    sku=shape(text="tier", name=STORAGE),
)

_IMAGE_DISK = shape(
    text="blobUri",
    numbers="diskSizeGB lun",
    snapshot=REFERENCE,
    managedDisk=REFERENCE,
    caching=CACHING,
    storageAccountType=STORAGE,
    diskEncryptionSet=REFERENCE,
    osType=OS_TYPE,
    osState=words("Generalized Specialized"),
)
IMAGE = resource(
    shape(
        text="provisioningState",
        sourceVirtualMachine=REFERENCE,
        hyperVGeneration=GENERATION,
        storageProfile=shape(
            flags="zoneResilient", osDisk=_IMAGE_DISK, dataDisks=ListOf(_IMAGE_DISK)
        ),
    )
)

_COLOCATED = ListOf(shape(text="id", colocationStatus=ANY))
PLACEMENT_GROUP = resource(
    shape(
        proximityPlacementGroupType=words("Standard Ultra"),
        virtualMachines=_COLOCATED,
        virtualMachineScaleSets=_COLOCATED,
        availabilitySets=_COLOCATED,
        colocationStatus=ANY,
        intent=shape(vmSizes=TEXTS),
    )
)

PUBLIC_KEY = resource(shape(text="publicKey"))
