"""Random steps: requests to the control plane, and what happens to machines meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fairwarning.core.commands import Approve, Command, Fail, Maintain, StartRollout
from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import (
    Entity,
    Machine,
    Operation,
    OperationStatus,
    Ref,
    Resource,
    ScaleSet,
    Scope,
    ScopeKind,
)
from fairwarning.service import resources
from tests.fixtures.arm import ArmHarness
from tests.fixtures.fleet import all_entities
from tests.fixtures.http import Response
from tests.hostile.arm_requests import Choices

GROUPS, NAMES = ("g", "g", "g", "H"), ("a", "a", "a", "B")
_ACTIONS = (
    "restart", "redeploy", "reimage", "deallocate", "powerOff", "start", "performMaintenance",
)  # fmt: skip
_NOTICE = {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": "PT5M"}}
_MODELS: tuple[dict[str, Any], ...] = (
    {},
    {"scheduledEventsProfile": _NOTICE},
    {"priority": "Spot"},
    {"priority": "Spot", "evictionPolicy": "Delete"},
)
_STANDING = {
    resources.MACHINE.lower(),
    resources.SCALE_SET.lower(),
    resources.INSTANCE.lower(),
    resources.AVAILABILITY_SET.lower(),
    resources.CLOUD_SERVICE.lower(),
}
_DAYS = 30
_DAY_SECONDS = 24 * 3600


class RandomSteps:
    """A small fleet, and random changes to it."""

    def __init__(self, arm: ArmHarness, choose: Choices) -> None:
        self.arm = arm
        self._choose = choose
        self._rollouts = 0
        self.group = ""
        self.asked: list[tuple[str, str, Response]] = []

    def step(self) -> None:
        self.group = f"/resourceGroups/{self._choose.of(GROUPS)}"
        self._choose.of(STEPS)(self)

    def begin(self) -> None:
        """Create two groups, with one resource of each kind in the first."""
        for group in ("H", "g"):
            self.group = f"/resourceGroups/{group}"
            self.put_group()
        place = {"location": "local"}
        self._compute("PUT", "availabilitySets/a", place)
        self._compute("PUT", "virtualMachines/a", {**place, "properties": _MODELS[1]})
        profile = {"virtualMachineProfile": _MODELS[1], "orchestrationMode": "Flexible"}
        sku = {"name": "Standard_B1s", "capacity": 2}
        body = {**place, "sku": sku, "properties": profile}
        self._compute("PUT", "virtualMachineScaleSets/a", body)
        self.stored()

    # --- Helpers ---

    def _request(self, method: str, path: str, body: object = None) -> None:
        response = self.arm.request(method, f"{self.group}{path}", body)
        self.asked.append((method, f"{self.group}{path}", response))

    def _compute(self, method: str, path: str, body: object = None) -> None:
        self._request(method, f"/providers/Microsoft.Compute/{path}", body)

    def _name(self) -> str:
        return str(self._choose.of(NAMES))

    def _machine(self) -> str:
        """Return the name of a machine, or of an instance that may have the same name."""
        return self._name() + str(self._choose.of(("", "", "_0", "_1")))

    # --- Requests ---

    def put_group(self) -> None:
        self._request("PUT", "", {"location": "local"})

    def delete_group(self) -> None:
        """Delete a resource group with its resources; sometimes create it again at once."""
        self._request("DELETE", "")
        if self._choose.of((0, 1)):
            self.put_group()

    def put_machine(self) -> None:
        """Create a machine, alone or in an availability set."""
        properties = dict(self._choose.of(_MODELS))
        if self._choose.of((0, 1)):
            home = f"/subscriptions/{self.arm.app.context.cloud.subscription}{self.group}"
            path = f"{home}/providers/Microsoft.Compute/availabilitySets/{self._name()}"
            properties["availabilitySet"] = {"id": path}
        body = {"location": "local", "properties": properties}
        self._compute("PUT", f"virtualMachines/{self._machine()}", body)

    def act(self) -> None:
        action = self._choose.of((*_ACTIONS, "simulateEviction"))
        self._compute("POST", f"virtualMachines/{self._machine()}/{action}")

    def delete_machine(self) -> None:
        self._compute("DELETE", f"virtualMachines/{self._machine()}")

    def put_set(self) -> None:
        properties = {
            "orchestrationMode": self._choose.of(("Uniform", "Flexible")),
            "upgradePolicy": {"mode": self._choose.of(("Manual", "Automatic"))},
            "virtualMachineProfile": self._choose.of(_MODELS),
        }
        sku = {"name": "Standard_B1s", "capacity": self._choose.of(range(4))}
        body = {"location": "local", "sku": sku, "properties": properties}
        self._compute("PUT", f"virtualMachineScaleSets/{self._name()}", body)

    def scale(self) -> None:
        body = {"sku": {"capacity": self._choose.of(range(5))}}
        self._compute("PATCH", f"virtualMachineScaleSets/{self._name()}", body)

    def act_on_set(self) -> None:
        action = self._choose.of((*_ACTIONS, "delete", "delete", "manualupgrade", "reimageall"))
        ids = self._choose.of((["*"], ["0"], ["1", "2"], ["0", "9"]))
        path = f"virtualMachineScaleSets/{self._name()}/{action}"
        self._compute("POST", path, {"instanceIds": ids})

    def act_on_instance(self) -> None:
        path = f"virtualMachineScaleSets/{self._name()}/virtualMachines/{self._choose.of('012')}"
        which = self._choose.of(("DELETE", "PUT", "POST", "PUT"))
        if which == "POST":
            path = f"{path}/{self._choose.of((*_ACTIONS, 'simulateEviction'))}"
        policy = {"protectFromScaleIn": bool(self._choose.of((0, 1)))}
        self._compute(which, path, {"properties": {"protectionPolicy": policy}})

    def delete_set(self) -> None:
        self._compute("DELETE", f"virtualMachineScaleSets/{self._name()}")

    def availability(self) -> None:
        method = self._choose.of(("PUT", "PUT", "DELETE"))
        self._compute(method, f"availabilitySets/{self._name()}", {"location": "local"})

    def stored(self) -> None:
        path = f"/providers/Microsoft.Web/sites/{self._name()}"
        part = self._choose.of(("", "", "/slots/s", "/slots/s/functions/f"))
        method = self._choose.of(("PUT", "PUT", "DELETE"))
        self._request(method, path + part, {"location": "local"})

    def extend(self) -> None:
        """Create or delete what belongs to a machine or an instance."""
        owner = self._choose.of(
            ("virtualMachines/a", "virtualMachineScaleSets/a/virtualMachines/0")
        )
        part = self._choose.of(("extensions/e", "providers/Microsoft.Insights/settings/s"))
        method = self._choose.of(("PUT", "PUT", "DELETE"))
        self._compute(method, f"{owner}/{part}", {"location": "local"})

    def network(self) -> None:
        path = f"/providers/Microsoft.Network/virtualNetworks/{self._name()}"
        part = self._choose.of(("", "", "/subnets/s"))
        method = self._choose.of(("PUT", "PUT", "DELETE"))
        self._request(method, path + part, {"location": "local"})

    def deploy(self) -> None:
        kinds = ("virtualMachines", "availabilitySets", "virtualMachineScaleSets")
        steps: list[dict[str, Any]] = [
            {
                "type": f"Microsoft.Compute/{self._choose.of(kinds)}",
                "name": name,
                "apiVersion": "2024-11-01",
                "location": "local",
                "properties": {},
            }
            for name in ("a", "B")
        ]
        template = {"contentVersion": "1.0.0.0", "resources": steps}
        body = {"properties": {"mode": "Incremental", "template": template}}
        self._request("PUT", "/providers/Microsoft.Resources/deployments/d", body)

    # --- Other steps ---

    def poll(self) -> None:
        """Poll from machines, which enables their scopes."""
        for scope in self._scopes():
            self.arm.poll(scope.id)

    def approve(self) -> None:
        for scope in self._scopes():
            if scope.events:
                self._do(Approve(scope=scope.id, events=tuple(scope.events)))

    def platform(self) -> None:
        scopes = self._scopes()
        if not scopes:
            return
        self._rollouts += 1
        name, scope = f"p{self._rollouts}", self._choose.of(scopes)
        machines = tuple(scope.machines)[:1]
        which = self._choose.of((Maintain, Fail, None))
        if which is None:
            every = tuple(scope.id for scope in scopes)
            self._do(StartRollout(rollout=name, scopes=every, batch=2))
        elif machines:
            self._do(which(scope=scope.id, operation=name, machines=machines))

    def hardware(self) -> None:
        """Let the driver fail from now on, or work again."""
        self.arm.driver.fail = self._choose.of(("", "the hardware is broken", ""))

    def wait(self) -> None:
        self.arm.advance(self._choose.of((1, 30, 300, 1_000, 4_000, _DAY_SECONDS)))

    def restart(self) -> None:
        self.arm.restart()

    def _do(self, command: Command) -> None:
        with suppress(FairwarningError):
            self.arm.do(command)

    def _scopes(self) -> list[Scope]:
        entities = self.arm.run(all_entities(self.arm.store)).values()
        return [entity for entity in entities if isinstance(entity, Scope)]


_OFTEN = (
    "put_machine", "put_set", "availability", "stored", "act", "act_on_set", "act_on_instance",
    "extend", "scale", "poll", "approve", "platform", "wait", "put_group",
)  # fmt: skip
_SELDOM = (
    "delete_group", "delete_machine", "delete_set", "network", "deploy", "hardware", "wait",
    "restart",
)  # fmt: skip
STEPS: Sequence[Callable[[RandomSteps], None]] = [
    getattr(RandomSteps, name) for name in (*_OFTEN, *_OFTEN, *_SELDOM)
]


# --- Invariants -----------------------------------------------------------------------------------


def assert_consistent(arm: ArmHarness) -> None:
    """Check that resources and entities match, and that none is orphaned."""
    entities = arm.run(all_entities(arm.store))
    for entity in entities.values():
        if isinstance(entity, Resource):
            _check_resource(entities, entity)
        elif isinstance(entity, ScaleSet):
            owner = entities.get((Resource, entity.resource))
            assert isinstance(owner, Resource), entity
            assert owner.set == entity.id
            for name in entity.groups:
                assert (Scope, name) in entities, (entity, name)
        elif isinstance(entity, Scope):
            _check_scope(entities, entity)
    assert arm.fleet.broken is None


def _check_resource(entities: Mapping[Ref, Entity | None], resource: Resource) -> None:
    kind = resource.id.partition(":")[0]
    if kind != resources.GROUP.lower():
        assert (Resource, resources.group_id(resource.group)) in entities, resource
    if resource.set:
        scale_set = entities.get((ScaleSet, resource.set))
        assert isinstance(scale_set, ScaleSet), resource
        assert scale_set.resource == resource.id
    if resource.scope:
        scope = entities.get((Scope, resource.scope))
        assert isinstance(scope, Scope), resource
        if resource.machine:
            assert resource.machine in scope.machines, (resource, scope)
            assert scope.machines[resource.machine].resource == resource.id
    stands = bool(resource.set or resource.scope)
    assert stands is (kind in _STANDING), resource
    if resource.removed_by:
        operation = entities.get((Operation, resource.removed_by))
        assert isinstance(operation, Operation), resource
        assert operation.status is OperationStatus.RUNNING, (resource, operation)


def _check_scope(entities: Mapping[Ref, Entity | None], scope: Scope) -> None:
    if scope.kind is ScopeKind.PLACEMENT_GROUP:
        owner = entities.get((ScaleSet, scope.owner))
        assert isinstance(owner, ScaleSet), scope
        assert scope.id in owner.groups, (scope, owner)
    elif scope.kind is ScopeKind.STANDALONE:
        assert len(scope.machines) == 1, scope
    else:
        standing = [
            entity
            for entity in entities.values()
            if isinstance(entity, Resource) and entity.scope == scope.id and not entity.machine
        ]
        assert len(standing) == 1, (scope, standing)
    for machine in scope.machines.values():
        _check_machine(entities, scope, machine)


def _check_machine(entities: Mapping[Ref, Entity | None], scope: Scope, machine: Machine) -> None:
    if scope.kind in {ScopeKind.STANDALONE, ScopeKind.AVAILABILITY_SET}:
        assert machine.resource, (scope, machine)
    if machine.resource:
        resource = entities.get((Resource, machine.resource))
        assert isinstance(resource, Resource), (scope, machine)
        assert (resource.scope, resource.machine) == (scope.id, machine.name)


def assert_all_done(arm: ArmHarness) -> None:
    """Check that nothing is in progress once enough time has passed."""
    arm.driver.fail = ""
    for _ in range(_DAYS):
        arm.advance(_DAY_SECONDS)
    entities = arm.run(all_entities(arm.store)).values()
    for entity in entities:
        if isinstance(entity, Operation):
            assert entity.status is not OperationStatus.RUNNING, entity
        elif isinstance(entity, Scope):
            assert not entity.impacts, entity
            assert not entity.events, entity
        elif isinstance(entity, Resource):
            assert not entity.removed_by, entity
    assert_consistent(arm)
