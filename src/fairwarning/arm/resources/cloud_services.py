"""Cloud services: `Microsoft.Compute/cloudServices`, roles and their instances (C1)."""

from functools import partial

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, accepted, answer
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import documents, targets, views, writing
from fairwarning.arm.resources.documents import strict, wrong_value
from fairwarning.arm.resources.writing import (
    DesiredResource,
    ResourceWrite,
    WriteResult,
    write_response,
)
from fairwarning.core import limits
from fairwarning.core.commands import (
    AddMachines,
    Command,
    CreateScope,
    Delete,
    Operate,
    Reimage,
    Remove,
    Restart,
    Start,
    Stop,
)
from fairwarning.core.model import ImpactKind, Machine, Scope, ScopeKind, guid
from fairwarning.service.resources import CLOUD_SERVICE, Resource

_INSTANCE = f"{CLOUD_SERVICE}/roleInstances"
_ROLE = f"{CLOUD_SERVICE}/roles"
_ROLES = "properties.roleProfile.roles"


# --- Roles ----------------------------------------------------------------------------------------


def _roles(body: Body) -> dict[str, int]:
    """How many instances each role is to have."""
    roles: dict[str, int] = {}
    for role in strict(body, _ROLES, list, []):
        if not isinstance(role, dict):
            raise wrong_value(_ROLES, role, "objects with a name and a sku")
        name = strict(role, "name", str)
        count = strict(role, "sku.capacity", int, 1)
        writing.check_name(name or "")
        if not 0 <= count <= limits.SCOPE_MACHINES:
            allowed = f"a whole number from 0 to {limits.SCOPE_MACHINES}"
            raise wrong_value(f"{_ROLES}.sku.capacity", count, allowed)
        roles[name] = count
    return roles


def _role_of(machine: Machine) -> str:
    return machine.name.rpartition("_IN_")[0]


def _staying(scope: Scope) -> list[Machine]:
    """Those that are not on their way out."""
    return [
        machine
        for machine in scope.machines.values()
        if (impact := scope.impacts.get(machine.name)) is None
        or impact.kind is not ImpactKind.DELETE
    ]


def _instances(role: str, numbers: range) -> tuple[Machine, ...]:
    return tuple(
        Machine(
            name=f"{role}_IN_{n}",
            update_domain=n % limits.UPDATE_DOMAINS,
            fault_domain=n % limits.FAULT_DOMAINS,
        )
        for n in numbers
    )


# --- Writing --------------------------------------------------------------------------------------


