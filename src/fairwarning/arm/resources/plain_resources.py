"""Resource types that are stored as written, with their nested resources and computed members.

A nested resource (a subnet, a rule) is stored in its parent, whether it was written with the parent
or on its own.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import back_references, documents, in_use, writing
from fairwarning.arm.resources.documents import invalid_value, typed_value
from fairwarning.arm.resources.references import Links, Referrer
from fairwarning.arm.resources.writing import (
    DesiredResource,
    Plan,
    ResourceWrite,
    WriteResult,
    check_location,
    etag,
)
from fairwarning.core.model import guid
from fairwarning.core.record import changed
from fairwarning.service import resources
from fairwarning.service.resources import Resource

Fill = Callable[[Referrer, Body], Awaitable[Links]]
"""Checks the references of a body and adds Azure's defaults before it is stored."""

_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,78}[A-Za-z0-9_])?", re.ASCII)
_ALLOWED = "1 to 80 letters, digits, '_', '-' or '.'"


@dataclass(frozen=True)
class PlainResourceType:
    """A resource type: its lists of named parts, and the parts that have URLs of their own."""

    name: str
    parts: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    fill: Fill | None = None
    returns_201: bool = True  # 201 for a new resource; for a new disk, clients accept only 200


# --- Writing --------------------------------------------------------------------------------------


