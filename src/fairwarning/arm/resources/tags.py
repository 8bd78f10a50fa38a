"""Tags of a resource, a group or the subscription: `Microsoft.Resources/tags` (C1).

The tags are those of the resource itself, so that a machine reads them in its instance metadata.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus

from starlette.responses import Response

from fairwarning.arm.http import internal
from fairwarning.arm.http.context import PAGE, ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import SUBSCRIPTION, Route
from fairwarning.arm.resources import azure_scopes, documents, providers, targets
from fairwarning.arm.resources.azure_scopes import EXTENSION_PATHS, AzureScope
from fairwarning.arm.resources.owned_items import OwnedItems
from fairwarning.arm.resources.subscriptions import KINDS
from fairwarning.core.model import Scope
from fairwarning.service import resources
from fairwarning.service.resources import GROUP, MACHINE, SCALE_SET, Resource

KIND = "Microsoft.Resources/tags"
_DEFAULT = "default"
Tags = Mapping[str, str]
Combine = Callable[[Tags, Tags], Tags]
"""Takes the present tags and those of the request, and returns the new ones."""


# --- Combining ------------------------------------------------------------------------------------


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


# --- Reading and writing --------------------------------------------------------------------------


async def _tags(context: ArmContext, scope: AzureScope, resource: Resource | None) -> Tags:
    if not scope.group:
        items = await OwnedItems(context, KIND, scope).read()
        return documents.tags_of(items.get(_DEFAULT, {}))
    body = documents.stored_body(resource)
    if "tags" not in body and scope.kind == MACHINE:
        return (await targets.find_machine(context, scope.group, scope.name)).machine.tags
    if "tags" not in body and scope.kind == SCALE_SET and resource:
        return (await context.scale_set(resource)).tags
    return documents.tags_of(body)


async def _write(context: ArmContext, request: ArmRequest, scope: AzureScope, tags: Tags) -> None:
    """Write the tags, by a PATCH of the resource itself."""
    if not scope.group:

        def edit(items: dict[str, Body]) -> None:
            items[_DEFAULT] = {"tags": dict(tags)}

        return await OwnedItems(context, KIND, scope).change(request.actor, edit)
    path = scope.path(context)
    version = providers.newest_version(scope.kind or GROUP)
    body: Body = {"tags": dict(tags)}
    status, document = await internal.call(request, "PATCH", path, version, body)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        text = f"A resource of type '{scope.kind}' cannot have tags."
        raise ArmError("ResourceNotTaggable", text)
    if status >= HTTPStatus.BAD_REQUEST:
        raise ArmError(document["error"]["code"], document["error"]["message"], status)
    return None


async def _change(context: ArmContext, request: ArmRequest, combine: Combine, sent: Tags) -> Tags:
    scope = azure_scopes.of_request(request)
    resource = await azure_scopes.require(context, scope)
    combined = combine(await _tags(context, scope, resource), sent)
    tags = documents.tags_of({"tags": dict(combined)})
    await _write(context, request, scope, tags)
    return tags


def _sent(body: Body) -> Tags:
    properties = documents.typed_value(body, "properties", dict, {})
    return documents.tags_of(properties)


def _response(context: ArmContext, scope: AzureScope, tags: Tags) -> Response:
    return json_response(
        {
            "id": f"{scope.path(context)}/providers/{KIND}/{_DEFAULT}",
            "name": _DEFAULT,
            "type": KIND,
            "properties": {"tags": dict(tags)},
        }
    )


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    scope = azure_scopes.of_request(request)
    resource = await azure_scopes.require(context, scope)
    return _response(context, scope, await _tags(context, scope, resource))


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    tags = await _change(context, request, replace, _sent(await request.body()))
    return _response(context, azure_scopes.of_request(request), tags)


async def _patch(context: ArmContext, request: ArmRequest) -> Response:
    body = await request.body()
    combine = documents.choice(body, "operation", _OPERATIONS, None)
    if combine is None:
        raise documents.invalid_value("operation", "", f"one of {', '.join(_OPERATIONS)}")
    tags = await _change(context, request, combine, _sent(body))
    return _response(context, azure_scopes.of_request(request), tags)


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    await _change(context, request, replace, {})
    return Response(b"", 200)


# --- Names of tags --------------------------------------------------------------------------------


async def _names(context: ArmContext, request: ArmRequest) -> Response:
    """List the names and values of all tags that the client may read, with their numbers."""
    values: dict[str, Counter[str]] = {}
    async for tags in _all_tags(context, request.principal.group):
        for name, value in tags.items():
            values.setdefault(name, Counter())[value] += 1
    parent = f"/subscriptions/{context.cloud.subscription}/tagNames"
    entries = [_name_entry(parent, name, values[name]) for name in sorted(values)]
    return json_response({"value": entries})


def _name_entry(parent: str, name: str, values: Counter[str]) -> Body:
    path = f"{parent}/{name}"
    return {
        "id": path,
        "tagName": name,
        "count": {"type": "Total", "value": values.total()},
        "values": [
            {
                "id": f"{path}/tagValues/{value}",
                "tagValue": value,
                "count": {"type": "Total", "value": values[value]},
            }
            for value in sorted(values)
        ],
    }


async def _all_tags(context: ArmContext, group: str) -> AsyncIterator[Tags]:
    """Yield the tags of every group and resource that a client of this group may read."""
    if group:
        yield documents.tags_of(documents.stored_body(await context.find(GROUP, "", group)))
    for kind in KINDS if group else (GROUP, *KINDS):
        prefix = after = resources.id_prefix(kind, group)
        while page := await context.fleet.reader.resources(prefix, after, PAGE):
            scopes = await context.scopes(page) if kind == MACHINE else {}
            for resource in page:
                yield _tags_of_row(resource, scopes)
            after = page[-1].id


def _tags_of_row(resource: Resource, scopes: Mapping[str, Scope]) -> Tags:
    body = documents.stored_body(resource)
    scope = scopes.get(resource.scope)
    machine = scope.machines.get(resource.machine) if scope else None
    return documents.tags_of(body) if "tags" in body or machine is None else machine.tags


_TAGS = f"providers/{KIND}/{_DEFAULT}"
ROUTES = (
    Route("GET", f"{SUBSCRIPTION}/tagNames", _names),
    *(
        Route(method, f"{path}/{_TAGS}", handler, subscription_wide=path == SUBSCRIPTION)
        for path in EXTENSION_PATHS
        for method, handler in (
            ("GET", _get), ("PUT", _put), ("PATCH", _patch), ("DELETE", _delete),
        )
    ),
)  # fmt: skip
