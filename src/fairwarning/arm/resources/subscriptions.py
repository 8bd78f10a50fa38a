"""The subscription, its tenant, regions, providers and resources."""

from collections.abc import Collection

from starlette.responses import Response

from fairwarning.arm.http.context import PAGE, ArmContext, decode_skip_token, encode_skip_token
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import GROUP, SUBSCRIPTION, Route
from fairwarning.arm.resources import autoscale, documents, network
from fairwarning.arm.resources.maintenance_assignments import CONFIGURATION
from fairwarning.arm.resources.providers import (
    PROVIDERS,
    REGIONS,
    canonical_namespace,
    regions,
)
from fairwarning.core.times import iso
from fairwarning.service import resources
from fairwarning.service.config.settings import TENANT
from fairwarning.service.resources import Resource

# --- The subscription -----------------------------------------------------------------------------


async def _subscriptions(context: ArmContext, _request: ArmRequest) -> Response:
    return json_response(
        {"value": [_subscription(context)], "count": {"type": "Total", "value": 1}}
    )


async def _get(context: ArmContext, _request: ArmRequest) -> Response:
    return json_response(_subscription(context))


def _subscription(context: ArmContext) -> Body:
    name = context.cloud.subscription
    return {
        "id": f"/subscriptions/{name}",
        "subscriptionId": name,
        "tenantId": TENANT,
        "displayName": "Fairwarning",
        "state": "Enabled",
        "subscriptionPolicies": {
            "locationPlacementId": "Public_2014-09-01",
            "quotaId": "PayAsYouGo_2014-09-01",
            "spendingLimit": "Off",
        },
        "authorizationSource": "RoleBased",
        "managedByTenants": [],
    }


async def _tenants(_context: ArmContext, _request: ArmRequest) -> Response:
    tenant = {
        "id": f"/tenants/{TENANT}",
        "tenantId": TENANT,
        "displayName": "Fairwarning",
        "tenantCategory": "Home",
        "tenantType": "AAD",
        "defaultDomain": "fairwarning.invalid",
        "domains": ["fairwarning.invalid"],
    }
    return json_response({"value": [tenant]})


# --- Regions --------------------------------------------------------------------------------------


async def _locations(context: ArmContext, _request: ArmRequest) -> Response:
    parent = f"/subscriptions/{context.cloud.subscription}/locations"
    return json_response({"value": [_location(parent, name) for name in regions(context.cloud)]})


def _location(parent: str, name: str) -> Body:
    display, group = REGIONS.get(name, (name, "Local"))
    return {
        "id": f"{parent}/{name}",
        "name": name,
        "type": "Region",
        "displayName": display,
        "regionalDisplayName": f"({group}) {display}",
        "metadata": {
            "regionType": "Physical",
            "regionCategory": "Recommended",
            "geography": group,
            "geographyGroup": group,
            "physicalLocation": display,
            "pairedRegion": [],
        },
    }


# --- Providers ------------------------------------------------------------------------------------

_PROVIDER_EXPANDED = ("metadata", "resourceTypes/aliases")  # there are none


async def _providers(context: ArmContext, request: ArmRequest) -> Response:
    parse_expand(request, _PROVIDER_EXPANDED)
    value = [_provider(context, namespace) for namespace in PROVIDERS]
    return list_response(context, request, value, fields={})


async def _get_provider(context: ArmContext, request: ArmRequest) -> Response:
    """Return a provider, also when a client registers it: all are registered."""
    parse_expand(request, _PROVIDER_EXPANDED)
    name = request.params["namespace"]
    namespace = canonical_namespace(name)
    if not namespace:
        text = f"The resource namespace '{name[:80]}' is invalid."
        raise ArmError("InvalidResourceNamespace", text, 404)
    return json_response(_provider(context, namespace))


def _provider(context: ArmContext, namespace: str) -> Body:
    names = regions(context.cloud)
    locations = [REGIONS.get(name, (name, ""))[0] for name in names]
    types = [
        {
            "resourceType": kind,
            "locations": locations,
            "apiVersions": versions,
            "defaultApiVersion": versions[0],
            "capabilities": "None",
        }
        for kind, versions in PROVIDERS[namespace].items()
    ]
    return {
        "id": f"/subscriptions/{context.cloud.subscription}/providers/{namespace}",
        "namespace": namespace,
        "resourceTypes": types,
        "registrationState": "Registered",
        "registrationPolicy": "RegistrationFree",
    }


# --- Resources ------------------------------------------------------------------------------------

# In the order of resource ids, so that a resource id marks a position in the listing. Nested
# resources (instances, subnets) are not listed, as on Azure.
KINDS = sorted(
    (
        resources.MACHINE,
        resources.SCALE_SET,
        resources.AVAILABILITY_SET,
        resources.CLOUD_SERVICE,
        autoscale.KIND,
        CONFIGURATION,
        *network.KINDS,
    ),
    key=resources.id_prefix,
)

_EXPANDED = ("createdTime", "changedTime", "provisioningState")  # the time of creation is unknown
_EXTRA_MEMBERS = frozenset({"sku", "kind", "zones", "identity"})  # copied from the stored body


async def _resources(context: ArmContext, request: ArmRequest) -> Response:
    """List a page of all resources: of a group, or all that the client may read."""
    group = request.params.get("group", "")
    if group:
        await context.group(group)
    expanded = parse_expand(request, _EXPANDED)
    after = decode_skip_token(request.query("$skiptoken"))
    rows = await _page(context, group or request.principal.group, after)
    value = [_entry(context, kind, resource, expanded) for kind, resource in rows[:PAGE]]
    token = encode_skip_token(rows[PAGE - 1][1].id) if len(rows) > PAGE else ""
    return list_response(context, request, value, token)


async def _page(context: ArmContext, group: str, after: str) -> list[tuple[str, Resource]]:
    """Return the kinds and resources after an id: a page, and one more if there are more."""
    rows: list[tuple[str, Resource]] = []
    for kind in KINDS:
        prefix = resources.id_prefix(kind, group)
        start = after if after.startswith(prefix) else prefix
        room = PAGE + 1 - len(rows)
        if room and start >= after:
            page = await context.fleet.reader.resources(prefix, start, room)
            rows += [(kind, resource) for resource in page]
    return rows


def _entry(context: ArmContext, kind: str, resource: Resource, expanded: Collection[str]) -> Body:
    """Return a resource without its properties, and the members that `$expand` names."""
    times = {
        "provisioningState": "Deleting" if resource.removed_by else "Succeeded",
        "changedTime": iso(int(resource.written_at)),
    }
    body = documents.stored_body(resource)
    extra = {key: value for key, value in body.items() if key in _EXTRA_MEMBERS}
    return {
        "id": context.arm_id(kind, resource.group, resource.name),
        "name": resource.name,
        "type": kind,
        "location": body.get("location", context.cloud.location),
        "tags": body.get("tags", {}),
        **extra,
        **{name: value for name, value in times.items() if name in expanded},
    }


_PROVIDER = f"{SUBSCRIPTION}/providers/{{namespace}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/subscriptions", _subscriptions),
    Route("GET", SUBSCRIPTION, _get),
    Route("GET", "/tenants", _tenants),
    Route("GET", f"{SUBSCRIPTION}/locations", _locations),
    Route("GET", f"{SUBSCRIPTION}/providers", _providers),
    Route("GET", _PROVIDER, _get_provider),
    Route("POST", f"{_PROVIDER}/register", _get_provider),
    Route("GET", f"{SUBSCRIPTION}/resources", _resources),
    Route("GET", f"{GROUP}/resources", _resources),
)
