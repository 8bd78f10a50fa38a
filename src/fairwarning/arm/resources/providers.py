"""What subscriptions are told there is: regions, and the types of resources with their versions."""

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
"""Names that examples use; here they are names and no more."""


def regions(cloud: CloudSettings) -> list[str]:
    """The names of the regions, the cloud's own first."""
    return list(dict.fromkeys((plain(cloud.location), *REGIONS)))


def plain(region: str) -> str:
    """A region's name, however it is spelt: West US 2 is westus2."""
    return region.replace(" ", "").lower()


def _dates(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Newest first: clients take the first, or the first that is no preview.
_COMPUTE = _dates(
    "2026-04-01 2026-03-01 2025-11-01 2025-04-01 2024-11-01 2024-07-01 2024-03-01 2023-09-01 "
    "2023-07-01 2023-03-01 2022-11-01 2022-08-01 2022-03-01 2021-11-01 2021-07-01 2021-04-01 "
    "2021-03-01 2020-12-01 2020-06-01 2019-12-01 2019-07-01 2019-03-01 2018-10-01 2018-06-01 "
    "2018-04-01 2017-12-01 2017-03-30 2016-04-30-preview 2016-03-30 2015-06-15"
)
_DISKS = _dates(
    "2025-01-02 2024-03-02 2023-10-02 2023-04-02 2023-01-02 2022-07-02 2022-03-02 2021-12-01 "
    "2021-08-01 2021-04-01 2020-12-01 2020-09-30 2020-06-30 2020-05-01 2019-11-01 2019-07-01 "
    "2019-03-01 2018-09-30 2018-06-01 2018-04-01 2017-03-30"
)
_SERVICES = ("2024-11-04", "2022-09-04", "2022-04-04", "2021-03-01", "2020-10-01-preview")
_NETWORK = _dates(
    "2025-07-01 2025-05-01 2025-03-01 2025-01-01 2024-10-01 2024-07-01 2024-05-01 2024-03-01 "
    "2024-01-01 2023-11-01 2023-09-01 2023-06-01 2023-05-01 2023-04-01 2023-02-01 2022-11-01 "
    "2022-09-01 2022-07-01 2022-05-01 2022-01-01 2021-08-01 2021-05-01 2021-03-01 2021-02-01 "
    "2020-11-01 2020-08-01 2020-05-01 2019-11-01 2019-04-01 2018-11-01 2018-04-01 2017-10-01 "
    "2017-03-01 2016-09-01 2016-03-30 2015-06-15"
)
_RESOURCES = _dates(
    "2025-04-01 2024-11-01 2024-07-01 2024-03-01 2023-07-01 2022-12-01 2022-09-01 2022-01-01 "
    "2021-04-01 2021-01-01 2020-10-01 2020-08-01 2020-06-01 2019-10-01 2019-05-01 2018-05-01 "
    "2017-05-10 2016-09-01 2015-11-01"
)
_MAINTENANCE = ("2025-10-01-preview", "2023-10-01-preview")
_ELSE = ("2024-11-01",)

_COMPUTE_TYPES = (
    "availabilitySets", "images", "locations", "locations/operations", "locations/publishers",
    "locations/usages", "locations/vmSizes", "proximityPlacementGroups", "skus", "sshPublicKeys",
    "virtualMachines", "virtualMachineScaleSets", "virtualMachineScaleSets/virtualMachines",
)  # fmt: skip
PROVIDERS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Microsoft.Compute": {
        **dict.fromkeys(_COMPUTE_TYPES, _COMPUTE),
        "cloudServices": _SERVICES,
        "disks": _DISKS,
    },
    "Microsoft.Maintenance": {"scheduledEvents": _MAINTENANCE},
    "Microsoft.Network": {
        kind.partition("/")[2]: _NETWORK for kind in network.TYPES if ".Network/" in kind
    },
    "Microsoft.Resources": dict.fromkeys(
        ("deployments", "providers", "resourceGroups", "resources", "subscriptions", "tenants"),
        _RESOURCES,
    ),
}


def versions(namespace: str, kind: str) -> Sequence[str]:
    """The api-versions of a type, newest first."""
    types = PROVIDERS.get(spelt(namespace), {})
    return next((known for one, known in types.items() if one.lower() == kind.lower()), _ELSE)


def spelt(namespace: str) -> str:
    """As Azure spells it, if it is one that there is."""
    return next((one for one in PROVIDERS if one.lower() == namespace.lower()), "")
