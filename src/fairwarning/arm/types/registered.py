"""Resources of types that have a record: written by their plan, and read with their users."""

from collections.abc import Sequence
from dataclasses import replace

from fairwarning.arm.http import errors
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents, parts, references, stored, users, writing
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.model import Resource


async def read_documents(
    kind: ResourceType, context: ArmContext, rows: Sequence[Resource]
) -> list[Body]:
    """Return the documents of resources, with those that use them."""
    if kind.documents:
        return await kind.documents(context, rows)
    shown = [parts.document(kind, context, row) for row in rows]
    await users.add_users(kind, context, rows, shown)
    if kind.complete:
        await kind.complete(context, rows, shown)
    return shown


async def read_document(kind: ResourceType, context: ArmContext, row: Resource) -> Body:
    """Return the document of a resource; raise if it was deleted since the row was read."""
    for document in await read_documents(kind, context, [row]):
        return document
    raise errors.resource_not_found(kind.name, row.name, row.group)


async def plan(kind: ResourceType, write: ResourceWrite, body: Body) -> DesiredResource:
    """Check a body and its references, and plan its write as the type does."""
    body = documents.without_read_only(documents.sanitize(body))
    if write.existing is None or not kind.merges:
        writing.check_location(body)
    documents.tags_of(body)
    body["properties"] = documents.typed_value(body, "properties", dict, {})
    parts.check(kind, body)
    users.remove_users(kind, body)
    await _check_removed_parts(kind, write, body)
    links = await references.check(write, body)
    desired = await kind.plan(write, body) if kind.plan else DesiredResource(body)
    if write.existing is None:  # what belonged to a machine of this name that was evicted
        await stored.remove_below(write.context, write.id, write.actor)
    uses, owns = (*links.uses, *(desired.uses or ())), (*links.owns, *(desired.owns or ()))
    return replace(desired, uses=uses, owns=owns)


async def _check_removed_parts(kind: ResourceType, write: ResourceWrite, body: Body) -> None:
    """Refuse to remove parts that are in use, such as a subnet."""
    if write.existing is None:
        return
    before = documents.stored_body(write.existing)
    for part in kind.parts:
        kept = {entry["name"].lower() for entry in body["properties"].get(part, ())}
        gone = {e["name"] for e in parts.listed(before, part) if e["name"].lower() not in kept}
        if gone and f"{kind.name}/{part}" in users.REFUSALS:
            shown = await read_document(kind, write.context, write.existing)
            for entry in shown["properties"][part]:
                if entry["name"] in gone:
                    users.refuse_if_in_use(f"{kind.name}/{part}", entry)
