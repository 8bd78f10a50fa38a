"""The tables of Azure Resource Graph: resources, their groups, and maintenance."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

import msgspec

from fairwarning.arm.graph.expressions import Row
from fairwarning.arm.http.context import PAGE, ArmContext
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import (
    azure_scopes,
    documents,
    groups,
    machines,
    maintenance_assignments,
    owned_items,
    scale_sets,
    targets,
)
from fairwarning.arm.resources.azure_scopes import AzureScope
from fairwarning.arm.resources.maintenance_updates import update_document
from fairwarning.arm.resources.owned_items import items_of
from fairwarning.arm.resources.subscriptions import KINDS
from fairwarning.arm.resources.targets import ActionTarget
from fairwarning.arm.resources.views import instance_view, pending_maintenance
from fairwarning.core import document as event_documents
from fairwarning.core.model import ScaleSet, Scope, ScopeKind
from fairwarning.service import resources
from fairwarning.service.config.settings import TENANT
from fairwarning.service.resources import AVAILABILITY_SET, GROUP, MACHINE, SCALE_SET, Resource

Types = frozenset[str] | None
_GROUP_TYPE = "microsoft.resources/subscriptions/resourcegroups"
_SUBSCRIPTION_TYPE = "microsoft.resources/subscriptions"
_UPDATE, _EVENT = "microsoft.maintenance/updates", "microsoft.maintenance/scheduledevents"
_ASSIGNMENT = "microsoft.maintenance/configurationassignments"
_EVENTS_VERSION = "2020-07-01"  # the only one that Azure publishes
_PUBLISHED = (
    "properties.scheduledEventsPolicy.scheduledEventsAdditionalPublishingTargets"
    ".eventGridAndResourceGraph.enable"
)
_MEMBERS = ("sku", "plan", "tags", "identity", "zones", "kind", "managedBy", "extendedLocation")


def _wanted(types: Types, kind: str) -> bool:
    return types is None or kind.lower() in types


def _row(context: ArmContext, body: Body, group: str) -> Row:
    """Return a row; the type is in lower case, as in Azure's tables."""
    return {
        "id": body["id"],
        "name": body["name"],
        "type": str(body["type"]).lower(),
        "tenantId": TENANT,
        "location": body.get("location", context.cloud.location),
        "resourceGroup": group.lower(),
        "subscriptionId": context.cloud.subscription,
        **{name: body.get(name) for name in _MEMBERS},
        "properties": body.get("properties", {}),
    }


async def _pages(context: ArmContext, kind: str, group: str) -> AsyncIterator[list[Resource]]:
    prefix = after = resources.id_prefix(kind, group)
    while page := await context.fleet.reader.resources(prefix, after, PAGE):
        yield page
        after = page[-1].id
        await asyncio.sleep(0)  # a query over a large fleet lets other requests through


# --- Resources ------------------------------------------------------------------------------------


async def _resources(context: ArmContext, group: str, types: Types) -> list[Row]:
    rows: list[Row] = []
    for kind in KINDS:
        instances = kind == SCALE_SET and _wanted(types, MACHINE)  # of Flexible sets
        if not _wanted(types, kind) and not instances:
            continue
        async for page in _pages(context, kind, group):
            if kind == MACHINE:
                rows += _machine_rows(context, await _machines(context, page))
            elif kind == SCALE_SET:
                rows += [
                    row
                    for row in await _set_rows(context, page)
                    if _wanted(types, str(row["type"]))
                ]
            else:
                rows += [_plain_row(context, kind, resource) for resource in page]
    return rows


def _plain_row(context: ArmContext, kind: str, resource: Resource) -> Row:
    path = context.arm_id(kind, resource.group, resource.name)
    body = {**documents.stored_body(resource), "id": path, "name": resource.name, "type": kind}
    return _row(context, body, resource.group)


async def _machines(context: ArmContext, page: Iterable[Resource]) -> list[ActionTarget]:
    rows = list(page)
    scopes = await context.scopes(rows)
    return [
        ActionTarget(scope, machine, resource=resource)
        for resource in rows
        if (scope := scopes.get(resource.scope))
        and (machine := scope.machines.get(resource.machine))
    ]


def _machine_rows(context: ArmContext, action_targets: Iterable[ActionTarget]) -> list[Row]:
    rows = []
    for target in action_targets:
        body = machines.document(context, target)
        view = instance_view(target.scope, target.machine, context.fleet.clock.now())
        power = next(s for s in view["statuses"] if s["code"].startswith("PowerState/"))
        body["properties"]["extended"] = {"instanceView": {**view, "powerState": power}}
        group = target.resource.group if target.resource else target.scope.group
        rows.append(_row(context, body, group))
    return rows


