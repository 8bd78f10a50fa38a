"""What has to be exact, and what Azure's SDK does not say.

The service acts on the members and words here, and refuses others. The rest of the shapes is in
`shapes.json`, which is generated from the SDK.
"""

from collections.abc import Mapping

from fairwarning.arm.schema.values import (
    ANY,
    FLAG,
    STRING,
    TEXT,
    TEXTS,
    ClosedWords,
    MapOf,
    Shape,
    ValueType,
)

EXACT = frozenset({
    "AllInstancesDown", "AutomaticOSUpgradePolicy", "EventGridAndResourceGraph",
    "OSImageNotificationProfile", "RollingUpgradePolicy", "ScaleInPolicy",
    "ScheduledEventsAdditionalPublishingTargets", "ScheduledEventsPolicy",
    "ScheduledEventsProfile", "Sku", "TerminateNotificationProfile", "UpgradePolicy",
    "UserInitiatedReboot", "UserInitiatedRedeploy", "VirtualMachineScaleSetVMProtectionPolicy",
})  # fmt: skip
"""The models whose unknown members are refused."""

WORDS: Mapping[str, ClosedWords] = {
    "OrchestrationMode": ClosedWords(("Uniform", "Flexible")),
    "UpgradeMode": ClosedWords(("Automatic", "Manual", "Rolling")),
    "VirtualMachineEvictionPolicyTypes": ClosedWords(("Deallocate", "Delete")),
    "VirtualMachinePriorityTypes": ClosedWords(("Regular", "Spot", "Low")),  # without SpotPlus
    "VirtualMachineScaleSetScaleInRules": ClosedWords(("Default", "OldestVM", "NewestVM")),
}
"""The enumerations whose other words are refused."""

MEMBERS: Mapping[str, Mapping[str, ValueType]] = {
    # Api-versions of 2017 and 2018
    "UpgradePolicy": {
        "automaticOSUpgrade": FLAG,
        "autoOSUpgradePolicy": Shape({"disableAutoRollback": FLAG}, exact=True),
    },
    # Older api-versions
    "VirtualMachineScaleSetIPConfiguration": {"id": TEXT},
    "VirtualMachineScaleSetNetworkConfiguration": {"id": TEXT},
}
"""The members that newer api-versions do not have, by model."""

# Names, locations and tags are strings, and nothing else.
PART: Mapping[str, ValueType] = {"id": TEXT, "name": STRING, "type": TEXT, "etag": TEXT}
"""The members of every part that can be addressed: a subnet, a rule."""
RESOURCE: Mapping[str, ValueType] = {
    **PART,
    "kind": TEXT,
    "location": STRING,
    "managedBy": TEXT,
    "systemData": ANY,
    "tags": MapOf(STRING),
    "zones": TEXTS,
}
"""The members of every resource."""

SHAPES: Mapping[str, Shape] = {
    "Microsoft.Resources/resourceGroups": Shape(
        {**RESOURCE, "properties": Shape({"provisioningState": TEXT})}
    ),
}
"""The resource types that the SDKs of compute and network do not have."""
