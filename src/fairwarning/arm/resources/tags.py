"""Tags of a resource, a group or the subscription: `Microsoft.Resources/tags` (C1).

The tags are those of the resource itself, so that a machine reads them in its instance metadata.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping

from starlette.responses import Response

from fairwarning.arm.catalogue import api_versions, document
from fairwarning.arm.http import internal
from fairwarning.arm.http.azure_id import AzureId
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import SUBSCRIPTION, Route
from fairwarning.arm.types import documents, stored
from fairwarning.arm.types.context import PAGE, STORED, ArmContext
from fairwarning.arm.types.names import GROUP, MACHINE
from fairwarning.arm.types.resource_type import ResourceType
from fairwarning.core.commands import Write
from fairwarning.core.model import Resource, Scope
from fairwarning.service import resources

KIND = "Microsoft.Resources/tags"
_DEFAULT = "default"
Tags = Mapping[str, str]
Combine = Callable[[Tags, Tags], Tags]
"""Takes the present tags and those of the request, and returns the new ones."""


def merge(present: Tags, sent: Tags) -> Tags:
    """Return the present tags and those of the request; names are case-insensitive."""
    names = {name.lower() for name in sent}
    return {**{name: v for name, v in present.items() if name.lower() not in names}, **sent}


def replace(_present: Tags, sent: Tags) -> Tags:
    """Return the tags of the request."""
    return sent


def delete(present: Tags, sent: Tags) -> Tags:
    """Return the present tags without those whose name and value the request has."""
    gone = {(name.lower(), value) for name, value in sent.items()}
    return {name: v for name, v in present.items() if (name.lower(), v) not in gone}


_OPERATIONS: Mapping[str, Combine] = {"Merge": merge, "Replace": replace, "Delete": delete}
_OF_SUBSCRIPTION = resources.resource_id(KIND, "", _DEFAULT)


def _scope(request: ArmRequest) -> AzureId:
    id_ = request.id
    if id_.name.lower() != _DEFAULT:
        raise documents.invalid_value("name", id_.name, _DEFAULT)
    return id_.owner or AzureId(id_.subscription, id_.group)


async def _tags(context: ArmContext, request: ArmRequest, scope: AzureId) -> Tags:
    if not (scope.group or scope.kind):
        row = await context.fleet.reader.read(Resource, _OF_SUBSCRIPTION)
        return documents.tags_of(documents.stored_body(row))
    version = api_versions(scope.kind or GROUP)[0]
    return documents.tags_of((await internal.require(request, "GET", scope.path, version))[1])


async def _change(context: ArmContext, request: ArmRequest, combine: Combine, sent: Tags) -> Tags:
    """Write the tags, by a PATCH of the resource itself."""
    scope = _scope(request)
    await stored.require_scope(context, scope)
    combined = dict(combine(await _tags(context, request, scope), sent))
    body: Body = {"tags": documents.tags_of({"tags": combined})}
    if scope.group or scope.kind:
        version = api_versions(scope.kind or GROUP)[0]
        await internal.require(request, "PATCH", scope.path, version, body=body)
    else:
        encoded = documents.encode(body)
        write = Write(resource=_OF_SUBSCRIPTION, name=_DEFAULT, body=encoded, actor=request.actor)
        await context.fleet.submit(write)
    return combined


def _response(request: ArmRequest, tags: Tags) -> Response:
    path = f"{_scope(request).path}/providers/{KIND}/{_DEFAULT}"
    properties = {"tags": dict(tags)}
    return json_response({"id": path, "name": _DEFAULT, "type": KIND, "properties": properties})


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    scope = _scope(request)
    await stored.require_scope(context, scope)
    return _response(request, await _tags(context, request, scope))


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Replace the tags by PUT; merge, replace or delete them by PATCH."""
    body = await request.body()
    combine: Combine | None = replace
    if request.http.method == "PATCH":
        combine = documents.choice(body, "operation", _OPERATIONS, None)
    if combine is None:
        raise documents.invalid_value("operation", "", f"one of {', '.join(_OPERATIONS)}")
    sent = documents.tags_of(documents.typed_value(body, "properties", dict, {}))
    return _response(request, await _change(context, request, combine, sent))


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    await _change(context, request, replace, {})
    return Response(b"", 200)


async def _list(_context: ArmContext, _request: ArmRequest) -> Response:
    raise ArmError("InvalidResourceType", f"Read the tags of a scope as '{_DEFAULT}'.", 404)


TYPE = ResourceType(
    name=KIND,
    purpose="are the tags of a resource, which a machine reads in its metadata",
    listed=False,
    extends=True,
    put=_put,
    get=_get,
    list=_list,
    remove=_delete,
)


async def _names(context: ArmContext, request: ArmRequest) -> Response:
    """List the names and values of all tags that the client may read, with their numbers."""
    values: dict[str, Counter[str]] = {}
    async for tags in _all_tags(context, request.principal.group):
        for name, value in tags.items():
            values.setdefault(name, Counter())[value] += 1
    parent = f"/subscriptions/{context.cloud.subscription}/tagNames"
    entries: list[Body] = []
    for name, counts in sorted(values.items()):
        path = f"{parent}/{name}"
        listed = [document("tagValue", path=path, value=v, count=counts[v]) for v in sorted(counts)]
        count = counts.total()
        entries.append(document("tagName", path=path, name=name, count=count, values=listed))
    return json_response({"value": entries})


async def _all_tags(context: ArmContext, group: str) -> AsyncIterator[Tags]:
    """Yield the tags of every group and resource that a client of this group may read."""
    if group:
        yield documents.tags_of(documents.stored_body(await context.find(GROUP, "", group)))
    kinds = [kind.name for kind in context.types if kind.listed] + [STORED]
    for kind in kinds if group else (GROUP, *kinds):
        prefix = after = resources.id_prefix(kind, group)
        while page := await context.fleet.reader.resources(prefix, after, PAGE):
            scopes = await context.scopes(page) if kind == MACHINE else {}
            for resource in page:
                await context.fleet.reader.share.turn()
                yield _tags_of_row(resource, scopes)
            after = page[-1].id


def _tags_of_row(resource: Resource, scopes: Mapping[str, Scope]) -> Tags:
    body = documents.stored_body(resource)
    scope = scopes.get(resource.scope)
    machine = scope.machines.get(resource.machine) if scope else None
    return documents.tags_of(body) if "tags" in body or machine is None else machine.tags


ROUTES = (Route("GET", f"{SUBSCRIPTION}/tagNames", _names),)
