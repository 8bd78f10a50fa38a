"""Images, sizes and quotas, which tools read before they create a machine.

They are not limits: a machine may have any image and size. Every image has exactly one version.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError, invalid_value
from fairwarning.arm.http.listing import parse_expand, parse_top
from fairwarning.arm.http.request import ArmRequest, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, Route
from fairwarning.arm.resources.providers import normalize_region, regions

LINUX, WINDOWS = "Linux", "Windows"
VERSION = "1.0.0"
"""The only version of every image."""


@dataclass(frozen=True)
class Image:
    """An image with an alias."""

    alias: str
    publisher: str
    offer: str
    sku: str
    system: str = LINUX


_SERVER = ("MicrosoftWindowsServer", "WindowsServer")
IMAGES = (
    Image("UbuntuLTS", "Canonical", "UbuntuServer", "18.04-LTS"),
    Image("Ubuntu2004", "Canonical", "0001-com-ubuntu-server-focal", "20_04-lts-gen2"),
    Image("Ubuntu2204", "Canonical", "0001-com-ubuntu-server-jammy", "22_04-lts-gen2"),
    Image("Ubuntu2404", "Canonical", "ubuntu-24_04-lts", "server"),
    Image("Debian", "Debian", "debian-12", "12-gen2"),
    Image("Debian11", "Debian", "debian-11", "11-gen2"),
    Image("Debian12", "Debian", "debian-12", "12-gen2"),
    Image("CentOS", "OpenLogic", "CentOS", "7.5"),
    Image("CentOS85Gen2", "OpenLogic", "CentOS", "8_5-gen2"),
    Image("RHEL", "RedHat", "RHEL", "9-lvm-gen2"),
    Image("RHELRaw8LVMGen2", "RedHat", "RHEL", "8-lvm-gen2"),
    Image("SuseSles15SP3", "SUSE", "sles-15-sp3", "gen2"),
    Image("FlatcarLinuxFreeGen2", "kinvolk", "flatcar-container-linux-free", "stable-gen2"),
    Image("Win2025Datacenter", *_SERVER, "2025-datacenter-g2", WINDOWS),
    Image("Win2022Datacenter", *_SERVER, "2022-datacenter-g2", WINDOWS),
    Image("Win2022AzureEditionCore", *_SERVER, "2022-datacenter-azure-edition-core", WINDOWS),
    Image("Win2019Datacenter", *_SERVER, "2019-datacenter-gensecond", WINDOWS),
    Image("Win2016Datacenter", *_SERVER, "2016-datacenter-gensecond", WINDOWS),
    Image("Win2012R2Datacenter", *_SERVER, "2012-R2-Datacenter", WINDOWS),
)


@dataclass(frozen=True)
class MachineSize:
    """The size of a machine."""

    name: str
    cores: int
    memory_mb: int
    data_disks: int
    scratch_mb: int  # size of the temporary disk
    family: str


SIZES = (
    MachineSize("Standard_A1_v2", 1, 2048, 2, 10240, "standardAv2Family"),
    MachineSize("Standard_A2_v2", 2, 4096, 4, 20480, "standardAv2Family"),
    MachineSize("Standard_B1ls", 1, 512, 2, 4096, "standardBSFamily"),
    MachineSize("Standard_B1s", 1, 1024, 2, 4096, "standardBSFamily"),
    MachineSize("Standard_B1ms", 1, 2048, 2, 4096, "standardBSFamily"),
    MachineSize("Standard_B2s", 2, 4096, 4, 8192, "standardBSFamily"),
    MachineSize("Standard_B2ms", 2, 8192, 4, 16384, "standardBSFamily"),
    MachineSize("Standard_B4ms", 4, 16384, 8, 32768, "standardBSFamily"),
    MachineSize("Standard_DS1_v2", 1, 3584, 4, 7168, "standardDSv2Family"),
    MachineSize("Standard_DS2_v2", 2, 7168, 8, 14336, "standardDSv2Family"),
    MachineSize("Standard_DS3_v2", 4, 14336, 16, 28672, "standardDSv2Family"),
    MachineSize("Standard_D1_v2", 1, 3584, 4, 51200, "standardDv2Family"),
    MachineSize("Standard_D2s_v3", 2, 8192, 4, 16384, "standardDSv3Family"),
    MachineSize("Standard_D4s_v3", 4, 16384, 8, 32768, "standardDSv3Family"),
    MachineSize("Standard_D8s_v3", 8, 32768, 16, 65536, "standardDSv3Family"),
    MachineSize("Standard_D2s_v5", 2, 8192, 4, 0, "standardDSv5Family"),
    MachineSize("Standard_D4s_v5", 4, 16384, 8, 0, "standardDSv5Family"),
    MachineSize("Standard_D8s_v5", 8, 32768, 16, 0, "standardDSv5Family"),
    MachineSize("Standard_E2s_v5", 2, 16384, 4, 0, "standardESv5Family"),
    MachineSize("Standard_F2s_v2", 2, 4096, 4, 16384, "standardFSv2Family"),
    MachineSize("Standard_F4s_v2", 4, 8192, 8, 32768, "standardFSv2Family"),
    MachineSize("Standard_L8s_v3", 8, 65536, 16, 81920, "standardLSv3Family"),
)
_SYSTEM_DISK_MB = 1_047_552
_ZONES = ("1", "2", "3")

_FILTER = re.compile(r"\s*location eq '([^']{1,80})'\s*", re.IGNORECASE)


def aliases() -> dict[str, Any]:
    """Return the image alias document of the Azure CLI."""
    by_system: dict[str, dict[str, Any]] = {LINUX: {}, WINDOWS: {}}
    for image in IMAGES:
        by_system[image.system][image.alias] = {
            "publisher": image.publisher,
            "offer": image.offer,
            "sku": image.sku,
            "version": "latest",
            "architecture": "x64",
        }
    return {
        "contentVersion": "1.0.0.0",
        "parameters": {},
        "variables": {},
        "resources": [],
        "outputs": {"aliases": {"type": "object", "value": by_system}},
    }


# --- Images ---------------------------------------------------------------------------------------


async def _publishers(_context: ArmContext, request: ArmRequest) -> Response:
    return _list_response(request, (image.publisher for image in IMAGES))


async def _offers(_context: ArmContext, request: ArmRequest) -> Response:
    return _list_response(request, (image.offer for image in _of(request, "publisher")))


async def _skus(_context: ArmContext, request: ArmRequest) -> Response:
    return _list_response(request, (image.sku for image in _of(request, "publisher", "offer")))


async def _versions(_context: ArmContext, request: ArmRequest) -> Response:
    """List the versions of an image: there is one, so every `$top` and order is the same list."""
    order = request.query("$orderby")
    if order.lower() not in {"", "name", "name asc", "name desc"}:
        raise invalid_value("$orderby", order, "name, name asc or name desc")
    parse_top(request)
    path = request.path.rstrip("/")
    version: dict[str, object] = {**_entry(request, path, VERSION)}
    if parse_expand(request, ("properties",)):
        version["properties"] = _image_properties(request)
    return json_response([version])


async def _version(_context: ArmContext, request: ArmRequest) -> Response:
    version = request.params["version"]
    if version.lower() == "latest":
        version = VERSION
    path = request.path.rpartition("/")[0]
    properties = _image_properties(request)
    return json_response({**_entry(request, path, version), "properties": properties})


def _image_properties(request: ArmRequest) -> dict[str, object]:
    return {
        "osDiskImage": {"operatingSystem": _operating_system(request.params)},
        "dataDiskImages": [],
        "hyperVGeneration": "V2",
        "architecture": "x64",
        "features": [],
        "imageDeprecationStatus": {"imageState": "Active"},
    }


def _of(request: ArmRequest, *levels: str) -> list[Image]:
    """Return the images of the publisher, or of the publisher and offer, in the path."""
    names = {level: request.params[level].lower() for level in levels}
    return [
        image
        for image in IMAGES
        if all(getattr(image, level).lower() == names[level] for level in names)
    ]


def _list_response(request: ArmRequest, names: Iterable[str]) -> Response:
    """Return a bare JSON list, which Azure uses only for images."""
    path = request.path.rstrip("/")
    return json_response([_entry(request, path, name) for name in dict.fromkeys(names)])


def _entry(request: ArmRequest, path: str, name: str) -> dict[str, str]:
    return {"id": f"{path}/{name}", "name": name, "location": _region(request)}


def _operating_system(params: Mapping[str, str]) -> str:
    """Return the operating system of an image, which its name implies."""
    words = f"{params['publisher']} {params['offer']}".lower()
    return WINDOWS if "windows" in words else LINUX


# --- Sizes ----------------------------------------------------------------------------------------


async def _sizes(_context: ArmContext, _request: ArmRequest) -> Response:
    value = [
        {
            "name": size.name,
            "numberOfCores": size.cores,
            "osDiskSizeInMB": _SYSTEM_DISK_MB,
            "resourceDiskSizeInMB": size.scratch_mb,
            "memoryInMB": size.memory_mb,
            "maxDataDiskCount": size.data_disks,
        }
        for size in SIZES
    ]
    return json_response({"value": value})


async def _all_skus(context: ArmContext, request: ArmRequest) -> Response:
    """List one entry for each size and region."""
    expression = request.query("$filter")
    match = _FILTER.fullmatch(expression)
    if expression and not match:
        text = "The $filter is not supported; use: location eq 'REGION'."
        raise ArmError("InvalidFilterInQueryString", text)
    names = [normalize_region(match[1])] if match else regions(context.cloud)
    return json_response({"value": [_sku(size, name) for name in names for size in SIZES]})


def _sku(size: MachineSize, region: str) -> dict[str, Any]:
    capabilities = {
        "vCPUs": size.cores,
        "vCPUsAvailable": size.cores,
        "MemoryGB": f"{size.memory_mb / 1024:g}",
        "MaxDataDiskCount": size.data_disks,
        "MaxResourceVolumeMB": size.scratch_mb,
        "OSVhdSizeMB": _SYSTEM_DISK_MB,
        "HyperVGenerations": "V1,V2",
        "CpuArchitectureType": "x64",
        "PremiumIO": "s" in size.name.split("_")[1].lower(),
        "LowPriorityCapable": True,
        "EphemeralOSDiskSupported": False,
        "AcceleratedNetworkingEnabled": False,
        "EncryptionAtHostSupported": False,
    }
    return {
        "resourceType": "virtualMachines",
        "name": size.name,
        "tier": "Standard",
        "size": size.name.removeprefix("Standard_"),
        "family": size.family,
        "locations": [region],
        "locationInfo": [{"location": region, "zones": list(_ZONES), "zoneDetails": []}],
        "capabilities": [{"name": name, "value": str(v)} for name, v in capabilities.items()],
        "restrictions": [],
    }


async def _usages(_context: ArmContext, _request: ArmRequest) -> Response:
    """List no quotas: there are none."""
    return json_response({"value": []})


def _region(request: ArmRequest) -> str:
    """Return the normalized region of the path."""
    return normalize_region(request.params["location"])


_LOCATION = f"{ALL_COMPUTE}/locations/{{location}}"
_PUBLISHERS = f"{_LOCATION}/publishers"
_OFFERS = f"{_PUBLISHERS}/{{publisher}}/artifacttypes/vmimage/offers"
_SKUS = f"{_OFFERS}/{{offer}}/skus"
_VERSIONS = f"{_SKUS}/{{sku}}/versions"

ROUTES: tuple[Route, ...] = (
    Route("GET", _PUBLISHERS, _publishers),
    Route("GET", _OFFERS, _offers),
    Route("GET", _SKUS, _skus),
    Route("GET", _VERSIONS, _versions),
    Route("GET", f"{_VERSIONS}/{{version}}", _version),
    Route("GET", f"{_LOCATION}/vmSizes", _sizes),
    Route("GET", f"{_LOCATION}/usages", _usages),
    Route("GET", f"{ALL_COMPUTE}/skus", _all_skus),
)
