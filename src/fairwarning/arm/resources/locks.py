"""Locks of the subscription, a group or a resource, as `az lock` manages them (C1).

A lock holds for its scope and everything in it. CanNotDelete refuses DELETE, ReadOnly every write
and action. Machines that the service deletes by itself (evictions, scale-in) are not protected.
All locks of a group are one document, so that a request reads those that apply at once. A lock
ends with its scope: it is ignored from then on, and dropped before the scope can be created again.
"""

import asyncio
from collections.abc import Callable, Iterable
from math import inf

from starlette.responses import Response

from fairwarning.arm.compute import targets
from fairwarning.arm.http.azure_id import AzureId, parse_id
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.types import documents, stored
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import choice, invalid_value, typed_value
from fairwarning.arm.types.names import LOCKS
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite, check_name, write_resource
from fairwarning.core.model import Resource
from fairwarning.service import resources

_CAN_NOT_DELETE, _READ_ONLY = "CanNotDelete", "ReadOnly"
_LEVELS = {level: level for level in (_CAN_NOT_DELETE, _READ_ONLY)}
_NOTES_MAX = 512  # characters, as on Azure
_LOCKS_MAX = 200  # of a group
_ALL = "all"  # the name of the document that has the locks of a group
_AT_SCOPE = "atscope()"
_SHOWN = 5  # locks that an error names
Locks = dict[str, Body]
"""Locks by their ids in lower case; each has its scope, name, level, notes and time."""


async def _read(context: ArmContext, *groups: str) -> Locks:
    """Return the locks of groups; those of the subscription for the empty name."""
    ids = (resources.resource_id(LOCKS, group, _ALL) for group in groups)
    rows = await context.read_all(Resource, ids)
    return _locks_of(rows.values())


def _locks_of(rows: Iterable[Resource]) -> Locks:
    return {id_: lock for row in rows for id_, lock in documents.stored_body(row).items()}


async def _change(
    context: ArmContext, request: ArmRequest, edit: Callable[[Locks], object]
) -> None:
    async def plan(_write: ResourceWrite, locks: Body) -> DesiredResource:
        edit(locks)
        if len(locks) > _LOCKS_MAX:
            raise azure_error("OperationNotAllowed/too many locks", most=_LOCKS_MAX)
        return DesiredResource(locks)

    id_ = AzureId(request.id.subscription, request.id.group, LOCKS, _ALL)
    await write_resource(ResourceWrite(context, id_, {}, request.version, request.actor), plan)


async def _holding(context: ArmContext, locks: Locks) -> Locks:
    """Return the locks whose scopes exist, and have no machine that was created later."""
    return {id_: lock for id_, lock in locks.items() if await _holds(context, lock)}


async def _holds(context: ArmContext, lock: Body) -> bool:
    await asyncio.sleep(0)  # a group may have many locks: other requests go on
    scope = parse_id(lock["scope"])
    assert scope
    for around in scope.with_parents():
        if target := await targets.find_any(context, around):
            if target.machine.created_at > lock.get("at", inf):
                return False
        elif context.types.get(around.kind) and not await stored.exists(context, around):
            return False
    return not scope.kind or await stored.exists(context, scope)