async def put(kind: PlainResourceType, context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Replace a resource; for a PATCH, merge the body into the stored one."""
    write = writing.normalized(kind.name, write)
    attempts = count()

    async def plan(existing: Resource | None, merged: Body, group: Resource) -> DesiredResource:
        body = documents.without_read_only(
            documents.sanitize(merged if write.must_exist else write.body)
        )
        check_location(body)
        referrer = _referrer_of(kind, context, group, write.name, existing)
        referrer = replace(referrer, attempt=next(attempts), confined=write.confined)
        return await _complete(kind, referrer, body)

    resource, created, operation = await writing.write_resource(context, kind.name, write, plan)
    new = created and kind.returns_201
    return WriteResult(resource, await read_document(kind, context, resource), new, operation)


async def put_part(
    kind: PlainResourceType, part: str, context: ArmContext, write: ResourceWrite
) -> WriteResult:
    """Replace a nested resource, or add it."""
    write = writing.normalized(f"{kind.name}/{part}", write)
    parent, _, name = write.name.partition("/")
    created = True

    async def plan(existing: Resource | None, merged: Body, group: Resource) -> DesiredResource:
        nonlocal created
        listed = _parts_of(_require_parent(kind, parent, existing, merged), part)
        index = _index_of(listed, name)
        created = index is None
        if index is None:
            listed.append({**documents.sanitize(write.body), "name": name})
        elif write.must_be_new:
            raise ArmError("PreconditionFailed", f"The resource '{name}' already exists.", 412)
        else:
            listed[index] = {**documents.sanitize(write.body), "name": listed[index]["name"]}
        referrer = _referrer_of(kind, context, group, parent, existing)
        return await _complete(kind, replace(referrer, confined=write.confined), merged)

    parent_write = replace(write, name=parent, body={}, must_be_new=False, must_exist=False)
    resource, _, operation = await writing.write_resource(context, kind.name, parent_write, plan)
    document = await read_part(kind, context, resource, part, name)
    nested = changed(
        resource,
        id=resources.resource_id(f"{kind.name}/{part}", resource.group, write.name),
        name=f"{resource.name}/{document['name']}",
    )
    return WriteResult(nested, document, created, operation)


def without_part(
    kind: PlainResourceType, part: str, context: ArmContext, name: str, nested: str
) -> Plan:
    """Return the plan that deletes a nested resource of the resource `name`."""

    async def plan(existing: Resource | None, merged: Body, group: Resource) -> DesiredResource:
        listed = _parts_of(_require_parent(kind, name, existing, merged), part)
        listed[:] = [entry for entry in listed if entry["name"].lower() != nested.lower()]
        return await _complete(kind, _referrer_of(kind, context, group, name, existing), merged)

    return plan


def has_part(resource: Resource, part: str, name: str) -> bool:
    """Whether a resource has a nested resource with this name."""
    return _index_of(_parts_of(documents.stored_body(resource), part), name) is not None


def _require_parent(
    kind: PlainResourceType, name: str, existing: Resource | None, merged: Body
) -> Body:
    """Return the body of the parent resource; raise if the parent does not exist."""
    if existing is None:
        text = (
            f"Can not perform requested operation on nested resource. Parent resource '{name}' "
            f"of type '{kind.name}' was not found."
        )
        raise ArmError("ParentResourceNotFound", text, 404)
    return merged


def _parts_of(body: Body, part: str) -> list[Body]:
    """Return the list of a body's parts of one kind, for modification."""
    properties: Body = body.setdefault("properties", {})
    listed: list[Body] = properties.setdefault(part, [])
    return listed


def _index_of(listed: list[Body], name: str) -> int | None:
    """Return the place of the part with this name; None if there is none."""
    matches = (n for n, part in enumerate(listed) if part["name"].lower() == name.lower())
    return next(matches, None)


def _referrer_of(
    kind: PlainResourceType,
    context: ArmContext,
    group: Resource,
    name: str,
    existing: Resource | None,
) -> Referrer:
    """Return the resource that is being written, as the one whose references are checked."""
    path = context.arm_id(kind.name, group.name, existing.name if existing else name)
    store_id = resources.resource_id(kind.name, group.name, name)
    return Referrer(context, path, store_id, existing)


async def _complete(kind: PlainResourceType, referrer: Referrer, body: Body) -> DesiredResource:
    """Check the members that the service reads, and add Azure's defaults."""
    documents.tags_of(body)
    body["properties"] = typed_value(body, "properties", dict, {})
    for part in kind.parts:
        _check_parts(body, part)
    if "subnets" in kind.nested and referrer.existing:
        await _check_subnets(kind, referrer.context, referrer.existing, body)
    links = await kind.fill(referrer, body) if kind.fill else Links()
    return DesiredResource(body, links.commands, uses=links.uses, owns=links.owns)


async def _check_subnets(
    kind: PlainResourceType, context: ArmContext, existing: Resource, body: Body
) -> None:
    """Refuse to remove subnets that are in use."""
    listed = body["properties"].get("subnets", [])
    removed = [
        entry["name"]
        for entry in documents.stored_body(existing)["properties"].get("subnets", ())
        if _index_of(listed, entry["name"]) is None
    ]
    if removed:
        document = await read_document(kind, context, existing)
        for subnet in document["properties"]["subnets"]:
            refusal = in_use.subnet_in_use(subnet) if subnet["name"] in removed else None
            if refusal:
                raise refusal


def _check_parts(body: Body, part: str) -> None:
    where = f"properties.{part}"
    names = set()
    for entry in typed_value(body, where, list, []):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not _PART.fullmatch(name):
            raise invalid_value(f"{where}.name", name, _ALLOWED)
        if name.lower() in names:
            raise invalid_value(f"{where}.name", name, "unique in its list")
        names.add(name.lower())
        typed_value(entry, "properties", dict)


# --- Documents ------------------------------------------------------------------------------------


async def read_documents(
    kind: PlainResourceType, context: ArmContext, page: Iterable[Resource]
) -> list[Body]:
    """Return the documents of a page of resources, with those that use them."""
    page = list(page)
    shown = {resource.id: _own_document(kind, context, resource) for resource in page}
    if view := back_references.VIEWS.get(kind.name):
        await view(context, page, shown)
    return list(shown.values())


async def read_document(kind: PlainResourceType, context: ArmContext, resource: Resource) -> Body:
    """Return the document of a resource."""
    (document,) = await read_documents(kind, context, [resource])
    return document


def _own_document(kind: PlainResourceType, context: ArmContext, resource: Resource) -> Body:
    """Return the stored body with the members that are computed from the resource alone."""
    body = documents.stored_body(resource)
    path = context.arm_id(kind.name, resource.group, resource.name)
    properties = {**body["properties"], "provisioningState": _state(resource)}
    for part in kind.parts:
        listed = properties.get(part, [])
        properties[part] = [_with_computed(kind, part, path, entry, resource) for entry in listed]
    computed = {"id": path, "name": resource.name, "type": kind.name}
    if kind.name.startswith("Microsoft.Network/"):
        computed["etag"] = etag(resource)
        properties["resourceGuid"] = guid(path.lower()).lower()
    return {**body, **computed, "properties": properties}


def _with_computed(
    kind: PlainResourceType, part: str, path: str, entry: Body, resource: Resource
) -> Body:
    computed = {
        "id": f"{path}/{part}/{entry['name']}",
        "type": f"{kind.name}/{part}",
        "etag": etag(resource),
    }
    inner = {**entry.get("properties", {}), "provisioningState": _state(resource)}
    return {**entry, **computed, "properties": inner}


async def read_part(
    kind: PlainResourceType, context: ArmContext, resource: Resource, part: str, name: str
) -> Body:
    """Return the document of a nested resource; raise if it does not exist."""
    document = await read_document(kind, context, resource)
    listed: list[Body] = document["properties"][part]
    index = _index_of(listed, name)
    if index is None:
        raise errors.resource_not_found(
            f"{kind.name}/{part}", f"{resource.name}/{name}", resource.group
        )
    return listed[index]


def _state(resource: Resource) -> str:
    return "Deleting" if resource.removed_by else "Succeeded"
