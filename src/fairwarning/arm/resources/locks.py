"""Locks: `Microsoft.Authorization/locks` on the subscription, a group or a resource (C1).

A lock holds for its scope and everything in it. CanNotDelete refuses DELETE, ReadOnly every write
and action. Machines that the service deletes by itself (evictions, scale-in) are not protected.
"""

from collections.abc import Iterable

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import SUBSCRIPTION, Route
from fairwarning.arm.resources import azure_scopes, documents, owned_items
from fairwarning.arm.resources.azure_scopes import EXTENSION_PATHS, AzureScope
from fairwarning.arm.resources.documents import choice, invalid_value, typed_value
from fairwarning.arm.resources.owned_items import OwnedItems, items_of
from fairwarning.arm.resources.writing import check_name
from fairwarning.core.model import Ref
from fairwarning.service.resources import Resource

KIND = "Microsoft.Authorization/locks"
_PATH = f"providers/{KIND}"
_CAN_NOT_DELETE, _READ_ONLY = "CanNotDelete", "ReadOnly"
_LEVELS = {level: level for level in (_CAN_NOT_DELETE, _READ_ONLY)}
_NOTES_MAX = 512  # characters, as on Azure
_AT_SCOPE = "atscope()"
_SHOWN = 5  # locks that an error names


# --- Enforcing ------------------------------------------------------------------------------------


async def check(context: ArmContext, method: str, path: str) -> None:
    """Refuse a request that writes to a locked scope; raises `ScopeLocked`."""
    scope = azure_scopes.of_path(path)
    if scope is None or f"/{_PATH}/".lower() in f"{path}/".lower():
        return  # a lock can always be changed and deleted
    rows = await _of_parents(context, scope)
    if method == "DELETE" and not scope.kind:
        rows += await _of_existing_resources(context, scope.group)
    _refuse(context, scope, rows, deletes=method == "DELETE")


def _refuse(
    context: ArmContext, scope: AzureScope, locked: Iterable[Resource], *, deletes: bool
) -> None:
    """Raise if a lock of these documents forbids the request."""
    levels = {_CAN_NOT_DELETE, _READ_ONLY} if deletes else {_READ_ONLY}
    locks = [
        f"'{documents.stored_body(document)['owner']}' (lock '{lock['name']}', {lock['level']})"
        for document in locked
        for lock in items_of(document).values()
        if lock["level"] in levels
    ]
    if locks:
        verb = "delete" if deletes else "write"
        text = (
            f"The scope '{scope.path(context)}' cannot perform {verb} operation because following "
            f"scope(s) are locked: {', '.join(locks[:_SHOWN])}. Please remove the lock and try "
            "again."
        )
        raise ArmError("ScopeLocked", text, 409)


async def _of_parents(context: ArmContext, scope: AzureScope) -> list[Resource]:
    """Return the documents with the locks of a scope and of everything around it."""
    ids = [OwnedItems(context, KIND, parent).id for parent in scope.with_parents()]
    refs: list[Ref] = [(Resource, name) for name in ids]
    entities = (await context.fleet.reader.read_all(refs)).values()
    return [entity for entity in entities if isinstance(entity, Resource)]


async def _of_existing_resources(context: ArmContext, group: str) -> list[Resource]:
    """Return the documents with the locks of a group's resources, without those that are gone."""
    existing = []
    for document in await owned_items.all_documents(context, KIND, group):
        scope = azure_scopes.of_path(documents.stored_body(document)["owner"])
        assert scope is not None
        if scope.kind and await context.find(scope.kind, scope.group, scope.name):
            existing.append(document)
    return existing


# --- Requests -------------------------------------------------------------------------------------


def _document(owner: str, lock: Body) -> Body:
    notes = {"notes": lock["notes"]} if lock["notes"] else {}
    return {
        "id": f"{owner}/{_PATH}/{lock['name']}",
        "name": lock["name"],
        "type": KIND,
        "properties": {"level": lock["level"], **notes},
    }


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Create or replace a lock."""
    check_name(request.name)
    scope = azure_scopes.of_request(request)
    await azure_scopes.require(context, scope)
    body = await request.body()
    level = choice(body, "properties.level", _LEVELS, None)
    if level is None:
        raise invalid_value("properties.level", "", f"one of {', '.join(_LEVELS)}")
    notes = typed_value(body, "properties.notes", str, "")
    if len(notes) > _NOTES_MAX:
        raise invalid_value("properties.notes", notes, f"at most {_NOTES_MAX} characters")
    lock: Body = {"level": level, "notes": notes}
    created = False

    def edit(items: dict[str, Body]) -> None:
        nonlocal created
        existing = items.get(request.name.lower())
        created = existing is None
        items[request.name.lower()] = {
            "name": existing["name"] if existing else request.name,
            **lock,
        }

    locks = OwnedItems(context, KIND, scope)
    await locks.change(request.actor, edit)
    stored = (await locks.read())[request.name.lower()]
    return json_response(_document(scope.path(context), stored), 201 if created else 200)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    scope = azure_scopes.of_request(request)
    await azure_scopes.require(context, scope)
    lock = (await OwnedItems(context, KIND, scope).read()).get(request.name.lower())
    if lock is None:
        text = f"The lock '{request.name[:90]}' of '{scope.path(context)}' was not found."
        raise ArmError("LockNotFound", text, 404)
    return json_response(_document(scope.path(context), lock))


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    scope = azure_scopes.of_request(request)
    await azure_scopes.require(context, scope)
    locks = OwnedItems(context, KIND, scope)
    if request.name.lower() not in await locks.read():
        return Response(b"", 204)

    def edit(items: dict[str, Body]) -> None:
        items.pop(request.name.lower(), None)

    await locks.change(request.actor, edit)
    return Response(b"", 200)


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    """List the locks of a scope and of everything in it; with atScope(), of what is around it."""
    scope = azure_scopes.of_request(request)
    await azure_scopes.require(context, scope)
    expression = request.query("$filter").strip().lower()
    if expression not in {"", _AT_SCOPE}:
        text = "The $filter is not supported; use atScope(), or none."
        raise ArmError("InvalidFilterInQueryString", text)
    rows = await (
        _of_parents(context, scope)
        if expression or scope.kind
        else owned_items.all_documents(context, KIND, scope.group or request.principal.group)
    )
    value = [
        _document(documents.stored_body(row)["owner"], lock)
        for row in rows
        for lock in items_of(row).values()
    ]
    return json_response({"value": value})


ROUTES = tuple(
    Route(method, f"{path}/{_PATH}{item}", handler, subscription_wide=wide)
    for path in EXTENSION_PATHS
    for method, item, handler, wide in (
        ("GET", "", _list, False),
        ("GET", "/{name}", _get, path == SUBSCRIPTION),
        ("PUT", "/{name}", _put, path == SUBSCRIPTION),
        ("DELETE", "/{name}", _delete, path == SUBSCRIPTION),
    )
)
