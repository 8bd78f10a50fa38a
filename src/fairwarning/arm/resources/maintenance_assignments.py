"""Assignments of maintenance configurations: `configurationAssignments` (C1).

An assignment to a machine, an availability set or a scale set gives its scopes the window of the
configuration, and rollouts then wait for it.
"""

from collections.abc import Sequence

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import COMPUTE, GROUP, SUBSCRIPTION, Route
from fairwarning.arm.resources import (
    azure_scopes,
    documents,
    maintenance_windows,
    owned_items,
    targets,
    writing,
)
from fairwarning.arm.resources.azure_scopes import AzureScope
from fairwarning.arm.resources.documents import typed_value
from fairwarning.arm.resources.owned_items import OwnedItems, items_of
from fairwarning.core.commands import Command, Configure, UpdateSet
from fairwarning.core.model import Rules, ScopeKind
from fairwarning.core.record import changed
from fairwarning.service.resources import AVAILABILITY_SET, MACHINE, SCALE_SET, Resource

CONFIGURATION = "Microsoft.Maintenance/maintenanceConfigurations"
KIND = "Microsoft.Maintenance/configurationAssignments"
HOST = "Host"
_IN_GUEST = "InGuestPatch"
_KINDS = {kind.partition("/")[2].lower(): kind for kind in (MACHINE, AVAILABILITY_SET, SCALE_SET)}
_CONFIGURATION_ID = "properties.maintenanceConfigurationId"


# --- Windows of scopes ----------------------------------------------------------------------------


def _with_window(rules: Rules, text: str) -> Rules:
    return changed(rules, maintenance_window=text)


async def _window_commands(
    context: ArmContext, owner: AzureScope, text: str
) -> tuple[Command, ...]:
    """Return the commands that give the scopes of a resource this window."""
    if not owner.kind:
        return ()
    if owner.kind == SCALE_SET:
        resource = await context.get(SCALE_SET, owner.group, owner.name)
        scale_set = await context.scale_set(resource)
        return (UpdateSet(set=scale_set.id, rules=_with_window(scale_set.rules, text)),)
    if owner.kind == AVAILABILITY_SET:
        scope = await context.scope(await context.get(owner.kind, owner.group, owner.name))
    else:
        scope = (await targets.find_machine(context, owner.group, owner.name)).scope
        if scope.kind is not ScopeKind.STANDALONE:
            text = f"The machine '{owner.name}' is in a set; assign the configuration to the set."
            raise ArmError("OperationNotAllowed", text, 409)
    return (Configure(scope=scope.id, rules=_with_window(scope.rules, text)),)


async def owners(context: ArmContext, configuration: str) -> list[str]:
    """Return the Azure ids of everything that a configuration is assigned to."""
    return [
        documents.stored_body(row)["owner"]
        for row in await owned_items.all_documents(context, KIND)
        if any(_refers(item, configuration) for item in items_of(row).values())
        and await _exists(context, documents.stored_body(row)["owner"])
    ]


def _refers(item: Body, configuration: str) -> bool:
    reference: str = item["properties"]["maintenanceConfigurationId"]
    return reference.lower() == configuration.lower()


async def _exists(context: ArmContext, path: str) -> bool:
    scope = azure_scopes.of_path(path)
    assert scope is not None
    try:
        await azure_scopes.require(context, scope)
    except ArmError:
        return False
    return True


async def reassign(context: ArmContext, configuration: str, text: str) -> tuple[Command, ...]:
    """Return the commands that give a changed window to everything the configuration applies to."""
    commands: list[Command] = []
    for path in await owners(context, configuration):
        scope = azure_scopes.of_path(path)
        assert scope is not None
        commands += await _window_commands(context, scope, text)
    return tuple(commands)


# --- Requests -------------------------------------------------------------------------------------


def _owner(request: ArmRequest) -> AzureScope:
    if "resource" not in request.params:
        return AzureScope(request.group)
    kind = _KINDS.get(request.params["kind"].lower())
    if kind is None:
        text = f"Maintenance configurations can be assigned to {', '.join(_KINDS.values())}."
        raise ArmError("InvalidResourceType", text, 404)
    return AzureScope(request.group, kind, request.params["resource"])


