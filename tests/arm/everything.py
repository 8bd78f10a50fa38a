"""A fleet with one of everything, and a request for every route of the control plane that works.

with Everything() as arm:
    for one in arm.requests():
        assert arm.call(one).status < 300  (on a fleet of its own each, if it writes)
"""

import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fairwarning.arm.http.routes import Route
from fairwarning.arm.resources import network
from fairwarning.core.commands import Maintain
from fairwarning.core.model import (
    Operation,
)
from fairwarning.service.config.settings import TENANT, CloudSettings
from fairwarning.service.tokens import Principal, Role
from fairwarning.store.memory import MemoryStore
from tests.fixtures.arm import OPERATOR, ArmHarness
from tests.fixtures.fleet import all_entities
from tests.fixtures.http import Response

OURS, THEIRS = "Ours", "Theirs"
"""Two resource groups with the same things in them."""
ANN = Principal(name="ann", role=Role.TENANT, group="ours")
BOB = Principal(name="bob", role=Role.TENANT, group="theirs")
READER = Principal(name="eve", role=Role.READER)

Json = dict[str, Any]

_NOTICE = {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": "PT5M"}}
_POLICY = {"userInitiatedReboot": {"automaticallyApprove": True}}
_PLACE = {"location": "local", "tags": {"owner": "somebody"}}
_SPOT = {"priority": "Spot", "evictionPolicy": "Delete"}
_MODEL = {"osProfile": {"computerNamePrefix": "w"}, "scheduledEventsProfile": _NOTICE}
_RULE = {"properties": {"protocol": "Tcp", "access": "Allow", "priority": 100}}
_NAT = {"properties": {"protocol": "Tcp", "frontendPort": 50_000}}
_SUBNET = {"properties": {"addressPrefix": "10.7.0.0/24"}}

MACHINE: Json = {
    **_PLACE,
    "zones": ["1"],
    "properties": {
        "hardwareProfile": {"vmSize": "Standard_B2s"},
        "osProfile": {"computerName": "one", "adminPassword": "never-kept"},
        "scheduledEventsProfile": _NOTICE,
        "scheduledEventsPolicy": _POLICY,
    },
}
SET: Json = {
    **_PLACE,
    "sku": {"name": "Standard_B2s", "capacity": 2},
    "properties": {
        "orchestrationMode": "Flexible",
        "upgradePolicy": {"mode": "Manual"},
        "scaleInPolicy": {"rules": ["OldestVM"]},
        "platformFaultDomainCount": 2,
        "virtualMachineProfile": _MODEL,
        "scheduledEventsPolicy": _POLICY,
    },
}
AVAILABILITY: Json = {
    **_PLACE,
    "properties": {"platformUpdateDomainCount": 3, "platformFaultDomainCount": 2},
}
SERVICE: Json = {
    **_PLACE,
    "properties": {
        "roleProfile": {"roles": [{"name": "role", "sku": {"name": "S", "capacity": 2}}]}
    },
}
PROTECTION: Json = {
    "properties": {
        "protectionPolicy": {"protectFromScaleIn": True, "protectFromScaleSetActions": False}
    }
}
NETWORKS: Mapping[str, Json] = {
    "virtualNetworks": {"subnets": [{"name": "part", **_SUBNET}]},
    "networkSecurityGroups": {"securityRules": [{"name": "part", **_RULE}]},
    "loadBalancers": {"inboundNatRules": [{"name": "part", **_NAT}], "probes": [{"name": "p"}]},
    "networkInterfaces": {
        "ipConfigurations": [{"name": "first", "properties": {"subnet": {"id": "/nowhere"}}}]
    },
}
TEMPLATE: Json = {
    "properties": {
        "mode": "Incremental",
        "parameters": {"prefix": {"value": "made"}, "word": {"value": "never-kept"}},
        "template": {
            "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
            "contentVersion": "1.0.0.0",
            "parameters": {
                "prefix": {"type": "string", "defaultValue": "x"},
                "word": {"type": "securestring"},
            },
            "variables": {"network": "[concat(parameters('prefix'), '-net')]"},
            "resources": [
                {
                    "type": "Microsoft.Network/virtualNetworks",
                    "name": "[variables('network')]",
                    "apiVersion": "2024-05-01",
                    "location": "[resourceGroup().location]",
                    "properties": {"subnets": [{"name": "s", **_SUBNET}]},
                },
                {
                    "type": "Microsoft.Compute/virtualMachines",
                    "name": "[concat(parameters('prefix'), '-vm')]",
                    "apiVersion": "2024-11-01",
                    "location": "local",
                    "dependsOn": ["[variables('network')]"],
                    "properties": {
                        "osProfile": {"computerName": "[uniqueString(resourceGroup().id)]"}
                    },
                },
            ],
            "outputs": {
                "where": {
                    "type": "string",
                    "value": "[resourceId('Microsoft.Network/virtualNetworks', 'a')]",
                }
            },
        },
    }
}
INSTANCES: Json = {"instanceIds": ["0"]}
ROLES: Json = {"roleInstances": ["role_IN_0"]}


@dataclass(frozen=True)
class RouteRequest:
    """A request for a route, which works."""

    route: Route
    path: str
    params: Mapping[str, str]
    body: Json | None = None

    @property
    def label(self) -> str:
        """What a failed test calls it."""
        return f"{self.route.method} {self.route.path}"

    def at(self, **params: str) -> "RouteRequest":
        """The same of something else."""
        given = {**self.params, **params}
        return replace(self, path=filled(self.route.path, given), params=given)


class Everything(ArmHarness):
    """The control plane of such a fleet."""

    def call(
        self,
        ask: RouteRequest,
        *,
        principal: Principal | None = None,
        **given: Any,  # noqa: ANN401  (what `request` takes)
    ) -> Response:
        """Send it, with the token of this principal or of the operator."""
        return self.request(
            ask.route.method, f"/{ask.path}", ask.body, principal=principal, **given
        )

    def requests(self) -> list[RouteRequest]:
        """One for each route that wants a token."""
        return [self.request_for(one) for one in self.app.table.routes if not one.public]

    def request_for(self, route: Route) -> RouteRequest:
        """For this route."""
        params = {name: self._value(route, name) for name in _names(route.path)}
        body = self._body(route)
        return RouteRequest(route, filled(route.path, params), params, body)

    def _value(self, route: Route, name: str) -> str:
        if name == "set":
            return _SETS.get(route.path.rpartition("/")[2], "web")
        if name in _FIXED:
            return _FIXED[name]
        if name == "name":
            return self._name(route)
        if name == "event":
            return next(iter(self.scope(f"{OURS}:planned").events))
        deployment = self.get(f"/resourceGroups/{OURS}/{_DEPLOYMENT}").json
        return str(deployment["properties"]["correlationId"])

    def _name(self, route: Route) -> str:
        around, _, last = route.path.partition("/{name}")
        kind = around.rpartition("/")[2]
        if kind == "operations":
            return self._operation()
        if kind == "virtualMachines" and "ScaleSets" in around:
            return "0"
        wanted = last.rpartition("/")[2] if route.method == "POST" else route.method
        return _CHOSEN.get((kind, wanted)) or _USUAL.get(kind, "one")

    def _operation(self) -> str:
        """One of ours."""
        found = self._runner.run(all_entities(self.store))
        return next(
            one.id for one in found.values() if isinstance(one, Operation) and one.actor == ANN.name
        )

    def _body(self, route: Route) -> Json | None:
        last = route.path.rpartition("/")[2]
        if route.method in {"PUT", "PATCH"}:
            return body_for(route)
        if last == "acknowledge" and "{event}" not in route.path:
            return {"value": [next(iter(self.scope(f"{OURS}:planned").events))]}
        if last == "validate":
            return TEMPLATE
        if last in {"delete", "manualupgrade", "performMaintenance"}:
            return ROLES if "cloudServices" in route.path else INSTANCES
        return None


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
    "instance": "role_IN_0",
    "tenant": TENANT,
}
_USUAL = {"virtualMachineScaleSets": "web", "cloudServices": "cloud", "{kind}": "planned"} | {
    part: "part" for kind in network._TABLE for part in kind.nested
}
_SETS = {"simulateEviction": "spots", "performMaintenance": "plans"}
_CHOSEN = {
    ("virtualMachines", "simulateEviction"): "spot",
    ("virtualMachines", "performMaintenance"): "planned",
    ("virtualMachineScaleSets", "performMaintenance"): "plans",
    ("availabilitySets", "DELETE"): "empty",
}


