"""The subscription, its tenant, regions, providers and resources."""

from collections.abc import Collection, Sequence
from typing import Any

from starlette.responses import Response

from fairwarning.arm.catalogue import api_versions, document, read
from fairwarning.arm.compute.images import region_names
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.listing import (
    decode_skip_token,
    encode_skip_token,
    list_response,
    parse_expand,
)
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import GROUP, SUBSCRIPTION, Route, fixed
from fairwarning.arm.types import documents
from fairwarning.arm.types.context import PAGE, PAGE_CHARACTERS, STORED, ArmContext, Page
from fairwarning.arm.types.resource_type import ResourceTypes
from fairwarning.core.model import Resource
from fairwarning.core.times import iso
from fairwarning.service import resources
from fairwarning.service.config.settings import TENANT

_PROVIDER_EXPANDED = ("metadata", "resourceTypes/aliases")  # there are none
_EXPANDED = ("createdTime", "changedTime", "provisioningState")  # the time of creation is unknown
_SLASHES = 2  # in the name of a stored resource that is not nested: Microsoft.Web/sites/one
_EXTRA_MEMBERS = frozenset({"sku", "kind", "zones", "identity"})  # copied from the stored body


def _subscriptions(context: ArmContext) -> Body:
    return {"value": [_subscription(context)], "count": {"type": "Total", "value": 1}}


def _subscription(context: ArmContext) -> Body:
    return document("subscription", subscription=context.cloud.subscription, tenant=TENANT)


def _tenants(_context: ArmContext) -> Body:
    return {"value": [document("tenant", tenant=TENANT)]}


def _locations(context: ArmContext) -> Body:
    subscription = context.cloud.subscription
    regions = [_region(name) for name in region_names(context.cloud)]
    value = [document("location", subscription=subscription, **region) for region in regions]
    return {"value": value}


def _region(name: str) -> dict[str, Any]:
    known = (region for region in read("catalogue")["regions"] if region["name"] == name)
    return next(known, {"name": name, "display": name, "geography": "Local"})


def _known_types(types: ResourceTypes) -> dict[str, list[str]]:
    nested = (f"{kind.name}/{part}" for kind in types for part in kind.nested)
    namespaces: dict[str, list[str]] = {}
    for name in sorted(
        [*(kind.name for kind in types), *nested, *read("documents")["withoutResources"]]
    ):
        namespace, _, kind = name.partition("/")
        namespaces.setdefault(namespace, []).append(kind)
    return namespaces


async def _providers(context: ArmContext, request: ArmRequest) -> Response:
    parse_expand(request, _PROVIDER_EXPANDED)
    known = _known_types(context.types)
    value = [_provider(context, namespace, kinds) for namespace, kinds in known.items()]
    return list_response(request, value, fields={})


async def _get_provider(context: ArmContext, request: ArmRequest) -> Response:
    """Return a provider, also when a client registers it: all are registered."""
    parse_expand(request, _PROVIDER_EXPANDED)
    name = request.params["namespace"]
    if "." not in name:
        raise azure_error("InvalidResourceNamespace", name=name[:80])
    known = _known_types(context.types)
    namespace = next((known_ for known_ in known if known_.lower() == name.lower()), name[:80])
    return json_response(_provider(context, namespace, known.get(namespace, ())))


def _provider(context: ArmContext, namespace: str, kinds: Sequence[str]) -> Body:
    versions = api_versions(namespace)
    locations = [_region(name)["display"] for name in region_names(context.cloud)]
    types = [
        document(
            "providerType", kind=kind, locations=locations, versions=versions, default=versions[0]
        )
        for kind in kinds
    ]
    subscription = context.cloud.subscription
    return document("provider", subscription=subscription, namespace=namespace, types=types)


async def _resources(context: ArmContext, request: ArmRequest) -> Response:
    """List a page of all resources: of a group, or all that the client may read."""
    group = request.params.get("group", "")
    if group:
        await context.group(group)
    expanded = parse_expand(request, _EXPANDED)
    after = decode_skip_token(request.query("$skiptoken"))
    rows, token = await _page(context, group or request.principal.group, after)
    value = [
        _entry(context, row, expanded)
        for row in rows
        if not row.id.startswith(f"{STORED}:") or row.name.count("/") == _SLASHES
    ]
    return list_response(request, value, token)


async def _page(context: ArmContext, group: str, after: str) -> Page:
    """Return a page of the resources after an id.

    The kinds are in the order of ids, so that an id marks a position in the listing. Nested
    resources (instances, subnets) are not listed, as on Azure.
    """
    rows: list[Resource] = []
    kinds = [kind.name for kind in context.types if kind.listed] + [STORED]
    for prefix in sorted(resources.id_prefix(kind, group) for kind in kinds):
        start = after if after.startswith(prefix) else prefix
        if start < after:
            continue
        if len(rows) == PAGE:  # there may be more
            return rows, encode_skip_token(rows[-1].id)
        page, more = await context.read_rows(prefix, start, PAGE - len(rows))
        rows += page
        if more or sum(len(row.body) for row in rows) > PAGE_CHARACTERS:
            return rows, encode_skip_token(rows[-1].id)
    return rows, ""


def _entry(context: ArmContext, row: Resource, expanded: Collection[str]) -> Body:
    """Return a resource without its properties, and the members that `$expand` names."""
    times = {"provisioningState": documents.state(row), "changedTime": iso(int(row.written_at))}
    body, path = documents.stored_body(row), context.path_of(row)
    kind = context.types.canonical(row.id.partition(":")[0])
    extra = {key: value for key, value in body.items() if key in _EXTRA_MEMBERS}
    return {
        "id": path,
        "name": path.rpartition("/")[2],
        "type": body.get("type", kind),  # of a stored resource, as written
        "location": body.get("location", context.cloud.location),
        "tags": body.get("tags", {}),
        **extra,
        **{name: value for name, value in times.items() if name in expanded},
    }


_PROVIDER = f"{SUBSCRIPTION}/providers/{{namespace}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/subscriptions", fixed(_subscriptions)),
    Route("GET", SUBSCRIPTION, fixed(_subscription)),
    Route("GET", "/tenants", fixed(_tenants)),
    Route("GET", f"{SUBSCRIPTION}/locations", fixed(_locations)),
    Route("GET", f"{SUBSCRIPTION}/providers", _providers),
    Route("GET", _PROVIDER, _get_provider),
    Route("POST", f"{_PROVIDER}/register", _get_provider),
    Route("GET", f"{SUBSCRIPTION}/resources", _resources),
    Route("GET", f"{GROUP}/resources", _resources),
)