async def _configuration(context: ArmContext, request: ArmRequest, path: str) -> Resource:
    """Return the configuration with this id, if the client may read it."""
    scope = azure_scopes.of_path(path)
    own = request.principal.group.lower()
    if scope is None or scope.kind.lower() != CONFIGURATION.lower():
        raise documents.invalid_value(_CONFIGURATION_ID, path, f"the id of a {CONFIGURATION}")
    if own and scope.group.lower() != own:
        raise errors.resource_not_found(CONFIGURATION, scope.name, scope.group)
    return await context.get(CONFIGURATION, scope.group, scope.name)


def _document(context: ArmContext, owner: AzureScope, item: Body) -> Body:
    path = owner.path(context)
    return {
        "location": context.cloud.location,
        **item,
        "id": f"{path}/providers/{KIND}/{item['name']}",
        "type": KIND,
        "properties": {**item["properties"], "resourceId": path},
    }


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Assign a configuration; a resource has at most one of scope Host."""
    writing.check_name(request.name)
    owner = _owner(request)
    await azure_scopes.require(context, owner)
    body = documents.without_read_only(documents.sanitize(await request.body()))
    path = typed_value(body, _CONFIGURATION_ID, str, "")
    configuration = documents.stored_body(await _configuration(context, request, path))
    scope = configuration["properties"]["maintenanceScope"]
    _check_scope(owner, scope)
    follow: tuple[Command, ...] = ()
    if scope == HOST:
        text = maintenance_windows.window_text(configuration)
        follow = await _window_commands(context, owner, text)
    name = request.name.lower()
    item = {**body, "name": request.name, "maintenanceScope": scope}
    created = False

    def edit(items: dict[str, Body]) -> None:
        nonlocal created
        created = name not in items
        _check_single(items, name, scope)
        items[name] = item

    await OwnedItems(context, KIND, owner).change(request.actor, edit, follow)
    return json_response(_document(context, owner, _shown(item)), 201 if created else 200)


def _shown(item: Body) -> Body:
    return documents.without(item, "maintenanceScope")


def _check_scope(owner: AzureScope, scope: str) -> None:
    if not owner.kind and scope != _IN_GUEST:
        text = f"Only configurations of maintenanceScope {_IN_GUEST} can be assigned to a group."
        raise ArmError("OperationNotAllowed", text, 409)


def _check_single(items: dict[str, Body], name: str, scope: str) -> None:
    for other, item in items.items():
        if scope == HOST and other != name and item["maintenanceScope"] == HOST:
            text = (
                f"The assignment '{item['name']}' already has a configuration of maintenanceScope "
                f"{HOST}; delete it first."
            )
            raise ArmError("OperationNotAllowed", text, 409)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    owner = _owner(request)
    await azure_scopes.require(context, owner)
    item = (await OwnedItems(context, KIND, owner).read()).get(request.name.lower())
    if item is None:
        raise errors.resource_not_found(KIND, request.name[:90], owner.group)
    return json_response(_document(context, owner, _shown(item)))


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    owner = _owner(request)
    await azure_scopes.require(context, owner)
    items = (await OwnedItems(context, KIND, owner).read()).values()
    return json_response({"value": [_document(context, owner, _shown(item)) for item in items]})


async def _list_all(context: ArmContext, request: ArmRequest) -> Response:
    """List the assignments of all groups that the client may read."""
    value = []
    for row in await owned_items.all_documents(context, KIND, request.principal.group):
        owner = azure_scopes.of_path(documents.stored_body(row)["owner"])
        assert owner is not None
        value += [_document(context, owner, _shown(item)) for item in items_of(row).values()]
    return json_response({"value": value})


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    owner = _owner(request)
    await azure_scopes.require(context, owner)
    assignments = OwnedItems(context, KIND, owner)
    item = (await assignments.read()).get(request.name.lower())
    if item is None:
        return Response(b"", 204)
    follow: Sequence[Command] = ()
    if item["maintenanceScope"] == HOST:
        follow = await _window_commands(context, owner, "")

    def edit(items: dict[str, Body]) -> None:
        items.pop(request.name.lower(), None)

    await assignments.change(request.actor, edit, tuple(follow))
    return Response(b"", 200)


_PATHS = (GROUP, f"{COMPUTE}/{{kind}}/{{resource}}")
ROUTES = (
    Route("GET", f"{SUBSCRIPTION}/providers/{KIND}", _list_all),
    *(
        Route(method, f"{path}/providers/{KIND}{item}", handler)
        for path in _PATHS
        for method, item, handler in (
            ("GET", "", _list),
            ("GET", "/{name}", _get),
            ("PUT", "/{name}", _put),
            ("DELETE", "/{name}", _delete),
        )
    ),
)
