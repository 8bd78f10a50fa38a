"""Availability sets: `Microsoft.Compute/availabilitySets` (C1)."""

from collections.abc import Sequence

from fairwarning.arm.compute import profile
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents, writing
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.names import AVAILABILITY_SET, MACHINE
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core import limits
from fairwarning.core.commands import Configure, CreateScope
from fairwarning.core.model import Machine, Resource, Scope, ScopeKind
from fairwarning.core.record import changed

_FAULT_DOMAINS = 2  # Azure's default
_FAULT_DOMAINS_MAX = 3


def domains(body: Body) -> tuple[int, int]:
    """Return the numbers of update domains and fault domains of a set."""
    updates = range(1, limits.UPDATE_DOMAINS_MAX + 1)
    faults = range(1, _FAULT_DOMAINS_MAX + 1)
    return (
        documents.number(
            body, "properties.platformUpdateDomainCount", updates, limits.UPDATE_DOMAINS
        ),
        documents.number(body, "properties.platformFaultDomainCount", faults, _FAULT_DOMAINS),
    )


def place(machine: Machine, resource: Resource, scope: Scope) -> Machine:
    """Return the machine in the emptiest update domain and fault domain of its set."""
    updates, faults = domains(documents.stored_body(resource))
    used = [(other.update_domain, other.fault_domain) for other in scope.machines.values()]
    return changed(
        machine,
        update_domain=min(range(updates), key=[update for update, _ in used].count),
        fault_domain=min(range(faults), key=[fault for _, fault in used].count),
    )


async def _plan(write: ResourceWrite, body: Body) -> DesiredResource:
    """Create an availability set without machines, or change its policy."""
    profile.check_api_version(
        write.body, write.version, "properties", profile.AVAILABILITY_POLICY_SINCE
    )
    if write.existing is not None:
        return await _change(write, write.existing, body)
    domains(body)
    scope = f"as:{write.group.name}:{write.name}"
    create = CreateScope(
        scope=scope,
        kind=ScopeKind.AVAILABILITY_SET,
        machines=(),
        group=write.group.name,
        rules=profile.with_policy(write.context.settings.rules, body),
    )
    return DesiredResource(body, (create,), scope=scope)


async def _change(write: ResourceWrite, existing: Resource, body: Body) -> DesiredResource:
    defaults = _defaults(write.context)
    before, after = (documents.merge(defaults, b) for b in (documents.stored_body(existing), body))
    counts = "platformUpdateDomainCount and platformFaultDomainCount"
    locations = writing.location_of(before), writing.location_of(after)
    writing.refuse_changes({counts: (domains(before), domains(after)), "location": locations})
    scope = await write.context.scope(existing)
    rules = profile.with_policy(scope.rules, body)
    changes = (Configure(scope=scope.id, rules=rules),) if rules != scope.rules else ()
    return DesiredResource(body, changes, scope=existing.scope)


def _document(context: ArmContext, resource: Resource, scope: Scope) -> Body:
    machines = [
        {"id": context.arm_id(MACHINE, resource.group, machine.name)}
        for machine in scope.machines.values()
    ]
    computed: Body = {
        "name": resource.name,
        "id": context.arm_id(AVAILABILITY_SET, resource.group, resource.name),
        "type": AVAILABILITY_SET,
        "properties": {"virtualMachines": machines},
    }
    body = documents.merge(_defaults(context), documents.stored_body(resource))
    return documents.merge(body, computed)


def _defaults(context: ArmContext) -> Body:
    """Return the members that a set has unless a client wrote others."""
    return {
        "location": context.cloud.location,
        "sku": {"name": "Classic"},
        "properties": {
            "platformUpdateDomainCount": limits.UPDATE_DOMAINS,
            "platformFaultDomainCount": _FAULT_DOMAINS,
        },
    }


async def _documents(context: ArmContext, rows: Sequence[Resource]) -> list[Body]:
    scopes = await context.scopes(rows)
    return [_document(context, row, scopes[row.scope]) for row in rows if row.scope in scopes]


TYPE = ResourceType(
    name=AVAILABILITY_SET,
    purpose="is a scope: its machines see one document, one update domain is maintained at a time",
    new_status=200,  # Azure returns it also for a new set, and clients accept no other
    merges=True,
    plan=_plan,
    documents=_documents,
    expands=("virtualMachines/$ref",),  # which is always there
)