async def check(context: ArmContext, request: ArmRequest) -> None:
    """Refuse a request that writes to a locked scope; raises `ScopeLocked`."""
    id_, method = request.id, request.http.method
    own = await _read(context, id_.group)
    holding = await _holding(context, own)
    if ended := own.keys() - holding.keys() if method in {"PUT", "PATCH"} else ():
        await _change(context, request, lambda locks: [locks.pop(key, None) for key in ended])
    if LOCKS.lower() in {around.kind.lower() for around in id_.with_parents()}:
        return  # a lock can always be changed and deleted
    deletes = method == "DELETE"
    levels = {_CAN_NOT_DELETE, _READ_ONLY} if deletes else {_READ_ONLY}
    locks = (holding | await _holding(context, await _read(context, ""))).values()
    ids = [id_]
    for around in id_.with_parents() if locks else ():
        ids += await targets.ids_of_instance(context, around)
    scopes = {around.path.lower() for own in ids for around in own.with_parents()}
    inside = (f"{id_.path.lower()}/",) if deletes and not id_.kind else ()  # a group's resources
    texts = [
        f"'{lock['scope']}' (lock '{lock['name']}', {lock['level']})"
        for lock in locks
        if lock["level"] in levels
        and (lock["scope"].lower() in scopes or lock["scope"].lower().startswith(inside))
    ]
    if texts:
        verb = "delete" if deletes else "write"
        raise azure_error("ScopeLocked", path=id_.path, verb=verb, texts=", ".join(texts[:_SHOWN]))


def _scope(id_: AzureId) -> AzureId:
    return id_.owner or AzureId(id_.subscription, id_.group)


def _document(lock: Body) -> Body:
    notes = {"notes": lock["notes"]} if lock["notes"] else {}
    return {
        "id": f"{lock['scope']}/providers/{LOCKS}/{lock['name']}",
        "name": lock["name"],
        "type": LOCKS,
        "properties": {"level": lock["level"], **notes},
    }


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    check_name(request.name)
    scope, key = _scope(request.id), request.id.path.lower()
    await stored.require_scope(context, scope)
    body = await request.body()
    level = choice(body, "properties.level", _LEVELS, None)
    if level is None:
        raise invalid_value("properties.level", "", f"one of {', '.join(_LEVELS)}")
    notes = typed_value(body, "properties.notes", str, "")
    if len(notes) > _NOTES_MAX:
        raise invalid_value("properties.notes", notes, f"at most {_NOTES_MAX} characters")
    new: Body = {"scope": scope.path, "name": request.name, "level": level, "notes": notes}
    created = False

    def edit(locks: Locks) -> None:
        nonlocal created
        created = key not in locks
        locks[key] = {**new, "name": locks.get(key, new)["name"], "at": context.fleet.clock.now()}

    await _change(context, request, edit)
    lock = (await _read(context, request.id.group))[key]
    return json_response(_document(lock), 201 if created else 200)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    await stored.require_scope(context, _scope(request.id))
    lock = (await _read(context, request.id.group)).get(request.id.path.lower())
    if lock is None or not await _holds(context, lock):
        raise azure_error("LockNotFound", name=request.name[:90], path=_scope(request.id).path)
    return json_response(_document(lock))


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    key = request.id.path.lower()
    if key not in await _read(context, request.id.group):
        return await context.no_content(request.id)
    await _change(context, request, lambda locks: locks.pop(key, None))
    return Response(b"", 200)


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    """List the locks of a scope and of everything in it; with atScope(), of what is around it."""
    scope = request.id
    await stored.require_scope(context, scope)
    expression = request.query("$filter").strip().lower()
    if expression not in {"", _AT_SCOPE}:
        raise azure_error("InvalidFilterInQueryString/only atScope")
    own = request.principal.group
    if scope.group or own:
        locks = await _read(context, scope.group or own, *([] if own else [""]))
    else:
        locks = _locks_of(await context.all_of(LOCKS, ""))
    locks = await _holding(context, locks)
    if expression or scope.kind:
        around = {parent.path.lower() for parent in scope.with_parents()}
        value = [lock for lock in locks.values() if lock["scope"].lower() in around]
    else:
        inside = f"{scope.path.lower()}/"
        value = [lock for lock in locks.values() if f"{lock['scope'].lower()}/".startswith(inside)]
    return json_response({"value": [_document(lock) for lock in value]})


TYPE = ResourceType(
    name=LOCKS,
    purpose="refuses requests that delete, or that write at all",
    listed=False,
    extends=True,
    patched=False,
    put=_put,
    get=_get,
    list=_list,
    remove=_delete,
)
