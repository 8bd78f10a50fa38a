"""Regions, and resource providers with their resource types and api-versions."""

from collections.abc import Mapping, Sequence

from fairwarning.arm.http import api_versions as versions
from fairwarning.arm.resources import network
from fairwarning.service.config.settings import CloudSettings

REGIONS: Mapping[str, tuple[str, str]] = {
    "eastus": ("East US", "US"),
    "eastus2": ("East US 2", "US"),
    "centralus": ("Central US", "US"),
    "southcentralus": ("South Central US", "US"),
    "westus": ("West US", "US"),
    "westus2": ("West US 2", "US"),
    "westus3": ("West US 3", "US"),
    "northeurope": ("North Europe", "Europe"),
    "westeurope": ("West Europe", "Europe"),
    "uksouth": ("UK South", "Europe"),
    "germanywestcentral": ("Germany West Central", "Europe"),
    "southeastasia": ("Southeast Asia", "Asia Pacific"),
    "japaneast": ("Japan East", "Asia Pacific"),
    "australiaeast": ("Australia East", "Asia Pacific"),
}
"""Regions that examples use. They have no effect here beyond their names."""


def regions(cloud: CloudSettings) -> list[str]:
    """Return the names of the regions, with the cloud's own first."""
    return list(dict.fromkeys((normalize_region(cloud.location), *REGIONS)))


def normalize_region(region: str) -> str:
    """Return the normalized name of a region: `West US 2` is `westus2`."""
    return region.replace(" ", "").lower()


_DEFAULT = ("2024-11-01",)

_COMPUTE_TYPES = (
    "availabilitySets", "images", "locations", "locations/operations", "locations/publishers",
    "locations/usages", "locations/vmSizes", "proximityPlacementGroups", "skus", "sshPublicKeys",
    "virtualMachines", "virtualMachines/extensions", "virtualMachines/runCommands",
    "virtualMachineScaleSets", "virtualMachineScaleSets/extensions",
    "virtualMachineScaleSets/virtualMachines",
    "virtualMachineScaleSets/virtualMachines/extensions",
    "virtualMachineScaleSets/virtualMachines/runCommands",
)  # fmt: skip
_MAINTENANCE_TYPES = (
    "applyUpdates", "configurationAssignments", "maintenanceConfigurations",
    "publicMaintenanceConfigurations", "scheduledEvents", "updates",
)  # fmt: skip
PROVIDERS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Microsoft.Authorization": {"locks": versions.LOCKS},
    "Microsoft.Compute": {
        **dict.fromkeys(_COMPUTE_TYPES, versions.COMPUTE),
        "cloudServices": versions.CLOUD_SERVICES,
        "disks": versions.DISKS,
    },
    "Microsoft.Insights": {
        "autoscaleSettings": versions.AUTOSCALE,
        "eventtypes": versions.INSIGHTS,
    },
    "Microsoft.Maintenance": dict.fromkeys(_MAINTENANCE_TYPES, versions.MAINTENANCE),
    "Microsoft.Network": {
        kind.partition("/")[2]: versions.NETWORK for kind in network.TYPES if ".Network/" in kind
    },
    "Microsoft.ResourceGraph": {"resources": versions.GRAPH},
    "Microsoft.Resources": dict.fromkeys(
        (
            "deployments",
            "providers",
            "resourceGroups",
            "resources",
            "subscriptions",
            "tags",
            "tenants",
        ),
        versions.RESOURCES,
    ),
}


def api_versions(namespace: str, kind: str) -> Sequence[str]:
    """Return the api-versions of a resource type, newest first."""
    types = PROVIDERS.get(canonical_namespace(namespace), {})
    matches = (versions for name, versions in types.items() if name.lower() == kind.lower())
    return next(matches, _DEFAULT)


def canonical_namespace(namespace: str) -> str:
    """Return the namespace in Azure's case; "" if it is unknown."""
    return next((known for known in PROVIDERS if known.lower() == namespace.lower()), "")


def canonical_kind(namespace: str, kind: str) -> str:
    """Return a resource type with its namespace in Azure's case; "" if it is unknown."""
    namespace = canonical_namespace(namespace)
    types = PROVIDERS.get(namespace, {})
    name = next((known for known in types if known.lower() == kind.lower()), "")
    return f"{namespace}/{name}" if name else ""


def newest_version(kind: str) -> str:
    """Return the newest api-version of a resource type with its namespace."""
    namespace, _, name = kind.partition("/")
    return api_versions(namespace, name)[0]
