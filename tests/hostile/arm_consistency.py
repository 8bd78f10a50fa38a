"""What holds for the resources and entities of a control plane after any sequence of requests."""

from collections.abc import Mapping

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

Entities = Mapping[Ref, Entity | None]

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