async def put(plane: ArmContext, ask: ResourceWrite) -> WriteResult:
    """Create a service with its roles, or give roles more instances or fewer."""

    async def plan(standing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        documents.tags_of(body)
        roles = _roles(ask.body)  # what was once asked for must not come back
        body = _without_sizes(documents.kept(body))
        if standing is not None:
            _check_stays(plane, standing, body)
            scope = await plane.scope(standing)
            follow = tuple(_resized(scope, ask.operation, roles)) if roles else ()
            return DesiredResource(body, follow, scope=standing.scope)
        writing.check_location(body)
        name = f"cs:{group.name}:{ask.name}"
        create = CreateScope(
            scope=name,
            kind=ScopeKind.CLOUD_SERVICE,
            machines=tuple(m for r, n in roles.items() for m in _instances(r, range(n))),
            group=group.name,
            rules=plane.settings.rules,
        )
        return DesiredResource(body, (create,), scope=name)

    resource, created, operation = await writing.write(plane, CLOUD_SERVICE, ask, plan)
    shown = document(plane, resource, await plane.scope(resource))
    return WriteResult(resource, shown, created, operation)


def _check_stays(plane: ArmContext, standing: Resource, body: Body) -> None:
    granted: Body = {"location": plane.cloud.location}
    before, after = (documents.merged(granted, b) for b in (documents.written(standing), body))
    if writing.location_of(before) != writing.location_of(after):
        writing.refuse_change("location")


def _without_sizes(body: Body) -> Body:
    """How many instances there are is known; of the roles, the rest is kept."""
    roles = [documents.without(role, "sku", "capacity") for role in strict(body, _ROLES, list, [])]
    return documents.merged(body, {"properties": {"roleProfile": {"roles": roles}}})


def _resized(scope: Scope, operation: str, roles: dict[str, int]) -> list[Command]:
    """What brings the roles to these sizes: instances come and go at the end."""
    follow: list[Command] = []
    fewer: list[str] = []
    for role, count in roles.items():
        here = [m.name for m in _staying(scope) if _role_of(m) == role]
        if len(here) < count:
            more = _instances(role, range(2 * limits.SCOPE_MACHINES))
            fresh = [m for m in more if m.name not in scope.machines]
            follow.append(AddMachines(scope=scope.id, machines=tuple(fresh[: count - len(here)])))
        fewer += here[count:]
    fewer += [m.name for m in _staying(scope) if _role_of(m) not in roles]
    if fewer:
        follow.append(Delete(scope=scope.id, machines=tuple(fewer), operation=operation))
    return follow


# --- Reading --------------------------------------------------------------------------------------


def document(plane: ArmContext, resource: Resource, scope: Scope) -> Body:
    """A service as Azure shows it."""
    body = documents.merged({"location": plane.cloud.location}, documents.written(resource))
    deleting = any(i.kind is ImpactKind.DELETE for i in scope.impacts.values())
    state = "Deleting" if resource.removed_by else "Updating" if deleting else "Succeeded"
    known: Body = {
        "name": resource.name,
        "id": plane.path(CLOUD_SERVICE, resource.group, resource.name),
        "type": CLOUD_SERVICE,
        "properties": {
            "provisioningState": state,
            "uniqueId": guid("service", scope.id).lower(),
            "roleProfile": {"roles": _shown_roles(body, scope)},
        },
    }
    return documents.merged(body, known)


def _shown_roles(body: Body, scope: Scope) -> list[Body]:
    """What was written about each role, and how many instances it has."""
    written = {role.get("name"): role for role in strict(body, _ROLES, list, [])}
    return [
        documents.merged(_role(name), documents.merged(written.get(name, {}), _size(count)))
        for name, count in _counted(scope).items()
    ]


def _counted(scope: Scope) -> dict[str, int]:
    roles: dict[str, int] = {}
    for machine in _staying(scope):
        roles[_role_of(machine)] = roles.get(_role_of(machine), 0) + 1
    return roles


def _role(name: str) -> Body:
    return {"name": name, "sku": {"name": "Standard_D1_v2", "tier": "Standard"}}


def _size(count: int) -> Body:
    return {"sku": {"capacity": count}}


def _instance(plane: ArmContext, resource: Resource, machine: Machine) -> Body:
    name = f"{resource.name}/{machine.name}"
    role = plane.path(_ROLE, resource.group, f"{resource.name}/{_role_of(machine)}")
    return {
        "name": machine.name,
        "id": plane.path(_INSTANCE, resource.group, name),
        "type": _INSTANCE,
        "location": plane.cloud.location,
        "properties": {"networkProfile": {"networkInterfaces": []}, "roleInstanceId": role},
    }


async def _get(plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.get(CLOUD_SERVICE, call.group, call.name)
    return answer(document(plane, resource, await plane.scope(resource)))


async def _list(plane: ArmContext, call: ArmRequest) -> Response:
    found, token = await plane.page(call, CLOUD_SERVICE, call.params.get("group", ""))
    scopes = await plane.scopes(found)
    shown = [document(plane, one, scopes[one.scope]) for one in found if one.scope in scopes]
    return answer({"value": shown, **plane.next_link(call, token)})


async def _list_roles(plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.get(CLOUD_SERVICE, call.group, call.name)
    scope = await plane.scope(resource)
    roles = [
        {
            **role,
            "id": plane.path(_ROLE, resource.group, f"{resource.name}/{role['name']}"),
            "type": _ROLE,
            "location": plane.cloud.location,
        }
        for role in _shown_roles(documents.written(resource), scope)
    ]
    return answer({"value": roles})


async def _list_instances(plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.get(CLOUD_SERVICE, call.group, call.name)
    scope = await plane.scope(resource)
    return answer({"value": [_instance(plane, resource, m) for m in scope.machines.values()]})


async def _found(plane: ArmContext, call: ArmRequest) -> tuple[Resource, Scope, Machine]:
    resource = await plane.get(CLOUD_SERVICE, call.group, call.name)
    scope = await plane.scope(resource)
    wanted = call.params["instance"].lower()
    for machine in scope.machines.values():
        if machine.name.lower() == wanted:
            return resource, scope, machine
    raise errors.missing(_INSTANCE, f"{call.name}/{call.params['instance'][:60]}", call.group)


async def _get_instance(plane: ArmContext, call: ArmRequest) -> Response:
    resource, _, machine = await _found(plane, call)
    return answer(_instance(plane, resource, machine))


async def _view_instance(plane: ArmContext, call: ArmRequest) -> Response:
    _, scope, machine = await _found(plane, call)
    return answer(views.instance_view(scope, machine, plane.fleet.clock.now()))


# --- Doing ----------------------------------------------------------------------------------------


async def _put(plane: ArmContext, call: ArmRequest) -> Response:
    ask = await writing.parse_write(call, operation=new_operation())
    return write_response(call, plane, await put(plane, ask))


async def _act(kind: type[Operate], plane: ArmContext, call: ArmRequest) -> Response:
    """For the role instances that the body names, or for all."""
    given = strict(await call.body(), "roleInstances", list)
    if given is None and kind is Delete:
        raise ArmError(
            "InvalidParameter", "The parameter 'roleInstances' is required: names, or '*'."
        )
    scope = await plane.scope(await plane.get(CLOUD_SERVICE, call.group, call.name))
    if given in (None, ["*"]):
        return await _operate(plane, call, kind, scope, tuple(scope.machines))
    if not given or not all(isinstance(name, str) for name in given):
        raise wrong_value("roleInstances", given, "names, or a lone '*' for all")
    spelt = {name.lower(): name for name in scope.machines}
    names = tuple(spelt.get(name.lower(), name) for name in given)
    return await _operate(plane, call, kind, scope, tuple(dict.fromkeys(names)))


async def _act_on_one(kind: type[Operate], plane: ArmContext, call: ArmRequest) -> Response:
    _, scope, machine = await _found(plane, call)
    return await _operate(plane, call, kind, scope, (machine.name,))


async def _operate(
    plane: ArmContext, call: ArmRequest, kind: type[Operate], scope: Scope, names: tuple[str, ...]
) -> Response:
    operation = new_operation()
    command = kind(scope=scope.id, machines=names, operation=operation, actor=call.actor)
    return accepted(call, await plane.fleet.submit(command), plane.cloud.location)


async def _delete(plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.find(CLOUD_SERVICE, call.group, call.name)
    if resource is None:
        return await writing.nothing(plane, call)
    if resource.removed_by:
        return await targets.under_way(plane, call, resource.removed_by)
    operation = new_operation()
    names = tuple((await plane.scope(resource)).machines)
    deletes = (Delete(scope=resource.scope, machines=names, operation=operation),) if names else ()
    remove = Remove(resource=resource.id, operation=operation, follow=deletes, actor=call.actor)
    return accepted(call, await plane.fleet.submit(remove), plane.cloud.location)


_ACTIONS = {"restart": Restart, "reimage": Reimage, "rebuild": Reimage}
_SERVICE_ACTIONS = {**_ACTIONS, "poweroff": Stop, "start": Start, "delete": Delete}
_ALL = f"{COMPUTE}/cloudServices"
_ONE = f"{_ALL}/{{name}}"
_MEMBER = f"{_ONE}/roleInstances/{{instance}}"
ROUTES = (
    Route("GET", f"{ALL_COMPUTE}/cloudServices", _list),
    Route("GET", _ALL, _list),
    Route("GET", _ONE, _get),
    Route("PUT", _ONE, _put),
    Route("PATCH", _ONE, _put),
    Route("DELETE", _ONE, _delete),
    Route("GET", f"{_ONE}/roles", _list_roles),
    Route("GET", f"{_ONE}/roleInstances", _list_instances),
    Route("GET", _MEMBER, _get_instance),
    Route("GET", f"{_MEMBER}/instanceView", _view_instance),
    Route("DELETE", _MEMBER, partial(_act_on_one, Delete)),
    *(Route("POST", f"{_MEMBER}/{n}", partial(_act_on_one, k)) for n, k in _ACTIONS.items()),
    *(Route("POST", f"{_ONE}/{n}", partial(_act, k)) for n, k in _SERVICE_ACTIONS.items()),
)
