"""The users of a resource: named in its document, computed when it is read, never stored.

What has one user (an interface, a public address) knows it. The users of a subnet or a load
balancer's pool are found in the group. A resource in use is not deleted.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.names import DISK, INTERFACE, NAT_RULE, PUBLIC_ADDRESS, SCALE_SET, SUBNET
from fairwarning.arm.types.references import TABLE, Reference, links, target_of
from fairwarning.arm.types.resource_type import ResourceType
from fairwarning.core.model import Resource, ScaleSet

SHOWN_MAX = 2000
"""Users, after which a document names one of each further resource: it is in use, too."""
_NAMED = 10  # users in one text
_ONE_USER = frozenset({INTERFACE, PUBLIC_ADDRESS, NAT_RULE})  # whose member is an object, no list
Users = Mapping[tuple[str, str], list[Body]]
"""The users `{"id": ...}` by Azure id in lower case and member of the document."""


async def add_users(
    kind: ResourceType, context: ArmContext, rows: Sequence[Resource], shown: list[Body]
) -> None:
    """Add to documents the members that name the users of the resources and of their parts."""
    references = _shown_in(kind)
    if not references:
        return
    users = await _users(context, rows, references)
    for reference in references:
        is_object = reference.target in _ONE_USER
        for document in shown:
            for entry in _targets(kind, reference, document):
                if listed := users.get((entry["id"].lower(), reference.shown)):
                    entry["properties"][reference.shown] = listed[0] if is_object else listed


def _targets(kind: ResourceType, reference: Reference, document: Body) -> list[Body]:
    """Return what a reference names in a document: the resource itself, or its parts."""
    part = reference.target.removeprefix(kind.name).strip("/")
    return document["properties"].get(part, []) if part else [document]


def _shown_in(kind: ResourceType) -> list[Reference]:
    return [
        reference
        for reference in TABLE
        if reference.shown and f"{reference.target}/".startswith(f"{kind.name}/")
    ]


def remove_users(kind: ResourceType, body: Body) -> None:
    """Remove the members that `add_users` computes, which clients send back."""
    for reference in _shown_in(kind):
        for entry in _targets(kind, reference, body):
            entry.get("properties", {}).pop(reference.shown, None)


async def _users(
    context: ArmContext, rows: Sequence[Resource], references: Iterable[Reference]
) -> Users:
    """Index the users: those that the resources know, or all in their groups."""
    by_source: defaultdict[str, list[Reference]] = defaultdict(list)
    for reference in references:
        by_source[reference.source.lower()].append(reference)
    if any(reference.single for reference in references):
        listed = [*(await context.read_all(Resource, (row.used_by for row in rows))).values()]
    else:
        groups = {row.group.lower() for row in rows}
        listed = [
            u for g in groups for source in by_source for u in await context.all_of(source, g)
        ]
    index: defaultdict[tuple[str, str], dict[str, Body]] = defaultdict(dict)
    count = 0
    for user in listed:
        await asyncio.sleep(0)  # other requests go on
        body, ids = documents.stored_body(user), await _ids(context, user)
        for reference in by_source[user.id.partition(":")[0]]:
            for link in links(body, reference.path):
                shown = index[target_of(link), reference.shown]
                for path in ids(link.part):
                    if count < SHOWN_MAX or not shown:
                        count += path not in shown
                        shown[path] = {"id": path}
    return {key: list(users.values()) for key, users in index.items()}


async def _ids(context: ArmContext, user: Resource) -> Callable[[str], list[str]]:
    """Return the function from a part of a user to its Azure ids: one in each instance of a set."""
    path = context.path_of(user)
    if not user.id.startswith(f"{SCALE_SET.lower()}:"):
        return lambda part: [f"{path}{part}"]
    scale_set = await context.fleet.reader.read(ScaleSet, user.set)
    groups = await context.placement_groups(scale_set) if scale_set else []
    machines = sorted(
        # A machine that joined the set has interfaces of its own.
        (machine for scope in groups for machine in scope.machines.values() if machine.model),
        key=lambda machine: machine.instance,
    )

    def ids(part: str) -> list[str]:
        assert scale_set is not None
        _, _, interface, *rest = part.split("/")  # /networkInterfaceConfigurations/nic/...
        return [
            "/".join([context.interface_id(user, scale_set, machine, interface), *rest])
            for machine in machines
        ]

    return ids


REFUSALS: Mapping[str, str] = {
    INTERFACE: "NicInUse",
    PUBLIC_ADDRESS: "PublicIPAddressCannotBeDeleted",
    DISK: "OperationNotAllowed/disk in use",
    SUBNET: "InUseSubnetCannotBeDeleted",
}
"""The error for a resource or part that is not deleted while it is in use, by type."""


def refuse_if_in_use(kind: str, document: Body, parts: Iterable[str] = ()) -> None:
    """Refuse to delete a resource whose document shows that it, or a part of it, is in use."""
    for part in parts:
        for entry in document["properties"].get(part, ()):
            refuse_if_in_use(f"{kind}/{part}", entry)
    if kind not in REFUSALS:
        return
    members = {reference.shown for reference in TABLE if reference.target == kind}
    shown = [document["properties"].get(member) for member in sorted(members)]
    users = [user for value in shown for user in (value if isinstance(value, list) else [value])]
    paths = [user["id"] for user in users if user]
    if document.get("managedBy"):
        paths.append(document["managedBy"])
    if paths:
        named, more = ", ".join(paths[:_NAMED]), len(paths) - _NAMED
        named = f"{named} and {more} more" if more > 0 else named
        raise azure_error(REFUSALS[kind], id=document["id"], name=document["name"], users=named)
