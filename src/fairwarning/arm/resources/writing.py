"""Writing a resource: by a request of its own, or as a part of a deployment."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, answer, is_over, operation_headers
from fairwarning.arm.resources import documents
from fairwarning.core.commands import Command
from fairwarning.core.commands import Write as WriteCommand
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.model import Operation
from fairwarning.service import resources
from fairwarning.service.resources import Resource

_ATTEMPTS = 5  # somebody else may write the same resource at the same time
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.()\-]{0,88}[A-Za-z0-9_()\-]|[A-Za-z0-9_]", re.ASCII)


@dataclass(frozen=True)
class ResourceWrite:
    """Somebody writes a resource."""

    group: str
    name: str  # of what is nested in another: with the other's, `lb/rule`
    body: Body
    version: str
    actor: str
    operation: str = ""
    if_match: str = ""
    must_be_new: bool = False
    must_be_there: bool = False  # a PATCH changes what there is


@dataclass(frozen=True)
class WriteResult:
    """A resource that was written, and how it is shown."""

    resource: Resource
    document: Body
    created: bool
    operation: Operation | None = None


Put = Callable[[ArmContext, ResourceWrite], Awaitable[WriteResult]]


@dataclass(frozen=True)
class DesiredResource:
    """What a resource is to be: what is kept of it, what it stands for, what follows."""

    body: Body
    follow: tuple[Command, ...] = ()
    scope: str = ""
    machine: str = ""
    set: str = ""


Plan = Callable[[Resource | None, Body, Resource], Awaitable[DesiredResource]]
"""From what is there, what it is to be in all, and its group."""


async def parse_write(call: ArmRequest, **more: Any) -> ResourceWrite:  # noqa: ANN401  (other fields of Ask)
    """What a PUT or PATCH asks for."""
    headers = call.request.headers
    return ResourceWrite(
        group=call.group,
        name=more.pop("name", None) or call.name,
        body=documents.cleaned(await call.body()),
        version=call.version,
        actor=call.actor,
        if_match=headers.get("if-match", ""),
        must_be_new=headers.get("if-none-match", "") == "*",
        must_be_there=call.request.method == "PATCH",
        **more,
    )


async def write(
    plane: ArmContext, kind: str, ask: ResourceWrite, plan: Plan
) -> tuple[Resource, bool, Operation | None]:
    """Merge what is asked for into what is there, and commit it with all that follows."""
    for part in ask.name.split("/"):
        check_name(part)
    group = await plane.group(ask.group)
    for _ in range(_ATTEMPTS):
        standing = await plane.find(kind, ask.group, ask.name)
        _check_conditions(ask, kind, standing)
        body = documents.merged(documents.written(standing), ask.body)
        wish = await plan(standing, body, group)
        try:
            operation = await plane.fleet.submit(_command(kind, ask, standing, wish, group))
        except Conflict as conflict:
            if conflict.code != "Changed":
                raise
            continue
        except NotFound as gone:
            if gone.code != "UnknownResource":
                raise
            raise errors.group_missing(ask.group) from gone
        written = await plane.get(kind, ask.group, ask.name)
        return written, standing is None, operation
    raise ArmError("Conflict", "The resource is being changed by others; try again.", 409)


def _command(
    kind: str, ask: ResourceWrite, standing: Resource | None, wish: DesiredResource, group: Resource
) -> WriteCommand:
    return WriteCommand(
        resource=resources.resource_id(kind, ask.group, ask.name),
        group=group.name,
        name=standing.name if standing else ask.name,
        body=documents.text(wish.body),
        within=group.id,
        at=standing.version if standing else 0,
        follow=wish.follow,
        scope=wish.scope,
        machine=wish.machine,
        set=wish.set,
        operation=ask.operation,
        actor=ask.actor,
    )


def _check_conditions(ask: ResourceWrite, kind: str, standing: Resource | None) -> None:
    if standing is None and ask.must_be_there:
        raise errors.missing(kind, ask.name, ask.group)
    wrong = (standing is not None and ask.must_be_new) or (
        ask.if_match not in {"", "*"} and (standing is None or ask.if_match != etag(standing))
    )
    if wrong:
        text = "The resource is not (any more) what the request's conditions say."
        raise ArmError("PreconditionFailed", text, 412)


def check_name(name: str) -> None:
    """A name for something new."""
    if not _NAME.fullmatch(name):
        allowed = "1 to 90 letters, digits, '_', '-', '.' or parentheses, no '.' at its ends"
        raise documents.wrong_value("name", name, allowed)


def location_of(body: Body) -> str:
    """Where something is, however that is spelt: West US 2 is westus2."""
    location: str = documents.strict(body, "location", str, "")
    return location.replace(" ", "").lower()


async def nothing(plane: ArmContext, call: ArmRequest) -> Response:
    """204: it is not there, so there is nothing to delete."""
    await plane.group(call.group)
    return Response(b"", 204)


def check_location(body: Body) -> None:
    """What is new has to be somewhere."""
    if not documents.strict(body, "location", str):
        text = "The location property is required for this definition."
        raise ArmError("LocationRequired", text)


def refuse_change(what: str) -> None:
    """Some values are for life."""
    raise ArmError("PropertyChangeNotAllowed", f"Changing property '{what}' is not allowed.", 409)


def etag(resource: Resource) -> str:
    """Tells one state of a resource from another."""
    return f'"{resource.version}"'


def write_response(call: ArmRequest, plane: ArmContext, written: WriteResult) -> Response:
    """200 or 201 with the resource; while more is to be done, where to ask how it goes."""
    headers, document = {"ETag": etag(written.resource)}, written.document
    if written.operation and not is_over(written.operation):
        headers |= operation_headers(call, written.operation, plane.cloud.location)
        del headers["Location"]  # of a PUT, that would be where the resource is
    elif "provisioningState" in document["properties"]:
        # What others do to it is not what this request waits for.
        document = documents.merged(document, {"properties": {"provisioningState": "Succeeded"}})
    return answer(document, 201 if written.created else 200, headers)
