"""Writing a resource: merged with what is stored, checked, and committed with its commands."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from fairwarning.arm.catalogue import normalize_region
from fairwarning.arm.http import errors
from fairwarning.arm.http.azure_id import AzureId
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import ArmRequest, Body, decode_body
from fairwarning.arm.schema import types as schema
from fairwarning.arm.types import documents
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.resource_type import DesiredResource, Plan
from fairwarning.core import limits
from fairwarning.core.commands import Command, Remove, operation_of
from fairwarning.core.commands import Write as WriteCommand
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.model import Operation, Resource

_ATTEMPTS = 10  # another client may write the same resource, or one that it uses, at the same time
_PLAN_AGAIN = frozenset({"Changed", "InUse"})  # the next plan sees what changed, or refuses
_RAW_BYTES = 6 * limits.RESOURCE_CHARACTERS  # of a body: JSON may write a character as \u0041
_SHORT_BYTES = 16 * 1024  # of a body that takes no other request's time
_COMPUTED = 2  # times the limit of a resource, with the members that clients read and send back
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.()\-]{0,88}[A-Za-z0-9_()\-]|[A-Za-z0-9_]", re.ASCII)


@dataclass(frozen=True)
class ResourceWrite:
    """A request to write a resource, and what the resource is written over."""

    context: ArmContext
    id: AzureId
    body: Body  # as the client sent it, in Azure's form
    version: str
    actor: str
    operation: str = ""
    if_match: str = ""
    must_be_new: bool = False
    must_exist: bool = False  # a PATCH changes an existing resource
    confined: bool = False  # the client may use resources of its own group only
    merges: bool = True  # into the stored body; else the body replaces it
    # For the plan:
    existing: Resource | None = None
    group: Resource = field(default_factory=lambda: Resource(id=""))  # none: the subscription
    attempt: int = 0  # how often it has been planned before: another request came first

    @property
    def name(self) -> str:
        """The name of the resource, with its parents'."""
        return self.id.name

    @property
    def path(self) -> str:
        """The Azure id of the resource, with the names as first written."""
        return self.context.path_of(self.existing) if self.existing else self.id.path

    @property
    def store_id(self) -> str:
        return self.context.store_id(self.id)

    def is_free(self, resource: Resource) -> bool:
        """Whether this resource may use another one, which can have one user only."""
        return resource.used_by in {"", self.store_id}


@dataclass(frozen=True)
class WriteResult:
    """A resource that was written."""

    resource: Resource
    created: bool
    operation: Operation | None = None


async def parse_body(
    context: ArmContext, request: ArmRequest, kind: str, *, acts: bool = True
) -> Body:
    """Return the body in Azure's form, if the type acts; a long one is parsed in a thread (IB4)."""
    raw = await request.read()
    if len(raw) > _RAW_BYTES:
        raise azure_error("RequestContentTooLarge/request", most=_RAW_BYTES)
    parse = partial(_parse, raw, kind, acts=acts)
    return parse() if len(raw) <= _SHORT_BYTES else await context.compute(request.actor, parse)


def _parse(raw: bytes, kind: str, *, acts: bool) -> Body:
    body: Body = documents.sanitize(decode_body(raw), keep_nulls=not acts)
    documents.encode(body, _COMPUTED)
    return schema.normalize(kind, body) if acts else body


async def parse_write(
    context: ArmContext, request: ArmRequest, id_: AzureId, operation: str = ""
) -> ResourceWrite:
    """Return the write that a PUT or PATCH requests."""
    headers = request.http.headers
    body = await parse_body(context, request, id_.kind, acts=context.types.acts(id_.kind))
    return ResourceWrite(
        context=context,
        id=id_,
        body=body,
        version=request.version,
        actor=request.actor,
        operation=operation,
        if_match=headers.get("if-match", ""),
        must_be_new=headers.get("if-none-match", "") == "*",
        must_exist=request.http.method == "PATCH",
        confined=bool(request.principal.group),
    )


