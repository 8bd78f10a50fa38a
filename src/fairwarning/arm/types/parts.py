"""Named parts of a resource: the subnets of a network, the rules of a security group.

A part is stored in its parent, whether it was written with the parent or on its own.
"""

import re

from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import invalid_value, typed_value
from fairwarning.arm.types.resource_type import ResourceType
from fairwarning.core.model import Resource, guid

_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,78}[A-Za-z0-9_])?", re.ASCII)
PARTS_MAX = 1500
"""Named parts of one kind in a resource: Azure's limit for the rules of a load balancer."""
_ALLOWED = "1 to 80 letters, digits, '_', '-' or '.'"


def check(kind: ResourceType, body: Body) -> None:
    """Refuse parts without names of their own."""
    for part in kind.parts:
        entries = typed_value(body, f"properties.{part}", list, [])
        check_names(entries, f"properties.{part}")
        for entry in entries:
            entry["properties"] = typed_value(entry, "properties", dict, {})


def check_names(entries: list[object], where: str) -> None:
    """Refuse the entries of a list that have no names of their own, and too many of them."""
    if len(entries) > PARTS_MAX:
        raise invalid_value(where, f"{len(entries)} entries", f"at most {PARTS_MAX} entries")
    names: set[str] = set()
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not _PART.fullmatch(name):
            raise invalid_value(f"{where}.name", name, _ALLOWED)
        if name.lower() in names:
            raise invalid_value(f"{where}.name", name, "unique in its list")
        names.add(name.lower())


def listed(body: Body, part: str) -> list[Body]:
    """Return the list of a body's parts of one kind, for modification."""
    entries: list[Body] = body.setdefault("properties", {}).setdefault(part, [])
    return entries


def index_of(entries: list[Body], name: str) -> int | None:
    """Return the place of the part with this name; None if there is none."""
    matches = (n for n, part in enumerate(entries) if part["name"].lower() == name.lower())
    return next(matches, None)


def document(kind: ResourceType, context: ArmContext, resource: Resource) -> Body:
    """Return the stored body with the members that are computed from the resource alone."""
    body = documents.stored_body(resource)
    path = context.arm_id(kind.name, resource.group, resource.name)
    state = {"provisioningState": documents.state(resource)}
    properties = {**body["properties"], **state}
    for part in kind.parts:
        properties[part] = [
            {
                **entry,
                "id": f"{path}/{part}/{entry['name']}",
                "type": f"{kind.name}/{part}",
                "etag": documents.etag(resource),
                "properties": {**entry.get("properties", {}), **state},
            }
            for entry in properties.get(part, [])
        ]
    computed = {"id": path, "name": resource.name, "type": kind.name}
    if kind.name.startswith("Microsoft.Network/"):
        computed["etag"] = documents.etag(resource)
        properties["resourceGuid"] = guid(path.lower()).lower()
    return {**body, **computed, "properties": properties}
