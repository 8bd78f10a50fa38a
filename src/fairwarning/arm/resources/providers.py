"""Regions, and resource providers with their resource types and api-versions."""

from collections.abc import Mapping, Sequence

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


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Newest first: clients use the first version, or the first that is not a preview.
_COMPUTE = _split(
    "2026-04-01 2026-03-01 2025-11-01 2025-04-01 2024-11-01 2024-07-01 2024-03-01 2023-09-01 "
    "2023-07-01 2023-03-01 2022-11-01 2022-08-01 2022-03-01 2021-11-01 2021-07-01 2021-04-01 "
    "2021-03-01 2020-12-01 2020-06-01 2019-12-01 2019-07-01 2019-03-01 2018-10-01 2018-06-01 "
    "2018-04-01 2017-12-01 2017-03-30 2016-04-30-preview 2016-03-30 2015-06-15"
)
_DISKS = _split(
    "2025-01-02 2024-03-02 2023-10-02 2023-04-02 2023-01-02 2022-07-02 2022-03-02 2021-12-01 "
    "2021-08-01 2021-04-01 2020-12-01 2020-09-30 2020-06-30 2020-05-01 2019-11-01 2019-07-01 "
    "2019-03-01 2018-09-30 2018-06-01 2018-04-01 2017-03-30"
)
_SERVICES = ("2024-11-04", "2022-09-04", "2022-04-04", "2021-03-01", "2020-10-01-preview")
_NETWORK = _split(
    "2025-07-01 2025-05-01 2025-03-01 2025-01-01 2024-10-01 2024-07-01 2024-05-01 2024-03-01 "
    "2024-01-01 2023-11-01 2023-09-01 2023-06-01 2023-05-01 2023-04-01 2023-02-01 2022-11-01 "
    "2022-09-01 2022-07-01 2022-05-01 2022-01-01 2021-08-01 2021-05-01 2021-03-01 2021-02-01 "
    "2020-11-01 2020-08-01 2020-05-01 2019-11-01 2019-04-01 2018-11-01 2018-04-01 2017-10-01 "
    "2017-03-01 2016-09-01 2016-03-30 2015-06-15"
)
_RESOURCES = _split(
    "2025-04-01 2024-11-01 2024-07-01 2024-03-01 2023-07-01 2022-12-01 2022-09-01 2022-01-01 "
    "2021-04-01 2021-01-01 2020-10-01 2020-08-01 2020-06-01 2019-10-01 2019-05-01 2018-05-01 "
    "2017-05-10 2016-09-01 2015-11-01"
)
_MAINTENANCE = _split(
    "2025-10-01-preview 2023-10-01-preview 2023-09-01-preview 2023-04-01 2022-11-01-preview "
    "2022-07-01-preview 2021-09-01-preview 2021-05-01 2020-07-01-preview 2020-04-01 "
    "2018-06-01-preview"
)
_LOCKS = ("2020-05-01", "2017-04-01", "2016-09-01", "2015-01-01")
_INSIGHTS = ("2017-03-01-preview", "2015-04-01")
_GRAPH = ("2024-04-01", "2022-10-01", "2021-03-01", "2019-04-01", "2018-09-01-preview")
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
    "Microsoft.Authorization": {"locks": _LOCKS},
    "Microsoft.Compute": {
        **dict.fromkeys(_COMPUTE_TYPES, _COMPUTE),
        "cloudServices": _SERVICES,
        "disks": _DISKS,
    },
    "Microsoft.Insights": {"eventtypes": _INSIGHTS},
    "Microsoft.Maintenance": dict.fromkeys(_MAINTENANCE_TYPES, _MAINTENANCE),
    "Microsoft.Network": {
        kind.partition("/")[2]: _NETWORK for kind in network.TYPES if ".Network/" in kind
    },
    "Microsoft.ResourceGraph": {"resources": _GRAPH},
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
        _RESOURCES,
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
