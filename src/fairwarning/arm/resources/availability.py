"""Availability sets: `Microsoft.Compute/availabilitySets` (C1)."""

from dataclasses import replace

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import documents, profile, writing
from fairwarning.arm.resources.documents import invalid_value, typed_value
from fairwarning.arm.resources.profile import AVAILABILITY_POLICY_SINCE
from fairwarning.arm.resources.writing import (
    DesiredResource,
    ResourceWrite,
    WriteResult,
    write_response,
)
from fairwarning.core import limits
from fairwarning.core.commands import Command, Configure, CreateScope, Remove
from fairwarning.core.model import Machine, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.service.resources import AVAILABILITY_SET, MACHINE, Resource

_UPDATES = "properties.platformUpdateDomainCount"
_FAULTS = "properties.platformFaultDomainCount"
_FAULT_DOMAINS = 2  # Azure's default
_FAULT_DOMAINS_MAX = 3


# --- Domains --------------------------------------------------------------------------------------


def domains(body: Body) -> tuple[int, int]:
    """Return the numbers of update domains and fault domains of a set."""
    updates = typed_value(body, _UPDATES, int, limits.UPDATE_DOMAINS)
    faults = typed_value(body, _FAULTS, int, _FAULT_DOMAINS)
    for path, value, most in (
        (_UPDATES, updates, limits.UPDATE_DOMAINS_MAX),
        (_FAULTS, faults, _FAULT_DOMAINS_MAX),
    ):
        if not 1 <= value <= most:
            raise invalid_value(path, value, f"a whole number from 1 to {most}")
    return updates, faults


def place(machine: Machine, resource: Resource, scope: Scope) -> Machine:
    """Return the machine in the emptiest update domain and fault domain of its set."""
    updates, faults = domains(documents.stored_body(resource))
    used = [(other.update_domain, other.fault_domain) for other in scope.machines.values()]
    return changed(
        machine,
        update_domain=min(range(updates), key=[update for update, _ in used].count),
        fault_domain=min(range(faults), key=[fault for _, fault in used].count),
    )


def name_of(scope: Scope) -> str:
    """Return the name of an availability set; its scope is `as:{group}:{name}`."""
    return scope.id.rpartition(":")[2]


# --- Writing --------------------------------------------------------------------------------------


async def put(context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Create an availability set without machines, or change its policy."""
    write = writing.normalized(AVAILABILITY_SET, write)
    profile.check_api_version(write.body, write.version, "properties", AVAILABILITY_POLICY_SINCE)

    async def plan(existing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        body = documents.without_read_only(body)
        documents.tags_of(body)
        if existing is not None:
            return await _change(context, existing, body)
        writing.check_location(body)
        domains(body)
        scope = f"as:{group.name}:{write.name}"
        create = CreateScope(
            scope=scope,
            kind=ScopeKind.AVAILABILITY_SET,
            machines=(),
            group=group.name,
            rules=profile.with_policy(context.settings.rules, body),
        )
        return DesiredResource(body, (create,), scope=scope)

    resource, created, operation = await writing.write_resource(
        context, AVAILABILITY_SET, write, plan
    )
    body = document(context, resource, await context.scope(resource))
    return WriteResult(resource, body, created, operation)


async def _change(context: ArmContext, existing: Resource, body: Body) -> DesiredResource:
    defaults = _defaults(context)
    before, after = (documents.merge(defaults, b) for b in (documents.stored_body(existing), body))
    if domains(before) != domains(after):
        writing.refuse_change("platformUpdateDomainCount and platformFaultDomainCount")
    if writing.location_of(before) != writing.location_of(after):
        writing.refuse_change("location")
    scope = await context.scope(existing)
    rules = profile.with_policy(scope.rules, body)
    commands: tuple[Command, ...] = ()
    if rules != scope.rules:
        commands = (Configure(scope=scope.id, rules=rules),)
    return DesiredResource(body, commands, scope=existing.scope)


# --- Reading --------------------------------------------------------------------------------------


def document(context: ArmContext, resource: Resource, scope: Scope) -> Body:
    """Return an availability set in Azure's form."""
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


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(AVAILABILITY_SET, request.group, request.name)
    return json_response(document(context, resource, await context.scope(resource)))


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    parse_expand(request, ("virtualMachines/$ref",))  # which is always there
    page, token = await context.page(request, AVAILABILITY_SET, request.params.get("group", ""))
    scopes = await context.scopes(page)
    value = [
        document(context, resource, scopes[resource.scope])
        for resource in page
        if resource.scope in scopes
    ]
    return list_response(context, request, value, token)


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Return 200 for a new set, too: Azure does, and clients accept no other status."""
    result = await put(context, await writing.parse_write(request))
    return write_response(request, context, replace(result, created=False))


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.find(AVAILABILITY_SET, request.group, request.name)
    if resource is None:
        return await writing.no_content(context, request)
    await context.fleet.submit(
        Remove(resource=resource.id, operation=new_operation(), actor=request.actor)
    )
    return Response(b"", 200)


_COLLECTION = f"{COMPUTE}/availabilitySets"
_ITEM = f"{_COLLECTION}/{{name}}"
ROUTES = (
    Route("GET", f"{ALL_COMPUTE}/availabilitySets", _list),
    Route("GET", _COLLECTION, _list),
    Route("GET", _ITEM, _get),
    Route("PUT", _ITEM, _put),
    Route("PATCH", _ITEM, _put),
    Route("DELETE", _ITEM, _delete),
)
