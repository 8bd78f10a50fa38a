"""Images, sizes and quotas, which tools read before they create a machine.

They are not limits: a machine may have any image and size. Every image has exactly one version.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response

from fairwarning.arm.catalogue import Image, MachineSize, catalogue, normalize_region
from fairwarning.arm.http.errors import ArmError, invalid_value
from fairwarning.arm.http.listing import parse_expand, parse_top
from fairwarning.arm.http.request import ArmRequest, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, Route
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.names import SCALE_SET
from fairwarning.core import limits
from fairwarning.service.config.settings import CloudSettings

LINUX, WINDOWS = "Linux", "Windows"
VERSION = "1.0.0"
"""The only version of every image."""
_SYSTEM_DISK_MB = 1_047_552
_ZONES = ("1", "2", "3")
_FILTER = re.compile(r"\s*location eq '([^']{1,80})'\s*", re.IGNORECASE)


def aliases() -> dict[str, Any]:
    """Return the image alias document of the Azure CLI."""
    by_system: dict[str, dict[str, Any]] = {LINUX: {}, WINDOWS: {}}
    for image in catalogue().images:
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
    return _list_response(request, (image.publisher for image in catalogue().images))


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
    if parse_expand(request, ("properties", "properties/imageDeprecationStatus")):
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
        for image in catalogue().images
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


async def list_sizes(_context: ArmContext, _request: ArmRequest) -> Response:
    """List the sizes of a region, or those that a machine may be given."""
    value = [
        {
            "name": size.name,
            "numberOfCores": size.cores,
            "osDiskSizeInMB": _SYSTEM_DISK_MB,
            "resourceDiskSizeInMB": size.scratch_mb,
            "memoryInMB": size.memory_mb,
            "maxDataDiskCount": size.data_disks,
        }
        for size in catalogue().sizes
    ]
    return json_response({"value": value})


async def list_set_sizes(_context: ArmContext, _request: ArmRequest) -> Response:
    """List the sizes that a scale set may be given."""
    value = [
        {
            "resourceType": SCALE_SET,
            "sku": {"name": size.name, "tier": "Standard"},
            "capacity": {
                "minimum": 0,
                "maximum": limits.SET_INSTANCES,
                "defaultCapacity": 1,
                "scaleType": "Automatic",
            },
        }
        for size in catalogue().sizes
    ]
    return json_response({"value": value})


async def _all_skus(context: ArmContext, request: ArmRequest) -> Response:
    """List one entry for each size and region."""
    expression = request.query("$filter")
    match = _FILTER.fullmatch(expression)
    if expression and not match:
        text = "The $filter is not supported; use: location eq 'REGION'."
        raise ArmError("InvalidFilterInQueryString", text)
    names = [normalize_region(match[1])] if match else region_names(context.cloud)
    return json_response(
        {"value": [_sku(size, name) for name in names for size in catalogue().sizes]}
    )


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


def region_names(cloud: CloudSettings) -> list[str]:
    """Return the names of the regions, with the cloud's own first."""
    own = normalize_region(cloud.location)
    return list(dict.fromkeys((own, *(region.name for region in catalogue().regions))))


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
    Route("GET", f"{_LOCATION}/vmSizes", list_sizes),
    Route("GET", f"{_LOCATION}/usages", _usages),
    Route("GET", f"{ALL_COMPUTE}/skus", _all_skus),
)
