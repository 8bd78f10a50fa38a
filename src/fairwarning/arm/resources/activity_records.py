"""Journal lines as records of Azure's activity log: who did what to which resource, and when."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import availability
from fairwarning.arm.resources.azure_scopes import AzureScope
from fairwarning.arm.resources.providers import canonical_kind
from fairwarning.core.decision import FactType
from fairwarning.core.model import Entity, Operation, Ref, ScaleSet, Scope, ScopeKind, guid
from fairwarning.core.times import iso
from fairwarning.service.config.settings import TENANT
from fairwarning.service.history.events import JournalEntry
from fairwarning.service.resources import (
    AVAILABILITY_SET,
    CLOUD_SERVICE,
    GROUP,
    MACHINE,
    SCALE_SET,
    Resource,
)

_RESOURCE_VERBS = {FactType.RESOURCE_WRITTEN: "write", FactType.RESOURCE_REMOVED: "delete"}
_ACTIONS: Mapping[str, str] = {
    "Restart": "restart/action",
    "Redeploy": "redeploy/action",
    "Reimage": "reimage/action",
    "Deallocate": "deallocate/action",
    "Stop": "powerOff/action",
    "Start": "start/action",
    "Evict": "simulateEviction/action",
    "Maintain": "performMaintenance/action",
    "Delete": "delete",
    "DeleteSet": "delete",
}
"""Azure's action of each kind of operation. Other operations have lines of their resources."""
_OWNERS = {ScopeKind.AVAILABILITY_SET: AVAILABILITY_SET, ScopeKind.CLOUD_SERVICE: CLOUD_SERVICE}
_ACCEPTED = "Accepted"


@dataclass(frozen=True)
class ActivityRecord:
    """A record of the activity log."""

    number: int  # of the journal line
    at: float
    caller: str
    scope: AzureScope
    action: str  # as restart/action
    status: str
    operation: str = ""
    error: str = ""

    def document(self, context: ArmContext) -> Body:
        """Return the record in Azure's form."""
        path = self.scope.path(context)
        kind = self.scope.kind or GROUP
        name = f"{kind}/{self.action}"
        identity = guid("activity", str(self.number)).lower()
        correlation = self.operation or identity
        event = "BeginRequest" if self.status == _ACCEPTED else "EndRequest"
        time = iso(int(self.at))
        return {
            "id": f"{path}/events/{identity}/ticks/{self.number}",
            "eventDataId": identity,
            "eventTimestamp": time,
            "submissionTimestamp": time,
            "eventName": _localized(event),
            "category": _localized("Administrative"),
            "channels": "Operation",
            "level": "Error" if self.status == "Failed" else "Informational",
            "caller": self.caller,
            "claims": {},
            "authorization": {"action": name, "scope": path},
            "correlationId": correlation,
            "operationId": correlation,
            "operationName": _localized(name),
            "description": self.error,
            "properties": {"statusMessage": self.error} if self.error else {},
            "status": _localized(self.status),
            "subStatus": _localized(""),
            "resourceGroupName": self.scope.group,
            "resourceProviderName": _localized(kind.partition("/")[0]),
            "resourceType": _localized(kind),
            "resourceId": path,
            "subscriptionId": context.cloud.subscription,
            "tenantId": TENANT,
        }


def _localized(value: str) -> Body:
    return {"value": value, "localizedValue": value}


async def records(context: ArmContext, entries: Iterable[JournalEntry]) -> list[ActivityRecord]:
    """Return the records of these lines, in their order; many lines have none."""
    lines = [entry for entry in entries if entry.line.entity[0] in {Resource, Operation}]
    operations = await _read(context, Operation, (entry.line.fact.operation for entry in lines))
    targets = [o.target for o in operations.values() if isinstance(o, Operation)]
    ids = (entry.line.entity[1] for entry in lines if entry.line.entity[0] is Resource)
    entities = {
        **await _read(context, Scope, targets),
        **await _read(context, ScaleSet, targets),
        **await _read(context, Resource, ids),
    }
    made = (_record(entry, operations, entities) for entry in lines)
    return [record for record in made if record]


async def _read(
    context: ArmContext, kind: type[Entity], names: Iterable[str]
) -> dict[str, Entity | None]:
    refs: list[Ref] = [(kind, name) for name in dict.fromkeys(names) if name]
    entities = await context.fleet.reader.read_all(refs)
    return {ref[1]: entity for ref, entity in entities.items() if entity is not None}


def _record(
    entry: JournalEntry,
    operations: Mapping[str, Entity | None],
    entities: Mapping[str, Entity | None],
) -> ActivityRecord | None:
    line, fact = entry.line, entry.line.fact
    if line.entity[0] is Resource:
        scope = _scope_of_id(line.entity[1], entities.get(line.entity[1]))
        verb = _RESOURCE_VERBS.get(fact.type)
        if scope is None or verb is None:
            return None
        return ActivityRecord(
            entry.number, line.at, line.actor, scope, verb, "Succeeded", fact.operation
        )
    operation = operations.get(fact.operation)
    if not isinstance(operation, Operation) or operation.kind not in _ACTIONS:
        return None
    owner = entities.get(operation.target)
    ended = fact.type is FactType.OPERATION_ENDED
    action = _ACTIONS[operation.kind]
    if not ended and fact.type is not FactType.OPERATION_ACCEPTED:
        return None
    if ended and action == "delete" and owner is None and fact.detail == "Succeeded":
        return None  # the line of the removed resource says it
    return ActivityRecord(
        entry.number,
        line.at,
        operation.actor,
        _scope_of_owner(owner, operation.target),
        action,
        fact.detail if ended else _ACCEPTED,
        operation.id,
        operation.error if ended else "",
    )


def _scope_of_id(name: str, resource: Entity | None) -> AzureScope | None:
    """Return the resource with an id of the store; None for what is no Azure resource.

    The id is in lower case; a resource that still exists has its names as they were written.
    """
    kind, _, rest = name.partition(":")
    group, _, own = rest.partition(":")
    if isinstance(resource, Resource):
        group, own = resource.group, resource.name
    if kind == GROUP.lower():
        return AzureScope(own)
    namespace, _, types = kind.partition("/")
    canonical = canonical_kind(namespace, types)
    depth = types.count("/") + 1
    if not canonical or not group or own.count("/") + 1 != depth:
        return None  # a document of another resource
    return AzureScope(group, canonical, own)


def _scope_of_owner(owner: Entity | None, target: str) -> AzureScope:
    """Return the machine, set or service that an operation acts on; deleted ones by their id."""
    if isinstance(owner, ScaleSet):
        return AzureScope(owner.group, SCALE_SET, owner.name)
    if isinstance(owner, Scope):
        if owner.kind in _OWNERS:
            return AzureScope(owner.group, _OWNERS[owner.kind], availability.name_of(owner))
        if owner.owner:
            return AzureScope(owner.group, SCALE_SET, owner.owner.rpartition(":")[2])
        name = next(iter(owner.machines), owner.id.rpartition(":")[2])
        return AzureScope(owner.group, MACHINE, name)
    group, _, name = target.partition(":")
    return AzureScope(group, MACHINE, name or target)
