"""A fleet with a resource of every type, and a valid request for every route.

with Everything() as arm:
    for request in arm.requests():
        assert arm.call(request).status < 300  (with a new fleet for each request that writes)
"""

import json
import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from fairwarning.arm.http.routes import GROUP, SUBSCRIPTION, Route
from fairwarning.arm.registry import TYPES
from fairwarning.arm.types.names import INSTANCE, LOCKS
from fairwarning.arm.types.names import MACHINE as MACHINE_KIND
from fairwarning.core.commands import Maintain
from fairwarning.core.model import Operation
from fairwarning.service.config.settings import TENANT, CloudSettings
from fairwarning.service.tokens import Principal, Role
from fairwarning.store.memory import MemoryStore
from tests.fixtures.arm import OPERATOR, ArmHarness
from tests.fixtures.fleet import all_entities
from tests.fixtures.http import Response

OURS, THEIRS = "Ours", "Theirs"
"""Two resource groups with the same resources."""
ANN = Principal(name="ann", role=Role.TENANT, group="ours")
BOB = Principal(name="bob", role=Role.TENANT, group="theirs")
READER = Principal(name="eve", role=Role.READER)

Json = dict[str, Any]

_BASE = {"location": "local", "tags": {"owner": "somebody"}}
_SPOT = {"priority": "Spot", "evictionPolicy": "Delete"}
_NAT = {"properties": {"protocol": "Tcp", "frontendPort": 50_000}}
_SUBNET = {"properties": {"addressPrefix": "10.7.0.0/24"}}

_BODIES: Mapping[str, Json] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
MACHINE, SET, TEMPLATE, EXTENSION = (
    _BODIES[name] for name in ("machine", "scale_set", "template", "extension")
)
AVAILABILITY: Json = {
    **_BASE,
    "properties": {"platformUpdateDomainCount": 3, "platformFaultDomainCount": 2},
}
PROTECTION: Json = {
    "properties": {
        "protectionPolicy": {"protectFromScaleIn": True, "protectFromScaleSetActions": False}
    }
}
NETWORKS: Mapping[str, Json] = {
    "virtualNetworks": {
        "subnets": [{"name": "part", **_SUBNET}],
        "virtualNetworkPeerings": [{"name": "part"}],
    },
    "loadBalancers": {
        "backendAddressPools": [{"name": "part"}],
        "inboundNatRules": [{"name": "part", **_NAT}],
        "probes": [{"name": "p"}],
    },
}
STORED_BODY: Json = {**_BASE, "sku": {"name": "Standard_LRS"}, "properties": {"word": "as written"}}
RUN_COMMAND: Json = {"location": "local", "properties": {"source": {"script": "true"}}}
INSTANCES: Json = {"instanceIds": ["0"]}


@dataclass(frozen=True)
class RouteRequest:
    """A valid request for a route."""

    route: Route
    path: str
    params: Mapping[str, str]
    body: Json | None = None

    @property
    def label(self) -> str:
        """Its name in a failed assertion."""
        return f"{self.route.method} {self.route.path}"

    @property
    def names_nothing(self) -> bool:
        """Whether it reads or deletes a lock. There is none: it would refuse other requests."""
        return self.route.path.endswith("/locks/{name}") and self.route.method != "PUT"

    def at(self, **params: str) -> "RouteRequest":
        """Return the same request with other path parameters."""
        merged = {**self.params, **params}
        return replace(self, path=fill_path(self.route.path, merged), params=merged)


