"""Steps of a life: what is asked of the control plane, and what happens to machines meanwhile."""

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
    "restart",
    "redeploy",
    "reimage",
    "deallocate",
    "powerOff",
    "start",
    "performMaintenance",
)
_NOTICE = {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": "PT5M"}}
_MODELS: tuple[dict[str, Any], ...] = (
    {},
    {"scheduledEventsProfile": _NOTICE},
    {"priority": "Spot"},
    {"priority": "Spot", "evictionPolicy": "Delete"},
)
_DAYS = 30
_DAY_SECONDS = 24 * 3600


class Life:
    """A small fleet, and whoever lives with it."""

    def __init__(self, arm: ArmHarness, choose: Choices) -> None:
        self.arm = arm
        self._choose = choose
        self._rollouts = 0
        self.group = ""
        self.asked: list[tuple[str, str, Response]] = []

    def step(self) -> None:
        """Something happens."""
        self.group = f"/resourceGroups/{self._choose.of(GROUPS)}"
        self._choose.of(STEPS)(self)

    def begin(self) -> None:
        """Two groups, and in the first of them one of each kind."""
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
        roles = {"roleProfile": {"roles": [{"name": "r0", "sku": {"capacity": 2}}]}}
        self._compute("PUT", "cloudServices/a", {**place, "properties": roles})

    # --- Asking ---

    def _ask(self, method: str, path: str, body: object = None) -> None:
        answer = self.arm.request(method, f"{self.group}{path}", body)
        self.asked.append((method, f"{self.group}{path}", answer))

    def _compute(self, method: str, path: str, body: object = None) -> None:
        self._ask(method, f"/providers/Microsoft.Compute/{path}", body)

    def _name(self) -> str:
        return str(self._choose.of(NAMES))

    def _machine(self) -> str:
        """A machine's name, or that of an instance which may be called so as well."""
        return self._name() + str(self._choose.of(("", "", "_0", "_1")))

    # --- Requests ---

    def put_group(self) -> None:
        """A resource group comes."""
        self._ask("PUT", "", {"location": "local"})

    def delete_group(self) -> None:
        """And goes, with all that is in it; at times it comes back at once."""
        self._ask("DELETE", "")
        if self._choose.of((0, 1)):
            self.put_group()

    def put_machine(self) -> None:
        """A machine, alone or in a set."""
        properties = dict(self._choose.of(_MODELS))
        if self._choose.of((0, 1)):
            home = f"/subscriptions/{self.arm.app.context.cloud.subscription}{self.group}"
            path = f"{home}/providers/Microsoft.Compute/availabilitySets/{self._name()}"
            properties["availabilitySet"] = {"id": path}
        body = {"location": "local", "properties": properties}
        self._compute("PUT", f"virtualMachines/{self._machine()}", body)

    def act(self) -> None:
        """Something is done to a machine."""
        action = self._choose.of((*_ACTIONS, "simulateEviction"))
        self._compute("POST", f"virtualMachines/{self._machine()}/{action}")

    def delete_machine(self) -> None:
        """A machine goes."""
        self._compute("DELETE", f"virtualMachines/{self._machine()}")

    def put_set(self) -> None:
        """A scale set comes, or is another."""
        properties = {
            "orchestrationMode": self._choose.of(("Uniform", "Flexible")),
            "upgradePolicy": {"mode": self._choose.of(("Manual", "Automatic"))},
            "virtualMachineProfile": self._choose.of(_MODELS),
        }
        sku = {"name": "Standard_B1s", "capacity": self._choose.of(range(4))}
        body = {"location": "local", "sku": sku, "properties": properties}
        self._compute("PUT", f"virtualMachineScaleSets/{self._name()}", body)

    def scale(self) -> None:
        """It grows or shrinks."""
        body = {"sku": {"capacity": self._choose.of(range(5))}}
        self._compute("PATCH", f"virtualMachineScaleSets/{self._name()}", body)

    def act_on_set(self) -> None:
        """Something is done to instances."""
        action = self._choose.of((*_ACTIONS, "delete", "delete", "manualupgrade", "reimageall"))
        ids = self._choose.of((["*"], ["0"], ["1", "2"], ["0", "9"]))
        path = f"virtualMachineScaleSets/{self._name()}/{action}"
        self._compute("POST", path, {"instanceIds": ids})

    def act_on_instance(self) -> None:
        """Something is done to one instance."""
        one = f"virtualMachineScaleSets/{self._name()}/virtualMachines/{self._choose.of('012')}"
        which = self._choose.of(("DELETE", "PUT", "POST", "PUT"))
        if which == "POST":
            one = f"{one}/{self._choose.of((*_ACTIONS, 'simulateEviction'))}"
        policy = {"protectFromScaleIn": bool(self._choose.of((0, 1)))}
        self._compute(which, one, {"properties": {"protectionPolicy": policy}})

    def delete_set(self) -> None:
        """The whole set goes."""
        self._compute("DELETE", f"virtualMachineScaleSets/{self._name()}")

    def availability(self) -> None:
        """An availability set comes or, if it is empty, goes."""
        method = self._choose.of(("PUT", "PUT", "DELETE"))
        self._compute(method, f"availabilitySets/{self._name()}", {"location": "local"})

    def put_service(self) -> None:
        """A cloud service comes, or its roles grow and shrink."""
        sizes = [self._choose.of(range(4)) for _ in range(2)]
        roles = [{"name": f"r{n}", "sku": {"capacity": size}} for n, size in enumerate(sizes)]
        body = {"location": "local", "properties": {"roleProfile": {"roles": roles}}}
        self._compute("PUT", f"cloudServices/{self._name()}", body)

    def act_on_service(self) -> None:
        """Something is done to it, or it goes."""
        one = f"cloudServices/{self._name()}"
        action = self._choose.of(("", "restart", "reimage", "poweroff", "start", "delete", "one"))
        if not action:
            self._compute("DELETE", one)
        elif action == "one":
            self._compute("DELETE", f"{one}/roleInstances/r0_IN_{self._choose.of('012')}")
        else:
            names = self._choose.of((["*"], ["r0_IN_0"], ["r0_IN_0", "r1_IN_1"]))
            self._compute("POST", f"{one}/{action}", {"roleInstances": names})

    def network(self) -> None:
        """A network comes, is changed or goes."""
        one = f"/providers/Microsoft.Network/virtualNetworks/{self._name()}"
        part = self._choose.of(("", "", "/subnets/s"))
        method = self._choose.of(("PUT", "PUT", "DELETE"))
        self._ask(method, one + part, {"location": "local"})

    def deploy(self) -> None:
        """A template makes or changes a machine and a set."""
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
        self._ask("PUT", "/providers/Microsoft.Resources/deployments/d", body)

    # --- What happens ---

    def poll(self) -> None:
        """Machines ask, so they are told from now on."""
        for scope in self._scopes():
            self.arm.poll(scope.id)

    def approve(self) -> None:
        """Machines agree to all they are told of."""
        for scope in self._scopes():
            if scope.events:
                self._do(Approve(scope=scope.id, events=tuple(scope.events)))

    def platform(self) -> None:
        """The platform wants something."""
        scopes = self._scopes()
        if not scopes:
            return
        self._rollouts += 1
        name, scope = f"p{self._rollouts}", self._choose.of(scopes)
        machines = tuple(scope.machines)[:1]
        which = self._choose.of((Maintain, Fail, None))
        if which is None:
            every = tuple(one.id for one in scopes)
            self._do(StartRollout(rollout=name, scopes=every, batch=2))
        elif machines:
            self._do(which(scope=scope.id, operation=name, machines=machines))

    def hardware(self) -> None:
        """From now on nothing works, or all does again."""
        self.arm.driver.fail = self._choose.of(("", "it is broken", ""))

    def wait(self) -> None:
        """Time passes."""
        self.arm.advance(self._choose.of((1, 30, 300, 1_000, 4_000, _DAY_SECONDS)))

    def restart(self) -> None:
        """The service stops, and another takes over."""
        self.arm.restart()

    def _do(self, command: Command) -> None:
        with suppress(FairwarningError):
            self.arm.do(command)

    def _scopes(self) -> list[Scope]:
        found = self.arm._runner.run(all_entities(self.arm.store)).values()
        return [one for one in found if isinstance(one, Scope)]


STEPS: Sequence[Callable[[Life], None]] = (
    *(Life.put_machine, Life.put_set, Life.availability, Life.put_service) * 2,
    *(Life.act, Life.act_on_set, Life.act_on_instance, Life.act_on_service, Life.scale) * 2,
    *(Life.poll, Life.approve, Life.platform, Life.wait, Life.put_group) * 2,
    Life.delete_group, Life.delete_machine, Life.delete_set, Life.network,
    Life.deploy, Life.hardware, Life.wait, Life.restart,
)  # fmt: skip


# --- What always holds ----------------------------------------------------------------------------


def assert_sound(arm: ArmHarness) -> None:
    """What is written about and what there is belong together, and nothing is left over."""
    found = arm._runner.run(all_entities(arm.store))
    for entity in found.values():
        if isinstance(entity, Resource):
            _check_resource(found, entity)
        elif isinstance(entity, ScaleSet):
            owner = found.get((Resource, entity.resource))
            assert isinstance(owner, Resource), entity
            assert owner.set == entity.id
            for name in entity.groups:
                assert (Scope, name) in found, (entity, name)
        elif isinstance(entity, Scope):
            _check_scope(found, entity)
    assert arm.fleet.broken is None


def _check_resource(found: Mapping[Ref, Entity | None], resource: Resource) -> None:
    kind = resource.id.partition(":")[0]
    if kind != resources.GROUP.lower():
        assert (Resource, resources.group_id(resource.group)) in found, resource
    if resource.set:
        scale_set = found.get((ScaleSet, resource.set))
        assert isinstance(scale_set, ScaleSet), resource
        assert scale_set.resource == resource.id
    if resource.scope:
        scope = found.get((Scope, resource.scope))
        assert isinstance(scope, Scope), resource
        if resource.machine:
            assert resource.machine in scope.machines, (resource, scope)
            assert scope.machines[resource.machine].resource == resource.id
    stands = bool(resource.set or resource.scope)
    assert stands is (kind in _STANDING), resource
    if resource.removed_by:
        operation = found.get((Operation, resource.removed_by))
        assert isinstance(operation, Operation), resource
        assert operation.status is OperationStatus.RUNNING, (resource, operation)


_STANDING = {
    kind.lower()
    for kind in (
        resources.MACHINE,
        resources.SCALE_SET,
        resources.INSTANCE,
        resources.AVAILABILITY_SET,
        resources.CLOUD_SERVICE,
    )
}


def _check_scope(found: Mapping[Ref, Entity | None], scope: Scope) -> None:
    if scope.kind is ScopeKind.PLACEMENT_GROUP:
        owner = found.get((ScaleSet, scope.owner))
        assert isinstance(owner, ScaleSet), scope
        assert scope.id in owner.groups, (scope, owner)
    elif scope.kind is ScopeKind.STANDALONE:
        assert len(scope.machines) == 1, scope
    else:
        standing = [
            one
            for one in found.values()
            if isinstance(one, Resource) and one.scope == scope.id and not one.machine
        ]
        assert len(standing) == 1, (scope, standing)
    for machine in scope.machines.values():
        _check_machine(found, scope, machine)


def _check_machine(found: Mapping[Ref, Entity | None], scope: Scope, machine: Machine) -> None:
    if scope.kind in {ScopeKind.STANDALONE, ScopeKind.AVAILABILITY_SET}:
        assert machine.resource, (scope, machine)
    if machine.resource:
        resource = found.get((Resource, machine.resource))
        assert isinstance(resource, Resource), (scope, machine)
        assert (resource.scope, resource.machine) == (scope.id, machine.name)


def assert_ends(arm: ArmHarness) -> None:
    """Once enough time has passed, nothing is under way."""
    arm.driver.fail = ""
    for _ in range(_DAYS):
        arm.advance(_DAY_SECONDS)
    found = arm._runner.run(all_entities(arm.store)).values()
    going = [
        one for one in found if isinstance(one, Operation) and one.status is OperationStatus.RUNNING
    ]
    assert going == []
    assert not any(one.impacts or one.events for one in found if isinstance(one, Scope))
    assert not any(one.removed_by for one in found if isinstance(one, Resource))
    assert_sound(arm)