async def write_resource(write: ResourceWrite, plan: Plan) -> WriteResult:
    """Plan the resource over what is stored, and commit it with its commands."""
    context, id_ = write.context, write.id
    if id_.group:
        write = replace(write, group=await context.group(id_.group))
    for attempt in range(_ATTEMPTS):
        existing = await context.find_id(id_)
        if existing is None and write.must_exist:
            raise errors.resource_not_found(id_.kind, write.name, id_.group)
        check_etag(write.name, existing, write.if_match, must_be_new=write.must_be_new)
        write = replace(write, existing=existing, attempt=attempt)
        merges = write.merges or write.must_exist
        stored = documents.stored_body(existing) if merges else {}
        desired = await plan(write, documents.merge(stored, write.body))
        try:
            operation = await context.fleet.submit(command_of(write, desired))
        except Conflict as conflict:
            if conflict.code not in _PLAN_AGAIN:
                raise
            continue
        except NotFound as error:
            if error.code != "UnknownResource":
                raise
            if id_.group:
                await context.group(id_.group)  # or else a resource that this one uses is gone
            continue
        return WriteResult(await context.get_id(id_), existing is None, operation)
    raise azure_error("Conflict/resource keeps changing", name=write.name)


async def write_instance(write: ResourceWrite, plan: Plan) -> WriteResult:
    """Write the body of an instance, which exists even if no client has written one."""
    if write.must_be_new:
        raise azure_error("PreconditionFailed", name=write.name)
    write = replace(write, must_exist=False, if_match=write.if_match.replace("*", ""))
    return replace(await write_resource(write, plan), created=False)


def command_of(write: ResourceWrite, desired: DesiredResource) -> WriteCommand:
    """Return the command that stores a resource."""
    existing = write.existing
    return WriteCommand(
        resource=write.store_id,
        group=write.group.name,
        name=existing.name if existing else write.context.stored_name(write.id),
        body=documents.encode(desired.body),
        within=write.group.id,
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


def check_etag(
    name: str, existing: Resource | None, if_match: str, *, must_be_new: bool = False
) -> None:
    """Refuse a resource that is not as `If-Match` and `If-None-Match` say."""
    matching = {"", "*", documents.etag(existing)} if existing else {""}
    if if_match not in matching or (existing and must_be_new):
        raise azure_error("PreconditionFailed", name=name)


async def remove(
    context: ArmContext,
    request: ArmRequest,
    row: Resource | None,
    below: Iterable[str] = (),
    command: Command | None = None,
) -> Operation | None:
    """Remove a resource, and what is stored below it, if it is as `If-Match` says.

    `command` deletes the machine or set of the row. An instance may have no row, and then no ETag.
    """
    if_match = request.http.headers.get("if-match", "").replace("*", "")
    check_etag(request.id.name, row, if_match)
    if row and (if_match or command is None):
        command = Remove(
            resource=row.id,
            others=tuple(below),
            operation=operation_of(command) if command else new_operation(),
            follow=(command,) if command else (),
            at=row.version if if_match else None,
            actor=request.actor,
        )
    assert command
    try:
        return await context.fleet.submit(command)
    except Conflict as conflict:
        if conflict.code == "Changed":
            raise azure_error("PreconditionFailed", name=request.id.name) from conflict
        raise


def check_name(name: str) -> None:
    """Refuse an invalid name for a new resource that acts."""
    if not _NAME.fullmatch(name):
        allowed = "1 to 90 letters, digits, '_', '-', '.' or parentheses, without '.' at either end"
        raise documents.invalid_value("name", name, allowed)


def check_location(body: Body) -> None:
    """Refuse a new resource without a location."""
    if not documents.typed_value(body, "location", str):
        raise azure_error("LocationRequired")


def location_of(body: Body) -> str:
    """Return the normalized location of a resource."""
    return normalize_region(documents.typed_value(body, "location", str, ""))


def refuse_changes(values: Mapping[str, tuple[object, object]]) -> None:
    """Refuse to change immutable properties; each has its value before and after."""
    for name, (before, after) in values.items():
        if before != after:
            raise azure_error("PropertyChangeNotAllowed", name=name)
