"""What holds for the resources and entities of a control plane after any sequence of requests."""

from collections.abc import Mapping

import pytest

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
from tests.arm.everything import AVAILABILITY, MACHINE, SET, Json
from tests.fixtures.arm import ArmHarness
from tests.fixtures.fleet import all_entities

Entities = Mapping[Ref, Entity | None]

DAYS, DAY_SECONDS = 30, 24 * 3600  # after which nothing is in progress
_STANDING = {
    resources.MACHINE.lower(),
    resources.SCALE_SET.lower(),
    resources.INSTANCE.lower(),
    resources.AVAILABILITY_SET.lower(),
    resources.CLOUD_SERVICE.lower(),
}


def assert_consistent(entities: Entities) -> None:
    """Check that resources and entities match, and that none is orphaned."""
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


def _check_resource(entities: Entities, resource: Resource) -> None:
    kind = resource.id.partition(":")[0]
    if resource.group and kind != resources.GROUP.lower():
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


def _check_scope(entities: Entities, scope: Scope) -> None:
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


def _check_machine(entities: Entities, scope: Scope, machine: Machine) -> None:
    if scope.kind in {ScopeKind.STANDALONE, ScopeKind.AVAILABILITY_SET}:
        assert machine.resource, (scope, machine)
    if machine.resource:
        resource = entities.get((Resource, machine.resource))
        assert isinstance(resource, Resource), (scope, machine)
        assert (resource.scope, resource.machine) == (scope.id, machine.name)


def assert_all_done(entities: Entities) -> None:
    """Check that nothing is in progress, as it must be once enough time has passed."""
    for entity in entities.values():
        if isinstance(entity, Operation):
            assert entity.status is not OperationStatus.RUNNING, entity
        elif isinstance(entity, Scope):
            assert not entity.impacts, entity
            assert not entity.events, entity
        elif isinstance(entity, Resource):
            assert not entity.removed_by, entity
    assert_consistent(entities)


@pytest.mark.spec("C1")
@pytest.mark.parametrize("error", ["", "the hardware is broken"], ids=["works", "fails"])
@pytest.mark.parametrize(
    ("thing", "body", "inside"),
    [
        ("virtualMachines/a", MACHINE, ""),
        ("virtualMachineScaleSets/a", SET, ""),
        ("virtualMachineScaleSets/a", SET, "/virtualMachines/0"),
        ("availabilitySets/a", AVAILABILITY, ""),
    ],
    ids=["machine", "set", "instance", "availability"],
)
def test_a_group_waits_for_deletions(thing: str, body: Json, inside: str, error: str) -> None:
    """A resource being deleted is gone before its group is, or both stay."""
    with ArmHarness() as arm:
        path = f"{arm.group()}/providers/Microsoft.Compute/{thing}"
        assert arm.put(path, body).status in {200, 201}
        for scope in arm.run(arm.store.list_ids(Scope, "", 10)):
            arm.poll(scope)
        arm.driver.fail = error
        assert arm.delete(path + inside).status in {200, 202}
        assert_consistent(arm.run(all_entities(arm.store)))
        assert arm.delete("/resourceGroups/rg").status in {202, 409}
        for _ in range(20):
            assert_consistent(arm.run(all_entities(arm.store)))
            arm.advance(60)
        arm.driver.fail = ""
        for _ in range(DAYS):
            arm.advance(DAY_SECONDS)
        assert_all_done(arm.run(all_entities(arm.store)))
        there = arm.get("/resourceGroups/rg").status == 200
        assert there or not arm.get("/resources").json["value"]