class Everything(ArmHarness):
    """The control plane of a fleet with a resource of every type."""

    def call(
        self,
        request: RouteRequest,
        *,
        principal: Principal | None = None,
        **options: Any,  # noqa: ANN401  (the arguments of `request`)
    ) -> Response:
        """Send the request, with the token of this principal or of the operator."""
        return self.request(
            request.route.method, f"/{request.path}", request.body, principal=principal, **options
        )

    def requests(self) -> list[RouteRequest]:
        """Return a request for each route that needs a token."""
        return [self.request_for(route) for route in self.routes() if not route.public]

    def routes(self) -> list[Route]:
        """Return the routes of the table, and those that follow from the resource types."""
        return [*self.app.table.routes, *resource_routes()]

    def request_for(self, route: Route) -> RouteRequest:
        """Return a request for this route."""
        params = {name: self._value(route, name) for name in re.findall(r"{(\w+)}", route.path)}
        body = self._body(route)
        return RouteRequest(route, fill_path(route.path, params), params, body)

    def _value(self, route: Route, name: str) -> str:
        if name == "set":
            return _SET_FOR_ACTION.get(route.path.rpartition("/")[2], "web")
        if name in _FIXED:
            return _FIXED[name]
        if name == "name":
            return self._name(route)
        if name == "event":
            return next(iter(self.scope(f"{OURS}:planned").events))
        deployment = self.get(f"/resourceGroups/{OURS}/{_DEPLOYMENT}").json
        return str(deployment["properties"]["correlationId"])

    def _name(self, route: Route) -> str:
        parent, _, last = route.path.partition("/{name}")
        kind = parent.rpartition("/")[2]
        if kind == "operations":
            return self._operation()
        if kind == "virtualMachines" and "ScaleSets" in parent:
            return "0"
        if kind == "tags":
            return "default"
        action = last.rpartition("/")[2] if route.method == "POST" else route.method
        return _NAME_FOR_ACTION.get((kind, action)) or _DEFAULT_NAME.get(kind, "one")

    def _operation(self) -> str:
        """Return the id of an operation of Ann's."""
        entities = self.run(all_entities(self.store)).values()
        return next(
            entity.id
            for entity in entities
            if isinstance(entity, Operation) and entity.actor == ANN.name
        )

    def _body(self, route: Route) -> Json | None:
        last = route.path.rpartition("/")[2]
        if route.method in {"PUT", "PATCH"}:
            return body_for(route)
        if last == "acknowledge" and "{event}" not in route.path:
            return {"value": [next(iter(self.scope(f"{OURS}:planned").events))]}
        if last == "batch":
            url = f"/subscriptions/{_FIXED['subscription']}?api-version=2024-11-01"
            return {"requests": [{"httpMethod": "GET", "name": "one", "url": url}]}
        if last == "validate":
            return TEMPLATE
        if last in {"delete", "manualupgrade", "performmaintenance"}:
            return INSTANCES
        return None


_AUTOSCALE = "Microsoft.Insights/autoscaleSettings"
_DEPLOYMENT = "providers/Microsoft.Resources/deployments/one"
_FIXED: Mapping[str, str] = {
    "subscription": CloudSettings().subscription,
    "group": OURS,
    "location": "local",
    "namespace": "Microsoft.Compute",
    "publisher": "Canonical",
    "offer": "ubuntu-24_04-lts",
    "sku": "server",
    "version": "latest",
    "kind": "virtualMachines",
    "parent": "one",
    "machine": "0",
    "interface": "nic",
    "tenant": TENANT,
    "resource": "one",
}
_DEFAULT_NAME = {
    "virtualMachineScaleSets": "web",
    "{kind}": "planned",
} | {part: "part" for kind in TYPES for part in kind.nested}
_SET_FOR_ACTION = {"simulateeviction": "spots", "performmaintenance": "plans"}
_NAME_FOR_ACTION = {
    ("virtualMachines", "simulateeviction"): "spot",
    ("virtualMachines", "performmaintenance"): "planned",
    ("virtualMachineScaleSets", "performmaintenance"): "plans",
    ("availabilitySets", "DELETE"): "empty",
}


def fill_path(path: str, params: Mapping[str, str]) -> str:
    """Return a route's path with these parameters."""
    return re.sub(r"{(\w+)}", lambda match: params[match[1]], path)


NETWORK_KINDS = [
    kind.name for kind in TYPES if kind.listed and kind.name.startswith("Microsoft.Network/")
]
STORED_KINDS = (_AUTOSCALE, "Microsoft.Storage/storageAccounts")
"""Two of the types that are only stored."""
_NESTED_STORED = (f"{MACHINE_KIND}/extensions", f"{INSTANCE}/runCommands")
_ROLES = "Microsoft.Authorization/roleAssignments"
_OF_RESOURCES = (_ROLES, LOCKS, "Microsoft.Resources/tags")


async def _no_handler(_context: object, _request: object) -> NoReturn:
    raise AssertionError


