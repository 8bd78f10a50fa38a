"""Cloud services: `Microsoft.Compute/cloudServices`, roles and their instances (C1)."""

from functools import partial

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import ArmRequest, Body, accepted, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import documents, targets, views, writing
from fairwarning.arm.resources.documents import invalid_value, typed_value
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
    """Return the requested number of instances of each role."""
    roles: dict[str, int] = {}
    for role in typed_value(body, _ROLES, list, []):
        if not isinstance(role, dict):
            raise invalid_value(_ROLES, role, "objects with a name and a sku")
        name = typed_value(role, "name", str)
        count = typed_value(role, "sku.capacity", int, 1)
        writing.check_name(name or "")
        if not 0 <= count <= limits.SCOPE_MACHINES:
            allowed = f"a whole number from 0 to {limits.SCOPE_MACHINES}"
            raise invalid_value(f"{_ROLES}.sku.capacity", count, allowed)
        roles[name] = count
    return roles


def _role_of(machine: Machine) -> str:
    return machine.name.rpartition("_IN_")[0]


def _remaining(scope: Scope) -> list[Machine]:
    """Return the machines that are not being deleted."""
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


async def put(context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Create a service with its roles, or change the numbers of their instances."""
    write = writing.normalized(CLOUD_SERVICE, write)

    async def plan(existing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        documents.tags_of(body)
        roles = _roles(write.body)  # capacities of earlier requests do not count
        body = _without_capacities(documents.without_read_only(body))
        if existing is not None:
            _check_location_unchanged(context, existing, body)
            scope = await context.scope(existing)
            commands = tuple(_resize(scope, write.operation, roles)) if roles else ()
            return DesiredResource(body, commands, scope=existing.scope)
        writing.check_location(body)
        name = f"cs:{group.name}:{write.name}"
        create = CreateScope(
            scope=name,
            kind=ScopeKind.CLOUD_SERVICE,
            machines=tuple(m for r, n in roles.items() for m in _instances(r, range(n))),
            group=group.name,
            rules=context.settings.rules,
        )
        return DesiredResource(body, (create,), scope=name)

    resource, created, operation = await writing.write_resource(context, CLOUD_SERVICE, write, plan)
    body = document(context, resource, await context.scope(resource))
    return WriteResult(resource, body, created, operation)


def _check_location_unchanged(context: ArmContext, existing: Resource, body: Body) -> None:
    defaults: Body = {"location": context.cloud.location}
    before, after = (documents.merge(defaults, b) for b in (documents.stored_body(existing), body))
    if writing.location_of(before) != writing.location_of(after):
        writing.refuse_change("location")


def _without_capacities(body: Body) -> Body:
    """Return the body without the capacities: the scope has the numbers of instances."""
    roles = [
        documents.without(role, "sku", "capacity") for role in typed_value(body, _ROLES, list, [])
    ]
    return documents.merge(body, {"properties": {"roleProfile": {"roles": roles}}})


def _resize(scope: Scope, operation: str, roles: dict[str, int]) -> list[Command]:
    """Return the commands that bring the roles to these sizes; the last instances go first."""
    commands: list[Command] = []
    surplus: list[str] = []
    for role, count in roles.items():
        current = [m.name for m in _remaining(scope) if _role_of(m) == role]
        if len(current) < count:
            candidates = _instances(role, range(2 * limits.SCOPE_MACHINES))
            unused = [m for m in candidates if m.name not in scope.machines]
            added = tuple(unused[: count - len(current)])
            commands.append(AddMachines(scope=scope.id, machines=added))
        surplus += current[count:]
    surplus += [m.name for m in _remaining(scope) if _role_of(m) not in roles]
    if surplus:
        commands.append(Delete(scope=scope.id, machines=tuple(surplus), operation=operation))
    return commands


# --- Reading --------------------------------------------------------------------------------------


def document(context: ArmContext, resource: Resource, scope: Scope) -> Body:
    """Return a cloud service in Azure's form."""
    body = documents.merge({"location": context.cloud.location}, documents.stored_body(resource))
    deleting = any(i.kind is ImpactKind.DELETE for i in scope.impacts.values())
    state = "Deleting" if resource.removed_by else "Updating" if deleting else "Succeeded"
    computed: Body = {
        "name": resource.name,
        "id": context.arm_id(CLOUD_SERVICE, resource.group, resource.name),
        "type": CLOUD_SERVICE,
        "properties": {
            "provisioningState": state,
            "uniqueId": guid("service", scope.id).lower(),
            "roleProfile": {"roles": _role_documents(body, scope)},
        },
    }
    return documents.merge(body, computed)


def _role_documents(body: Body, scope: Scope) -> list[Body]:
    """Return each role as clients wrote it, with its number of instances."""
    stored = {role.get("name"): role for role in typed_value(body, _ROLES, list, [])}
    return [
        documents.merge(_role(name), documents.merge(stored.get(name, {}), _size(count)))
        for name, count in _count_by_role(scope).items()
    ]


def _count_by_role(scope: Scope) -> dict[str, int]:
    roles: dict[str, int] = {}
    for machine in _remaining(scope):
        roles[_role_of(machine)] = roles.get(_role_of(machine), 0) + 1
    return roles


def _role(name: str) -> Body:
    return {"name": name, "sku": {"name": "Standard_D1_v2", "tier": "Standard"}}


def _size(count: int) -> Body:
    return {"sku": {"capacity": count}}


def _instance(
    context: ArmContext, resource: Resource, scope: Scope, machine: Machine, *, view: bool
) -> Body:
    name = f"{resource.name}/{machine.name}"
    role = context.arm_id(_ROLE, resource.group, f"{resource.name}/{_role_of(machine)}")
    properties: Body = {"networkProfile": {"networkInterfaces": []}, "roleInstanceId": role}
    if view:
        properties["instanceView"] = views.instance_view(scope, machine, context.fleet.clock.now())
    return {
        "name": machine.name,
        "id": context.arm_id(_INSTANCE, resource.group, name),
        "type": _INSTANCE,
        "location": context.cloud.location,
        "properties": properties,
    }


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(CLOUD_SERVICE, request.group, request.name)
    return json_response(document(context, resource, await context.scope(resource)))


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    page, token = await context.page(request, CLOUD_SERVICE, request.params.get("group", ""))
    scopes = await context.scopes(page)
    value = [
        document(context, resource, scopes[resource.scope])
        for resource in page
        if resource.scope in scopes
    ]
    return list_response(context, request, value, token)


async def _list_roles(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(CLOUD_SERVICE, request.group, request.name)
    scope = await context.scope(resource)
    roles = [
        {
            **role,
            "id": context.arm_id(_ROLE, resource.group, f"{resource.name}/{role['name']}"),
            "type": _ROLE,
            "location": context.cloud.location,
        }
        for role in _role_documents(documents.stored_body(resource), scope)
    ]
    return list_response(context, request, roles)


async def _list_instances(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(CLOUD_SERVICE, request.group, request.name)
    scope = await context.scope(resource)
    view = bool(parse_expand(request, ("instanceView",)))
    value = [_instance(context, resource, scope, m, view=view) for m in scope.machines.values()]
    return list_response(context, request, value)


async def _find_instance(
    context: ArmContext, request: ArmRequest
) -> tuple[Resource, Scope, Machine]:
    resource = await context.get(CLOUD_SERVICE, request.group, request.name)
    scope = await context.scope(resource)
    instance = request.params["instance"]
    for machine in scope.machines.values():
        if machine.name.lower() == instance.lower():
            return resource, scope, machine
    name = f"{request.name}/{instance[:60]}"
    raise errors.resource_not_found(_INSTANCE, name, request.group)


async def _get_instance(context: ArmContext, request: ArmRequest) -> Response:
    resource, scope, machine = await _find_instance(context, request)
    view = bool(parse_expand(request, ("instanceView",)))
    return json_response(_instance(context, resource, scope, machine, view=view))


async def _view_instance(context: ArmContext, request: ArmRequest) -> Response:
    _, scope, machine = await _find_instance(context, request)
    return json_response(views.instance_view(scope, machine, context.fleet.clock.now()))


# --- Actions --------------------------------------------------------------------------------------


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    write = await writing.parse_write(request, operation=new_operation())
    return write_response(request, context, await put(context, write))


async def _act(kind: type[Operate], context: ArmContext, request: ArmRequest) -> Response:
    """Act on the role instances that the body names, or on all of them."""
    names = typed_value(await request.body(), "roleInstances", list)
    if names is None and kind is Delete:
        raise ArmError(
            "InvalidParameter", "The parameter 'roleInstances' is required: names, or '*'."
        )
    scope = await context.scope(await context.get(CLOUD_SERVICE, request.group, request.name))
    if names in (None, ["*"]):
        return await _operate(context, request, kind, scope, tuple(scope.machines))
    if not names or not all(isinstance(name, str) for name in names):
        raise invalid_value("roleInstances", names, "names, or only '*' for all role instances")
    canonical = {name.lower(): name for name in scope.machines}
    instances = tuple(canonical.get(name.lower(), name) for name in names)
    return await _operate(context, request, kind, scope, tuple(dict.fromkeys(instances)))


async def _act_on_instance(
    kind: type[Operate], context: ArmContext, request: ArmRequest
) -> Response:
    _, scope, machine = await _find_instance(context, request)
    return await _operate(context, request, kind, scope, (machine.name,))


async def _operate(
    context: ArmContext,
    request: ArmRequest,
    kind: type[Operate],
    scope: Scope,
    names: tuple[str, ...],
) -> Response:
    operation = new_operation()
    command = kind(scope=scope.id, machines=names, operation=operation, actor=request.actor)
    return accepted(request, await context.fleet.submit(command), context.cloud.location)


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.find(CLOUD_SERVICE, request.group, request.name)
    if resource is None:
        return await writing.no_content(context, request)
    if resource.removed_by:
        return await targets.accept_running(context, request, resource.removed_by)
    operation = new_operation()
    names = tuple((await context.scope(resource)).machines)
    deletes = (Delete(scope=resource.scope, machines=names, operation=operation),) if names else ()
    remove = Remove(resource=resource.id, operation=operation, follow=deletes, actor=request.actor)
    return accepted(request, await context.fleet.submit(remove), context.cloud.location)


_ACTIONS = {"restart": Restart, "reimage": Reimage, "rebuild": Reimage}
_SERVICE_ACTIONS = {**_ACTIONS, "poweroff": Stop, "start": Start, "delete": Delete}
_COLLECTION = f"{COMPUTE}/cloudServices"
_ITEM = f"{_COLLECTION}/{{name}}"
_ROLE_INSTANCE = f"{_ITEM}/roleInstances/{{instance}}"
ROUTES = (
    Route("GET", f"{ALL_COMPUTE}/cloudServices", _list),
    Route("GET", _COLLECTION, _list),
    Route("GET", _ITEM, _get),
    Route("PUT", _ITEM, _put),
    Route("PATCH", _ITEM, _put),
    Route("DELETE", _ITEM, _delete),
    Route("GET", f"{_ITEM}/roles", _list_roles),
    Route("GET", f"{_ITEM}/roleInstances", _list_instances),
    Route("GET", _ROLE_INSTANCE, _get_instance),
    Route("GET", f"{_ROLE_INSTANCE}/instanceView", _view_instance),
    Route("DELETE", _ROLE_INSTANCE, partial(_act_on_instance, Delete)),
    *(
        Route("POST", f"{_ROLE_INSTANCE}/{n}", partial(_act_on_instance, k))
        for n, k in _ACTIONS.items()
    ),
    *(Route("POST", f"{_ITEM}/{n}", partial(_act, k)) for n, k in _SERVICE_ACTIONS.items()),
)
