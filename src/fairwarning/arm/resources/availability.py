"""Availability sets: `Microsoft.Compute/availabilitySets` (C1)."""

from dataclasses import replace

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.request import ArmRequest, Body, answer
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import documents, profile, writing
from fairwarning.arm.resources.documents import strict, wrong_value
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
_FAULT_DOMAINS = 2  # Azure's, where nothing else is said
_FAULT_DOMAINS_MAX = 3


# --- Domains --------------------------------------------------------------------------------------


def domains(body: Body) -> tuple[int, int]:
    """How many update domains and fault domains the set has."""
    updates = strict(body, _UPDATES, int, limits.UPDATE_DOMAINS)
    faults = strict(body, _FAULTS, int, _FAULT_DOMAINS)
    for path, value, most in (
        (_UPDATES, updates, limits.UPDATE_DOMAINS_MAX),
        (_FAULTS, faults, _FAULT_DOMAINS_MAX),
    ):
        if not 1 <= value <= most:
            raise wrong_value(path, value, f"a whole number from 1 to {most}")
    return updates, faults


def placed(machine: Machine, resource: Resource, scope: Scope) -> Machine:
    """The machine in the emptiest domains of its set."""
    updates, faults = domains(documents.written(resource))
    used = [(one.update_domain, one.fault_domain) for one in scope.machines.values()]
    return changed(
        machine,
        update_domain=min(range(updates), key=[update for update, _ in used].count),
        fault_domain=min(range(faults), key=[fault for _, fault in used].count),
    )


def name_of(scope: Scope) -> str:
    """The set's own name; the scopes of those made here are called `as:{group}:{name}`."""
    return scope.id.rpartition(":")[2]


# --- Writing --------------------------------------------------------------------------------------


async def put(plane: ArmContext, ask: ResourceWrite) -> WriteResult:
    """Create a set without machines, or change its policy."""
    profile.check_versions(ask.body, ask.version, "properties", AVAILABILITY_POLICY_SINCE)

    async def plan(standing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        body = documents.kept(body)
        documents.tags_of(body)
        if standing is not None:
            return await _change(plane, standing, body)
        writing.check_location(body)
        domains(body)
        scope = f"as:{group.name}:{ask.name}"
        create = CreateScope(
            scope=scope,
            kind=ScopeKind.AVAILABILITY_SET,
            machines=(),
            group=group.name,
            rules=profile.with_policy(plane.settings.rules, body),
        )
        return DesiredResource(body, (create,), scope=scope)

    resource, created, operation = await writing.write(plane, AVAILABILITY_SET, ask, plan)
    shown = document(plane, resource, await plane.scope(resource))
    return WriteResult(resource, shown, created, operation)


async def _change(plane: ArmContext, standing: Resource, body: Body) -> DesiredResource:
    granted = _granted(plane)
    before, after = (documents.merged(granted, b) for b in (documents.written(standing), body))
    if domains(before) != domains(after):
        writing.refuse_change("platformUpdateDomainCount and platformFaultDomainCount")
    if writing.location_of(before) != writing.location_of(after):
        writing.refuse_change("location")
    scope = await plane.scope(standing)
    rules = profile.with_policy(scope.rules, body)
    follow: tuple[Command, ...] = ()
    if rules != scope.rules:
        follow = (Configure(scope=scope.id, rules=rules),)
    return DesiredResource(body, follow, scope=standing.scope)


# --- Reading --------------------------------------------------------------------------------------


def document(plane: ArmContext, resource: Resource, scope: Scope) -> Body:
    """A set as Azure shows it."""
    machines = [
        {"id": plane.path(MACHINE, resource.group, machine.name)}
        for machine in scope.machines.values()
    ]
    known: Body = {
        "name": resource.name,
        "id": plane.path(AVAILABILITY_SET, resource.group, resource.name),
        "type": AVAILABILITY_SET,
        "properties": {"virtualMachines": machines},
    }
    written = documents.merged(_granted(plane), documents.written(resource))
    return documents.merged(written, known)


def _granted(plane: ArmContext) -> Body:
    """What a set is where nobody wrote anything else."""
    return {
        "location": plane.cloud.location,
        "sku": {"name": "Classic"},
        "properties": {
            "platformUpdateDomainCount": limits.UPDATE_DOMAINS,
            "platformFaultDomainCount": _FAULT_DOMAINS,
        },
    }


async def _get(plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.get(AVAILABILITY_SET, call.group, call.name)
    return answer(document(plane, resource, await plane.scope(resource)))


async def _list(plane: ArmContext, call: ArmRequest) -> Response:
    found, token = await plane.page(call, AVAILABILITY_SET, call.params.get("group", ""))
    scopes = await plane.scopes(found)
    shown = [document(plane, one, scopes[one.scope]) for one in found if one.scope in scopes]
    return answer({"value": shown, **plane.next_link(call, token)})


async def _put(plane: ArmContext, call: ArmRequest) -> Response:
    """200 also for a new one: Azure has no other here, and clients take none."""
    written = await put(plane, await writing.parse_write(call))
    return write_response(call, plane, replace(written, created=False))


async def _delete(plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.find(AVAILABILITY_SET, call.group, call.name)
    if resource is None:
        return await writing.nothing(plane, call)
    await plane.fleet.submit(
        Remove(resource=resource.id, operation=new_operation(), actor=call.actor)
    )
    return Response(b"", 200)


_ALL = f"{COMPUTE}/availabilitySets"
_ONE = f"{_ALL}/{{name}}"
ROUTES = (
    Route("GET", f"{ALL_COMPUTE}/availabilitySets", _list),
    Route("GET", _ALL, _list),
    Route("GET", _ONE, _get),
    Route("PUT", _ONE, _put),
    Route("PATCH", _ONE, _put),
    Route("DELETE", _ONE, _delete),
)