def resource_routes() -> Iterator[Route]:
    """Yield the routes that follow from the resource types, and some of stored types."""
    for kind in TYPES:
        if kind.listed:
            yield Route("GET", f"{SUBSCRIPTION}/providers/{kind.name}", _no_handler)
        if kind.name in _OF_RESOURCES:
            continue
        yield from _routes_of(kind.name, patched=kind.patched)
        item = _item(kind.name)
        for action in kind.actions:
            yield Route("POST", f"{item}/{action}", _no_handler)
        for view in kind.views:
            yield Route("GET", f"{item}/{view}", _no_handler)
        for part in kind.nested:
            yield from _routes_of(f"{kind.name}/{part}")
    for name in (*STORED_KINDS, *_NESTED_STORED):
        yield from _routes_of(name)
    for name in _OF_RESOURCES:
        patched = name != LOCKS
        for scope in (SUBSCRIPTION, GROUP, _item(MACHINE_KIND).replace("{name}", "{resource}")):
            wide = scope == SUBSCRIPTION
            yield from _routes_of(name, f"{scope}/providers/", wide=wide, patched=patched)


def _item(kind: str, home: str = f"{GROUP}/providers/") -> str:
    namespace, *types = kind.split("/")
    names = ["{name}"] if len(types) == 1 else ["{set}", "{name}"]
    if kind == f"{INSTANCE}/runCommands":
        names = ["{set}", "{machine}", "{name}"]
    elif len(types) > 1 and kind != INSTANCE:
        names = ["{parent}", "{name}"]
    return f"{home}{namespace}/" + "/".join(f"{t}/{n}" for t, n in zip(types, names, strict=True))


def _routes_of(
    kind: str, home: str = f"{GROUP}/providers/", *, wide: bool = False, patched: bool = True
) -> Iterator[Route]:
    item = _item(kind, home)
    if not kind.endswith("/tags"):
        yield Route("GET", item.removesuffix("/{name}"), _no_handler)
    for method in ("GET", "PUT", "PATCH", "DELETE") if patched else ("GET", "PUT", "DELETE"):
        yield Route(method, item, _no_handler, subscription_wide=wide)


def body_for(route: Route) -> Json:
    """Return a valid body for a PUT or PATCH of this route."""
    path = route.path
    if path.endswith("/tags/{name}"):
        operation = {"operation": "Merge"} if route.method == "PATCH" else {}
        return {**operation, "properties": {"tags": {"new": "tag"}}}
    if path.endswith("/locks/{name}"):
        return {"properties": {"level": "CanNotDelete", "notes": "keep it"}}
    if path.endswith("/extensions/{name}"):
        return EXTENSION
    if path.endswith("/runCommands/{name}"):
        return RUN_COMMAND
    if path.endswith("/resourceGroups/{group}"):
        return dict(_BASE)
    if "virtualMachineScaleSets/{set}" in path:
        return PROTECTION
    kind = path.removesuffix("/{name}").rpartition("/")[2]
    parts: Mapping[str, Json] = {
        "subnets": _SUBNET,
        "inboundNatRules": _NAT,
        "backendAddressPools": {"properties": {}},
        "virtualNetworkPeerings": {"properties": {"allowVirtualNetworkAccess": True}},
    }
    compute: Mapping[str, Json] = {
        "virtualMachines": MACHINE,
        "virtualMachineScaleSets": SET,
        "availabilitySets": AVAILABILITY,
        "deployments": TEMPLATE,
        **parts,
    }
    if any(f"/{stored}/{{" in path for stored in STORED_KINDS) or "roleAssignments" in path:
        return STORED_BODY
    return compute.get(kind) or _network_body(kind, OURS)


# --- The fleet ------------------------------------------------------------------------------------


