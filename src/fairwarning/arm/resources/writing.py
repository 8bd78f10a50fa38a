"""Writing a resource, by a request of its own or as a part of a deployment."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import (
    ArmRequest,
    Body,
    is_finished,
    json_response,
    operation_headers,
)
from fairwarning.arm.resources import documents
from fairwarning.arm.schema import types
from fairwarning.core.commands import Command
from fairwarning.core.commands import Write as WriteCommand
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.model import Operation
from fairwarning.service import resources
from fairwarning.service.resources import Resource

_ATTEMPTS = 10  # another client may write the same resource, or one that it uses, at the same time
_PLAN_AGAIN = frozenset({"Changed", "InUse"})  # the next plan sees what changed, or refuses
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.()\-]{0,88}[A-Za-z0-9_()\-]|[A-Za-z0-9_]", re.ASCII)


@dataclass(frozen=True)
class ResourceWrite:
    """A request to write a resource."""

    group: str
    name: str  # of a nested resource: with its parent's, `lb/rule`
    body: Body
    version: str
    actor: str
    operation: str = ""
    if_match: str = ""
    must_be_new: bool = False
    must_exist: bool = False  # a PATCH changes an existing resource
    confined: bool = False  # the client may use resources of its own group only


@dataclass(frozen=True)
class WriteResult:
    """A resource that was written, and its document."""

    resource: Resource
    document: Body
    created: bool
    operation: Operation | None = None


Put = Callable[[ArmContext, ResourceWrite], Awaitable[WriteResult]]


@dataclass(frozen=True)
class DesiredResource:
    """The desired state of a resource: its body, its entities, and commands to commit with it.

    `uses` and `owns` are ids of other resources; None keeps those that the resource has.
    """

    body: Body
    commands: tuple[Command, ...] = ()
    scope: str = ""
    machine: str = ""
    set: str = ""
    uses: tuple[str, ...] | None = None
    owns: tuple[str, ...] | None = None


Plan = Callable[[Resource | None, Body, Resource], Awaitable[DesiredResource]]
"""Takes the existing resource, the merged body and the group."""


async def parse_write(request: ArmRequest, **more: Any) -> ResourceWrite:  # noqa: ANN401  (other fields of ResourceWrite)
    """Return the write that a PUT or PATCH requests."""
    headers = request.http.headers
    return ResourceWrite(
        group=request.group,
        name=more.pop("name", None) or request.name,
        body=documents.sanitize(await request.body()),
        version=request.version,
        actor=request.actor,
        if_match=headers.get("if-match", ""),
        must_be_new=headers.get("if-none-match", "") == "*",
        must_exist=request.http.method == "PATCH",
        confined=bool(request.principal.group),
        **more,
    )


def normalized(kind: str, write: ResourceWrite) -> ResourceWrite:
    """Return the write with its body in Azure's form (C6). Twice has the effect of once."""
    return replace(write, body=types.normalize(kind, write.body))


async def write_resource(
    context: ArmContext, kind: str, write: ResourceWrite, plan: Plan
) -> tuple[Resource, bool, Operation | None]:
    """Merge the body into the stored resource, and commit it with its commands."""
    for part in write.name.split("/"):
        check_name(part)
    write = normalized(kind, write)
    group = await context.group(write.group)
    for _ in range(_ATTEMPTS):
        existing = await context.find(kind, write.group, write.name)
        _check_conditions(write, kind, existing)
        body = documents.merge(documents.stored_body(existing), write.body)
        desired = await plan(existing, body, group)
        try:
            operation = await context.fleet.submit(_command(kind, write, existing, desired, group))
        except Conflict as conflict:
            if conflict.code not in _PLAN_AGAIN:
                raise
            continue
        except NotFound as error:
            if error.code != "UnknownResource":
                raise
            await context.group(write.group)  # or else a resource that this one uses is gone
            continue
        resource = await context.get(kind, write.group, write.name)
        return resource, existing is None, operation
    text = f"Other requests keep changing the resource '{write.name}'; try again."
    raise ArmError("Conflict", text, 409)


def _command(
    kind: str,
    write: ResourceWrite,
    existing: Resource | None,
    desired: DesiredResource,
    group: Resource,
) -> WriteCommand:
    return WriteCommand(
        resource=resources.resource_id(kind, write.group, write.name),
        group=group.name,
        name=existing.name if existing else write.name,
        body=documents.encode(desired.body),
        within=group.id,
        at=existing.version if existing else 0,
        follow=desired.commands,
        scope=desired.scope,
        machine=desired.machine,
        set=desired.set,
        uses=_kept(desired.uses, existing.uses if existing else ()),
        owns=_kept(desired.owns, existing.owns if existing else ()),
        operation=write.operation,
        actor=write.actor,
    )


def _kept(wanted: tuple[str, ...] | None, current: tuple[str, ...]) -> tuple[str, ...]:
    return current if wanted is None else tuple(dict.fromkeys(wanted))


def _check_conditions(write: ResourceWrite, kind: str, existing: Resource | None) -> None:
    if existing is None and write.must_exist:
        raise errors.resource_not_found(kind, write.name, write.group)
    failed = (existing is not None and write.must_be_new) or (
        write.if_match not in {"", "*"} and (existing is None or write.if_match != etag(existing))
    )
    if failed:
        text = (
            f"The resource '{write.name}' does not meet the If-Match or If-None-Match header of "
            "the request; read the resource again."
        )
        raise ArmError("PreconditionFailed", text, 412)


def check_name(name: str) -> None:
    """Refuse an invalid name for a new resource."""
    if not _NAME.fullmatch(name):
        allowed = "1 to 90 letters, digits, '_', '-', '.' or parentheses, without '.' at either end"
        raise documents.invalid_value("name", name, allowed)


def location_of(body: Body) -> str:
    """Return the normalized location of a resource: `West US 2` is `westus2`."""
    location: str = documents.typed_value(body, "location", str, "")
    return location.replace(" ", "").lower()


async def no_content(context: ArmContext, request: ArmRequest) -> Response:
    """Return 204 for the deletion of a resource that does not exist."""
    await context.group(request.group)
    return Response(b"", 204)


def check_location(body: Body) -> None:
    """Refuse a new resource without a location."""
    if not documents.typed_value(body, "location", str):
        text = "The location property is required for this definition."
        raise ArmError("LocationRequired", text)


def refuse_change(name: str) -> None:
    """Refuse to change an immutable property."""
    raise ArmError("PropertyChangeNotAllowed", f"Changing property '{name}' is not allowed.", 409)


def etag(resource: Resource) -> str:
    """Return the ETag of a resource: its version."""
    return f'"{resource.version}"'


def write_response(request: ArmRequest, context: ArmContext, result: WriteResult) -> Response:
    """Return 200 or 201 with the resource, and the polling URL while its operation runs."""
    headers, document = {"ETag": etag(result.resource)}, result.document
    if result.operation and not is_finished(result.operation):
        headers |= operation_headers(request, result.operation, context.cloud.location)
        del headers["Location"]  # in the response to a PUT, clients take it for the resource's URL
    elif "provisioningState" in document["properties"]:
        # This request has finished, even while the operations of other requests go on.
        document = documents.merge(document, {"properties": {"provisioningState": "Succeeded"}})
    return json_response(document, 201 if result.created else 200, headers)
