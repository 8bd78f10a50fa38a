"""Extensions and run commands of machines and instances: stored and shown, never run (C1)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.resources import documents, targets, views, writing
from fairwarning.arm.resources.azure_scopes import AzureScope
from fairwarning.arm.resources.owned_items import Items, OwnedItems, items_of
from fairwarning.arm.resources.targets import ActionTarget
from fairwarning.arm.resources.writing import ResourceWrite, WriteResult, write_response
from fairwarning.core.model import Ref
from fairwarning.service.resources import INSTANCE, MACHINE, Resource, vm_id

NOT_RUN = "Nothing was run: the service stores it and has no access to the machine."


@dataclass(frozen=True)
class MachineItemType:
    """A type of items that machines have."""

    segment: str  # of the path
    required: tuple[str, ...]  # members of `properties` that a new item must have
    view: Callable[[Body], Body]  # the instance view of an item

    @property
    def kind(self) -> str:
        """The name under which the items of all machines are stored."""
        return f"{MACHINE}/{self.segment}"


def extension_view(item: Body) -> Body:
    """Return the instance view of an extension."""
    properties = item["properties"]
    done = views.status("ProvisioningState/succeeded", "Provisioning succeeded")
    return {
        "name": item["name"],
        "type": f"{properties.get('publisher', '')}.{properties.get('type', '')}",
        "typeHandlerVersion": properties.get("typeHandlerVersion", ""),
        "statuses": [{**done, "message": NOT_RUN}],
    }


def _command_view(_item: Body) -> Body:
    """Return the instance view of a run command."""
    return {"executionState": "Unknown", "executionMessage": NOT_RUN, "output": "", "error": ""}


EXTENSIONS = MachineItemType(
    "extensions", ("publisher", "type", "typeHandlerVersion"), extension_view
)
RUN_COMMANDS = MachineItemType("runCommands", ("source",), _command_view)
TYPES = (EXTENSIONS, RUN_COMMANDS)
KINDS = tuple(type_.kind for type_ in TYPES)


# --- Documents ------------------------------------------------------------------------------------


def _owner(target: ActionTarget) -> AzureScope:
    """Return the machine; an instance of a Flexible set is a virtual machine, too."""
    machine, scale_set = target.machine, target.scale_set
    group = target.resource.group if target.resource else target.scope.group
    if scale_set is None or scale_set.flexible:
        return AzureScope(group, MACHINE, machine.name)
    return AzureScope(group, INSTANCE, f"{scale_set.name}/{machine.instance}")


def _items(context: ArmContext, type_: MachineItemType, target: ActionTarget) -> OwnedItems:
    identity = vm_id(target.scope.id, target.machine)
    return OwnedItems(context, type_.kind, _owner(target), identity)


def _document(
    context: ArmContext,
    type_: MachineItemType,
    owner: AzureScope,
    item: Body,
    *,
    view: bool = False,
) -> Body:
    kind = f"{owner.kind}/{type_.segment}"
    properties = {**item["properties"], "provisioningState": "Succeeded"}
    if view:
        properties["instanceView"] = type_.view(item)
    return {
        "location": context.cloud.location,
        **item,
        "id": context.arm_id(kind, owner.group, f"{owner.name}/{item['name']}"),
        "type": kind,
        "properties": properties,
    }


async def add_extensions(context: ArmContext, pairs: Iterable[tuple[ActionTarget, Body]]) -> None:
    """Add the extensions of machines to their documents: `resources`, and in the instance view."""
    items = [(_items(context, EXTENSIONS, target), body) for target, body in pairs]
    refs: list[Ref] = [(Resource, attached.id) for attached, _ in items]
    entities = await context.fleet.reader.read_all(refs)
    for attached, body in items:
        stored = entities[Resource, attached.id]
        if not isinstance(stored, Resource):
            continue
        extensions = items_of(stored, attached.identity).values()
        if extensions:
            body["resources"] = [
                _document(context, EXTENSIONS, attached.owner, item) for item in extensions
            ]
        if view := body["properties"].get("instanceView"):
            view["extensions"] = [extension_view(item) for item in extensions]


async def extension_views(context: ArmContext, target: ActionTarget) -> Body:
    """Return the member `extensions` of a machine's instance view; nothing without extensions."""
    items = (await _items(context, EXTENSIONS, target).read()).values()
    return {"extensions": [extension_view(item) for item in items]} if items else {}


# --- Writing --------------------------------------------------------------------------------------


async def _target(context: ArmContext, group: str, owner: str) -> ActionTarget:
    """Return a machine, or an instance as `web/0`."""
    name, _, number = owner.partition("/")
    if number:
        return await targets.find_instance(context, group, name, number)
    return await targets.find_machine(context, group, name)