def fill(arm: ArmHarness) -> None:
    """Create a resource of every type in both groups, each by the tenant of its group."""
    assert arm.put(f"/providers/{_ROLES}/one", STORED_BODY).status == 201
    for principal, group in ((ANN, OURS), (BOB, THEIRS)):
        home = f"/resourceGroups/{group}"
        compute = f"{home}/providers/Microsoft.Compute"
        spot: Json = {**_BASE, "properties": _SPOT}
        spots = {**_BASE, "sku": ONE_INSTANCE, "properties": {"virtualMachineProfile": _SPOT}}
        owner = {"availabilitySet": {"id": f"{_SUBSCRIPTION}{compute}/availabilitySets/av"}}
        for path, body in (
            (home, _BASE),
            (f"{compute}/virtualMachines/one", MACHINE),
            (f"{compute}/virtualMachines/spot", spot),
            (f"{compute}/virtualMachines/planned", _BASE),
            (f"{compute}/availabilitySets/one", AVAILABILITY),
            (f"{compute}/availabilitySets/empty", AVAILABILITY),
            (f"{compute}/availabilitySets/av", AVAILABILITY),
            (f"{compute}/virtualMachines/inside", {**_BASE, "properties": owner}),
            (f"{compute}/virtualMachineScaleSets/web", SET),
            (f"{compute}/virtualMachineScaleSets/spots", spots),
            (f"{compute}/virtualMachineScaleSets/plans", {**_BASE, "sku": ONE_INSTANCE}),
            (f"{home}/{_DEPLOYMENT}", TEMPLATE),
            *((f"{home}/providers/{kind}/one", STORED_BODY) for kind in STORED_KINDS),
            (f"{compute}/virtualMachines/one/extensions/one", EXTENSION),
            *(
                (f"{scope}/providers/{_ROLES}/one", STORED_BODY)
                for scope in (home, f"{compute}/virtualMachines/one")
            ),
            (
                f"{compute}/virtualMachineScaleSets/web/virtualMachines/0/runCommands/one",
                RUN_COMMAND,
            ),
            (f"{home}/providers/{_SHARED}", _network_body("virtualNetworks", group)),
            *(
                (f"{home}/providers/{kind}/one", _network_body(kind, group))
                for kind in (*NETWORK_KINDS, "Microsoft.Compute/disks")
            ),
        ):
            response = arm.put(path, body, principal=principal)
            assert response.status in {200, 201}, (path, response.body)
        for scope, machine in ((f"{group}:planned", "planned"), (f"{group}:plans/0", "plans_0")):
            arm.poll(scope)
            arm.do(Maintain(scope=scope, operation=f"{group}-{machine}", machines=(machine,)))
        for name in ("one", "inside"):
            path = f"{compute}/virtualMachines/{name}/powerOff"
            response = arm.post(path, principal=principal)
            assert response.status == 202, response.body
    arm.advance(120)


ONE_INSTANCE = {"name": "Standard_B1s", "capacity": 1}
_SUBSCRIPTION = f"/subscriptions/{CloudSettings().subscription}"


_SHARED = "Microsoft.Network/virtualNetworks/shared"  # in use, so that it cannot be deleted


def _network_body(kind: str, group: str) -> Json:
    kind = kind.rpartition("/")[2]
    properties = NETWORKS.get(kind, {"x": 1})
    if kind == "networkInterfaces":
        home = f"{_SUBSCRIPTION}/resourceGroups/{group}/providers"
        inner = {"subnet": {"id": f"{home}/{_SHARED}/subnets/part"}}
        properties = {"ipConfigurations": [{"name": "first", "properties": inner}]}
    return {**_BASE, "properties": properties}


class FleetSnapshot:
    """A filled fleet, which is created once and restored for each test."""

    def __init__(self) -> None:
        store = MemoryStore()
        with Everything(store=store) as arm:
            fill(arm)
        self._store = pickle.dumps(store)

    def store(self) -> MemoryStore:
        """Return a copy of the store of the filled fleet."""
        copy: MemoryStore = pickle.loads(self._store)
        return copy

    @contextmanager
    def restore(self) -> Iterator[Everything]:
        """Start a copy of the filled fleet."""
        with Everything(store=self.store()) as arm:
            yield arm


# --- State ----------------------------------------------------------------------------------------


def state(arm: ArmHarness) -> tuple[object, ...]:
    """Return the whole state of a fleet, to compare."""
    entities = arm.run(all_entities(arm.store))
    return entities, len(arm.journal()), list(arm.driver.impacts), arm.clock.now()


__all__ = ["OPERATOR"]  # for the tests that use everything