async def _set_rows(context: ArmContext, page: Iterable[Resource]) -> list[Row]:
    """Return the rows of scale sets, and of the instances of Flexible ones."""
    rows: list[Row] = []
    for resource in page:
        scale_set = await context.fleet.reader.read(ScaleSet, resource.set)
        if scale_set is None:  # deleted since it was listed
            continue
        placement = await targets.placement_groups(context, scale_set)
        body = scale_sets.document(context, resource, scale_set, placement)
        rows.append(_row(context, body, resource.group))
        if scale_set.flexible:
            own = resources.id_prefix(MACHINE)  # machines that joined have resources of their own
            rows += _machine_rows(
                context,
                (
                    ActionTarget(scope, machine, scale_set)
                    for scope in placement
                    for machine in scope.machines.values()
                    if not machine.resource.startswith(own)
                ),
            )
    return rows


# --- Groups and the subscription ------------------------------------------------------------------


async def _containers(context: ArmContext, group: str, types: Types) -> list[Row]:
    subscription = {
        "id": f"/subscriptions/{context.cloud.subscription}",
        "name": "Fairwarning",
        "type": _SUBSCRIPTION_TYPE,
        "properties": {"state": "Enabled"},
    }
    rows = [_row(context, subscription, "")] if _wanted(types, _SUBSCRIPTION_TYPE) else []
    if not _wanted(types, _GROUP_TYPE):
        return rows
    if group:
        own = await context.find(GROUP, "", group)
        pages = [[own]] if own else []
    else:
        pages = [page async for page in _pages(context, GROUP, "")]
    for page in pages:
        for resource in page:
            body = {**groups.document(context, resource), "type": _GROUP_TYPE}
            rows.append(_row(context, body, resource.name))
    return rows


# --- Maintenance ----------------------------------------------------------------------------------


async def _maintenance(context: ArmContext, group: str, types: Types) -> list[Row]:
    rows: list[Row] = []
    if _wanted(types, _ASSIGNMENT):
        rows += await _assignment_rows(context, group)
    for kind in (MACHINE, AVAILABILITY_SET, SCALE_SET):
        async for page in _pages(context, kind, group):
            for resource in page:
                for scope in await _own_scopes(context, kind, resource):
                    rows += _maintenance_of(context, AzureScope(
                        resource.group, kind, resource.name
                    ), scope, types, published=_is_published(resource))  # fmt: skip
    return rows


async def _own_scopes(context: ArmContext, kind: str, resource: Resource) -> list[Scope]:
    """Return the scopes that a resource is the owner of; none for a machine in a set."""
    if kind == SCALE_SET:
        scale_set = await context.fleet.reader.read(ScaleSet, resource.set)
        return await targets.placement_groups(context, scale_set) if scale_set else []
    scope = await context.fleet.reader.read(Scope, resource.scope)
    own = scope and (kind == AVAILABILITY_SET or scope.kind is ScopeKind.STANDALONE)
    return [scope] if scope and own else []


def _is_published(resource: Resource) -> bool:
    return bool(
        documents.typed_value(documents.stored_body(resource), _PUBLISHED, bool, default=False)
    )


def _maintenance_of(
    context: ArmContext, owner: AzureScope, scope: Scope, types: Types, *, published: bool
) -> list[Row]:
    path = owner.path(context)
    rows: list[Row] = []
    if published and _wanted(types, _EVENT):
        shown = msgspec.json.decode(event_documents.document(scope, _EVENTS_VERSION))
        rows += [_extension_row(context, owner, _EVENT, e["EventId"], e) for e in shown["Events"]]
    for machine in scope.machines.values() if _wanted(types, _UPDATE) else ():
        if event := pending_maintenance(scope, machine):
            update = update_document(event, path)
            update["properties"]["virtualMachine"] = machine.name
            rows.append(_extension_row(context, owner, _UPDATE, machine.name, update))
    return rows


def _extension_row(
    context: ArmContext, owner: AzureScope, kind: str, name: str, properties: Body
) -> Row:
    path = f"{owner.path(context)}/providers/{kind}/{name}"
    body: Body = {"id": path, "name": name, "type": kind, "properties": properties}
    return _row(context, body, owner.group)


async def _assignment_rows(context: ArmContext, group: str) -> list[Row]:
    rows = []
    for document in await owned_items.all_documents(context, maintenance_assignments.KIND, group):
        owner = azure_scopes.of_path(documents.stored_body(document)["owner"])
        assert owner is not None
        for item in items_of(document).values():
            properties = {**item["properties"], "resourceId": owner.path(context)}
            rows.append(_extension_row(context, owner, _ASSIGNMENT, item["name"], properties))
    return rows


TABLE_ROWS: Mapping[str, Callable[[ArmContext, str, Types], Awaitable[list[Row]]]] = {
    "Resources": _resources,
    "ResourceContainers": _containers,
    "MaintenanceResources": _maintenance,
}
"""The rows of each table that a client of a group may read, at least those of some types."""