def checked(body: Body, required: Iterable[str], before: Body | None) -> Body:
    """Return the body of an item without computed members; refuse a new one that is incomplete."""
    documents.tags_of(body)
    body = documents.without_read_only(body)
    properties = documents.typed_value(body, "properties", dict, {})
    for name in required:
        if name not in properties and before is None:
            raise documents.invalid_value(f"properties.{name}", "", "present")
    return {**body, "properties": properties}


async def put(type_: MachineItemType, context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Create or replace an item; a PATCH changes only the members that it has."""
    parent, _, name = write.name.rpartition("/")
    writing.check_name(name)
    target = await _target(context, write.group, parent)
    items = _items(context, type_, target)
    created = False

    def edit(stored: dict[str, Body]) -> None:
        nonlocal created
        before = stored.get(name.lower())
        created = before is None
        if before is None and write.must_exist:
            raise _not_found(type_, items.owner, name)
        body = checked(write.body, type_.required, before if write.must_exist else None)
        if before is not None and write.must_exist:
            body = documents.merge(before, body)
        stored[name.lower()] = {**body, "name": before["name"] if before else name}

    await items.change(write.actor, edit)
    document = _document(context, type_, items.owner, (await items.read())[name.lower()])
    resource = await context.fleet.reader.read(Resource, items.id)
    assert resource is not None
    return WriteResult(resource, document, created)


def _not_found(type_: MachineItemType, owner: AzureScope, name: str) -> errors.ArmError:
    kind = f"{owner.kind}/{type_.segment}"
    return errors.resource_not_found(kind, f"{owner.name}/{name[:90]}", owner.group)


# --- Requests -------------------------------------------------------------------------------------


def _parent(request: ArmRequest) -> str:
    """Return the machine, or the set and the instance, that the path names."""
    params = request.params
    return f"{params['set']}/{params['number']}" if "set" in params else params["parent"]


def _wants_view(request: ArmRequest) -> bool:
    return "instanceview" in request.query("$expand").lower()


async def _attached(type_: MachineItemType, context: ArmContext, request: ArmRequest) -> OwnedItems:
    return _items(context, type_, await _target(context, request.group, _parent(request)))


async def _list(type_: MachineItemType, context: ArmContext, request: ArmRequest) -> Response:
    attached = await _attached(type_, context, request)
    items: Items = await attached.read()
    view = _wants_view(request)
    value = [_document(context, type_, attached.owner, item, view=view) for item in items.values()]
    return json_response({"value": value})


async def _get(type_: MachineItemType, context: ArmContext, request: ArmRequest) -> Response:
    attached = await _attached(type_, context, request)
    item = (await attached.read()).get(request.name.lower())
    if item is None:
        raise _not_found(type_, attached.owner, request.name)
    view = _wants_view(request)
    return json_response(_document(context, type_, attached.owner, item, view=view))


async def _put(type_: MachineItemType, context: ArmContext, request: ArmRequest) -> Response:
    name = f"{_parent(request)}/{request.name}"
    write = await writing.parse_write(request, name=name)
    return write_response(request, context, await put(type_, context, write))


async def _delete(type_: MachineItemType, context: ArmContext, request: ArmRequest) -> Response:
    attached = await _attached(type_, context, request)
    if request.name.lower() not in await attached.read():
        return Response(b"", 204)

    def edit(items: dict[str, Body]) -> None:
        items.pop(request.name.lower(), None)

    await attached.change(request.actor, edit)
    return Response(b"", 200)


def _routes(type_: MachineItemType) -> list[Route]:
    paths = (
        f"{COMPUTE}/virtualMachines/{{parent}}/{type_.segment}",
        f"{COMPUTE}/virtualMachineScaleSets/{{set}}/virtualMachines/{{number}}/{type_.segment}",
    )
    return [
        route
        for path in paths
        for route in (
            Route("GET", path, partial(_list, type_)),
            Route("GET", f"{path}/{{name}}", partial(_get, type_)),
            Route("PUT", f"{path}/{{name}}", partial(_put, type_)),
            Route("PATCH", f"{path}/{{name}}", partial(_put, type_)),
            Route("DELETE", f"{path}/{{name}}", partial(_delete, type_)),
        )
    ]


PUTS: Mapping[str, writing.Put] = {
    f"{owner}/{type_.segment}".lower(): partial(put, type_)
    for type_ in TYPES
    for owner in (MACHINE, INSTANCE)
}
"""The write function of each type, by its name in lower case."""
ROUTES = tuple(route for type_ in TYPES for route in _routes(type_))
