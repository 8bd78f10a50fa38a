"""What there is in all: the subscription, its regions, providers and resources."""

import re
from collections.abc import Callable, Mapping

from starlette.responses import Response

from fairwarning.arm.http.context import PAGE, ArmContext, place_of, skip_token
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, answer
from fairwarning.arm.http.routes import GROUP, SUBSCRIPTION, Route
from fairwarning.arm.resources import documents, network
from fairwarning.arm.resources.providers import PROVIDERS, REGIONS, plain, regions, spelt
from fairwarning.service import resources
from fairwarning.service.config.settings import TENANT
from fairwarning.service.resources import Resource

# --- The subscription -----------------------------------------------------------------------------


async def _subscriptions(plane: ArmContext, _call: ArmRequest) -> Response:
    return answer({"value": [_subscription(plane)], "count": {"type": "Total", "value": 1}})


async def _get(plane: ArmContext, _call: ArmRequest) -> Response:
    return answer(_subscription(plane))


def _subscription(plane: ArmContext) -> Body:
    name = plane.cloud.subscription
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


async def _tenants(_plane: ArmContext, _call: ArmRequest) -> Response:
    tenant = {
        "id": f"/tenants/{TENANT}",
        "tenantId": TENANT,
        "displayName": "Fairwarning",
        "tenantCategory": "Home",
        "tenantType": "AAD",
        "defaultDomain": "fairwarning.invalid",
        "domains": ["fairwarning.invalid"],
    }
    return answer({"value": [tenant]})


# --- Regions --------------------------------------------------------------------------------------


async def _locations(plane: ArmContext, _call: ArmRequest) -> Response:
    home = f"/subscriptions/{plane.cloud.subscription}/locations"
    return answer({"value": [_location(home, name) for name in regions(plane.cloud)]})


def _location(home: str, name: str) -> Body:
    display, group = REGIONS.get(name, (name, "Local"))
    return {
        "id": f"{home}/{name}",
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


async def _providers(plane: ArmContext, _call: ArmRequest) -> Response:
    return answer({"value": [_provider(plane, namespace) for namespace in PROVIDERS]})


async def _one_provider(plane: ArmContext, call: ArmRequest) -> Response:
    """A provider; registering one tells the same, as all of them are."""
    given = call.params["namespace"]
    namespace = spelt(given)
    if not namespace:
        text = f"The resource namespace '{given[:80]}' is invalid."
        raise ArmError("InvalidResourceNamespace", text, 404)
    return answer(_provider(plane, namespace))


def _provider(plane: ArmContext, namespace: str) -> Body:
    names = regions(plane.cloud)
    locations = [REGIONS.get(name, (name, ""))[0] for name in names]
    types = [
        {
            "resourceType": kind,
            "locations": locations,
            "apiVersions": known,
            "defaultApiVersion": known[0],
            "capabilities": "None",
        }
        for kind, known in PROVIDERS[namespace].items()
    ]
    return {
        "id": f"/subscriptions/{plane.cloud.subscription}/providers/{namespace}",
        "namespace": namespace,
        "resourceTypes": types,
        "registrationState": "Registered",
        "registrationPolicy": "RegistrationFree",
    }


# --- Resources ------------------------------------------------------------------------------------

# In the order of their ids, so that a place in the listing is told by an id. What is a part of
# another resource (an instance, a subnet) is not listed, as on Azure.
_KINDS = sorted(
    (
        resources.MACHINE,
        resources.SCALE_SET,
        resources.AVAILABILITY_SET,
        resources.CLOUD_SERVICE,
        *network.KINDS,
    ),
    key=resources.id_prefix,
)

_TOLD = frozenset({"sku", "kind", "zones", "identity"})  # of what was written, beside the usual

Condition = Callable[[Body, Resource], bool]

_EQUAL = r"(\w{1,20}) eq '([^']{0,300})'"
_TERM = re.compile(_EQUAL, re.IGNORECASE)
_FILTER = re.compile(rf"(?:{_EQUAL}(?: and {_EQUAL})*)?", re.IGNORECASE)
_CONDITIONS: Mapping[str, Callable[[str], Condition]] = {
    "resourcetype": lambda value: lambda shown, _: str(shown["type"]).lower() == value.lower(),
    "name": lambda value: lambda shown, _: str(shown["name"]).lower() == value.lower(),
    "location": lambda value: lambda shown, _: plain(str(shown["location"])) == plain(value),
    "resourcegroup": lambda value: lambda _, one: one.group.lower() == value.lower(),
    "tagname": lambda value: lambda shown, _: value in shown["tags"],
    "tagvalue": lambda value: lambda shown, _: value in shown["tags"].values(),
}


async def _resources(plane: ArmContext, call: ArmRequest) -> Response:
    """All resources, of a group or that the caller may see, a page at a time."""
    group = call.params.get("group", "")
    if group:
        await plane.group(group)
    conditions = _conditions(call.query("$filter"))
    found = await _page(plane, group or call.principal.group, place_of(call.query("$skiptoken")))
    shown = ((one, _shown(plane, kind, one)) for kind, one in found[:PAGE])
    value = [body for one, body in shown if all(true(body, one) for true in conditions)]
    token = skip_token(found[PAGE - 1][1].id) if len(found) > PAGE else ""
    return answer({"value": value, **plane.next_link(call, token)})


async def _page(plane: ArmContext, group: str, after: str) -> list[tuple[str, Resource]]:
    """Resources past a place, with their kinds; one more than a page if there are more."""
    found: list[tuple[str, Resource]] = []
    for kind in _KINDS:
        prefix = resources.id_prefix(kind, group)
        start = after if after.startswith(prefix) else prefix
        room = PAGE + 1 - len(found)
        if room and start >= after:
            page = await plane.fleet.reader.resources(prefix, start, room)
            found += [(kind, resource) for resource in page]
    return found


def _shown(plane: ArmContext, kind: str, resource: Resource) -> Body:
    body = documents.written(resource)
    kept = {key: value for key, value in body.items() if key in _TOLD}
    return {
        "id": plane.path(kind, resource.group, resource.name),
        "name": resource.name,
        "type": kind,
        "location": body.get("location", plane.cloud.location),
        "tags": body.get("tags", {}),
        **kept,
    }


def _conditions(given: str) -> list[Condition]:
    """What a $filter asks for: equalities, all of which have to hold."""
    terms = _TERM.findall(given)
    known = all(name.lower() in _CONDITIONS for name, _ in terms)
    if not known or _FILTER.fullmatch(given) is None:
        text = (
            f"The $filter is not supported here; it may be NAME eq 'VALUE', or several joined by "
            f"'and', of {', '.join(_CONDITIONS)}."
        )
        raise ArmError("InvalidFilterInQueryString", text)
    return [_CONDITIONS[name.lower()](value) for name, value in terms]


_PROVIDER = f"{SUBSCRIPTION}/providers/{{namespace}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/subscriptions", _subscriptions),
    Route("GET", SUBSCRIPTION, _get),
    Route("GET", "/tenants", _tenants),
    Route("GET", f"{SUBSCRIPTION}/locations", _locations),
    Route("GET", f"{SUBSCRIPTION}/providers", _providers),
    Route("GET", _PROVIDER, _one_provider),
    Route("POST", f"{_PROVIDER}/register", _one_provider),
    Route("GET", f"{SUBSCRIPTION}/resources", _resources),
    Route("GET", f"{GROUP}/resources", _resources),
)
