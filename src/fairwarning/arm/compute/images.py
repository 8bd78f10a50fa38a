"""Images, sizes and quotas, which `az vm create` and `az vm image list --all` read."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.responses import Response

from fairwarning.arm.catalogue import document, normalize_region, read
from fairwarning.arm.http.errors import azure_error, invalid_value
from fairwarning.arm.http.listing import parse_expand, parse_top
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, Route, fixed
from fairwarning.arm.types.context import ArmContext
from fairwarning.core import limits
from fairwarning.service.config.settings import CloudSettings

LINUX, WINDOWS = "Linux", "Windows"
VERSION = "1.0.0"
"""The only version of every image."""
_FILTER = re.compile(r"\s*location eq '([^']{1,80})'\s*", re.IGNORECASE)


def aliases(_context: ArmContext) -> dict[str, Any]:
    """Return the image alias document of the Azure CLI."""
    by_system: dict[str, dict[str, Any]] = {LINUX: {}, WINDOWS: {}}
    for image in read("catalogue")["images"]:
        by_system[image["system"]][image["alias"]] = document("alias", **image)
    return document("aliases", aliases=by_system)


async def _names(level: str, _context: ArmContext, request: ArmRequest) -> Response:
    """List the publishers, or the offers or SKUs in the path: a bare list, only for images."""
    path, images = request.path.rstrip("/"), read("catalogue")["images"]
    for above in ("publisher", "offer"):
        if name := request.params.get(above, "").lower():
            images = [image for image in images if image[above].lower() == name]
    names = dict.fromkeys(image[level] for image in images)
    return json_response([_entry(request, path, name) for name in names])


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


def _image_properties(request: ArmRequest) -> dict[str, Any]:
    """Return the properties of an image; its name implies its operating system."""
    words = f"{request.params['publisher']} {request.params['offer']}".lower()
    return document("imageProperties", system=WINDOWS if "windows" in words else LINUX)


def _entry(request: ArmRequest, path: str, name: str) -> dict[str, str]:
    region = normalize_region(request.params["location"])
    return {"id": f"{path}/{name}", "name": name, "location": region}


def sizes(name: str, _context: ArmContext) -> Body:
    """Return the sizes of a region or a machine (`size`), or of a scale set (`setSize`)."""
    most = limits.SET_INSTANCES
    listed = read("catalogue")["sizes"]
    return {"value": [document(name, **size, maximum=most) for size in listed]}


list_sizes, list_set_sizes = (fixed(partial(sizes, name)) for name in ("size", "setSize"))


async def _all_skus(context: ArmContext, request: ArmRequest) -> Response:
    expression = request.query("$filter")
    match = _FILTER.fullmatch(expression)
    if expression and not match:
        raise azure_error("InvalidFilterInQueryString/only location")
    regions = [normalize_region(match[1])] if match else region_names(context.cloud)
    share = context.fleet.reader.share
    value = await share.map(partial(_sku, regions), read("catalogue")["sizes"], step=1)
    return json_response({"value": [sku for of_size in value for sku in of_size]})


def _sku(regions: Sequence[str], size: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        document(
            "sku",
            region=region,
            name=size["name"],
            size=size["name"].removeprefix("Standard_"),
            family=size["family"],
            memory_gb=f"{size['memory_mb'] / 1024:g}",
            premium=str("s" in size["name"].split("_")[1].lower()),
            cores=str(size["cores"]),
            data_disks=str(size["data_disks"]),
            scratch_mb=str(size["scratch_mb"]),
        )
        for region in regions
    ]


def region_names(cloud: CloudSettings) -> list[str]:
    """Return the names of the regions, with the cloud's own first."""
    own = normalize_region(cloud.location)
    return list(dict.fromkeys((own, *(region["name"] for region in read("catalogue")["regions"]))))


_LOCATION = f"{ALL_COMPUTE}/locations/{{location}}"
_PUBLISHERS = f"{_LOCATION}/publishers"
_OFFERS = f"{_PUBLISHERS}/{{publisher}}/artifacttypes/vmimage/offers"
_SKUS = f"{_OFFERS}/{{offer}}/skus"
_VERSIONS = f"{_SKUS}/{{sku}}/versions"

ROUTES: tuple[Route, ...] = (
    Route("GET", _PUBLISHERS, partial(_names, "publisher")),
    Route("GET", _OFFERS, partial(_names, "offer")),
    Route("GET", _SKUS, partial(_names, "sku")),
    Route("GET", _VERSIONS, _versions),
    Route("GET", f"{_VERSIONS}/{{version}}", _version),
    Route("GET", f"{_LOCATION}/vmSizes", list_sizes),
    Route("GET", f"{_LOCATION}/usages", fixed(lambda _context: {"value": []})),  # no quotas
    Route("GET", f"{ALL_COMPUTE}/skus", _all_skus),
)