def _names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def filled(path: str, params: Mapping[str, str]) -> str:
    """A route's path with these parameters in it."""
    return re.sub(r"{(\w+)}", lambda found: params[found[1]], path)


def body_for(route: Route) -> Json:
    """What may be written there."""
    path = route.path
    if path.endswith("/resourceGroups/{group}"):
        return dict(_PLACE)
    if "virtualMachineScaleSets/{set}" in path:
        return PROTECTION
    kind = path.removesuffix("/{name}").rpartition("/")[2]
    parts: Mapping[str, Json] = {
        "subnets": _SUBNET,
        "securityRules": _RULE,
        "inboundNatRules": _NAT,
    }
    compute: Mapping[str, Json] = {
        "virtualMachines": MACHINE,
        "virtualMachineScaleSets": SET,
        "availabilitySets": AVAILABILITY,
        "cloudServices": SERVICE,
        "deployments": TEMPLATE,
        **parts,
    }
    return compute.get(kind) or {**_PLACE, "properties": NETWORKS.get(kind, {"x": 1})}


# --- The fleet ------------------------------------------------------------------------------------


def fill(arm: ArmHarness) -> None:
    """Put one of everything into both groups; each thing is its tenant's."""
    for who, group in ((ANN, OURS), (BOB, THEIRS)):
        here = f"/resourceGroups/{group}"
        compute = f"{here}/providers/Microsoft.Compute"
        spot: Json = {**_PLACE, "properties": _SPOT}
        spots = {**_PLACE, "sku": SPOTS, "properties": {"virtualMachineProfile": _SPOT}}
        owner = {"availabilitySet": {"id": f"{_HOME}{compute}/availabilitySets/av"}}
        for path, body in (
            (here, _PLACE),
            (f"{compute}/virtualMachines/one", MACHINE),
            (f"{compute}/virtualMachines/spot", spot),
            (f"{compute}/virtualMachines/planned", _PLACE),
            (f"{compute}/availabilitySets/one", AVAILABILITY),
            (f"{compute}/availabilitySets/empty", AVAILABILITY),
            (f"{compute}/availabilitySets/av", AVAILABILITY),
            (f"{compute}/virtualMachines/inside", {**_PLACE, "properties": owner}),
            (f"{compute}/virtualMachineScaleSets/web", SET),
            (f"{compute}/virtualMachineScaleSets/spots", spots),
            (f"{compute}/virtualMachineScaleSets/plans", {**_PLACE, "sku": SPOTS}),
            (f"{compute}/cloudServices/cloud", SERVICE),
            (f"{here}/{_DEPLOYMENT}", TEMPLATE),
            *((f"{here}/providers/{kind}/one", _kept(kind)) for kind in network.KINDS),
        ):
            made = arm.put(path, body, principal=who)
            assert made.status in {200, 201}, (path, made.body)
        for scope, machine in ((f"{group}:planned", "planned"), (f"{group}:plans/0", "plans_0")):
            arm.poll(scope)
            arm.do(Maintain(scope=scope, operation=f"{group}-{machine}", machines=(machine,)))
        for name in ("one", "inside"):
            done = arm.post(f"{compute}/virtualMachines/{name}/powerOff", principal=who)
            assert done.status == 202, done.body
    arm.advance(120)


SPOTS = {"name": "Standard_B1s", "capacity": 1}
_HOME = f"/subscriptions/{CloudSettings().subscription}"


def _kept(kind: str) -> Json:
    return {**_PLACE, "properties": NETWORKS.get(kind.rpartition("/")[2], {"x": 1})}


class Mould:
    """Fleets like that, as many as are wanted: made once, then copied."""

    def __init__(self) -> None:
        store = MemoryStore()
        with Everything(store=store) as arm:
            fill(arm)
        self._store = pickle.dumps(store)

    @contextmanager
    def cast(self) -> Iterator[Everything]:
        """A fleet with one of everything."""
        with Everything(store=pickle.loads(self._store)) as arm:
            yield arm


# --- Watching -------------------------------------------------------------------------------------


def state(arm: ArmHarness) -> tuple[object, ...]:
    """Everything there is to see."""
    found = arm._runner.run(all_entities(arm.store))
    return found, len(arm.journal()), list(arm.driver.given), arm.clock.now()


__all__ = [
    "ANN",
    "BOB",
    "OPERATOR",
    "OURS",
    "READER",
    "THEIRS",
    "Everything",
    "Mould",
    "RouteRequest",
    "body_for",
    "filled",
    "state",
]  # fmt: skip
