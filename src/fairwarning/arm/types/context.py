"""What every handler of the control plane uses: the fleet, its resources and the settings."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.azure_id import AzureId
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.listing import decode_skip_token, encode_skip_token
from fairwarning.arm.http.request import ArmRequest
from fairwarning.arm.turns import ComputeTurns
from fairwarning.arm.types.deployment_queue import DeploymentQueue
from fairwarning.arm.types.names import INSTANCE, INTERFACE, MACHINE
from fairwarning.arm.types.resource_type import ResourceTypes
from fairwarning.core.model import Machine, Ref, ScaleSet, Scope
from fairwarning.service import resources
from fairwarning.service.config.settings import ArmSettings, CloudSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.resources import GROUP, Resource

T = TypeVar("T")
E = TypeVar("E", Scope, ScaleSet, Resource)

PAGE = 200  # resources on a page of a listing
PAGE_CHARACTERS = 1024 * 1024  # of their documents: more take longer than others may wait (IB4)
_ROWS = 50  # that are read together
STORED = "stored"
"""The kind, in ids of the store, of all resources that are only stored."""
Page = tuple[Sequence[Resource], str]
"""Resources, and the $skiptoken of the next page ("" on the last page)."""


@dataclass(frozen=True)
class ArmContext:
    """The fleet, settings and tokens of one service, and lookups of its resources."""

    fleet: Fleet
    cloud: CloudSettings
    settings: ArmSettings
    tokens: IssuedTokens
    types: ResourceTypes
    _computing: ComputeTurns = field(default_factory=ComputeTurns)
    _deployments: DeploymentQueue = field(default_factory=DeploymentQueue)

    def deploying(self, request: ArmRequest) -> AbstractAsyncContextManager[None]:
        """Wait for the client's other deployments; reads go on."""
        return self._deployments.turn(request, self.fleet.reader.share)

    async def compute(self, client: str, function: Callable[[], T]) -> T:
        """Call a pure function that may take long, in turn with other clients; reads go on."""
        with self.fleet.reader.share.elsewhere():
            return await self._computing.run(client, function)

    def store_id(self, id_: AzureId) -> str:
        """Return the id in the store. A stored type is found by its path: below its parent's."""
        if id_.owner is None and self.types.get(id_.kind):
            return resources.resource_id(id_.kind, id_.group, id_.name)
        return resources.resource_id(STORED, id_.group, id_.in_group)

    def stored_name(self, id_: AzureId) -> str:
        """Return the name of the row of a resource: from it and the group, the id can be made."""
        return id_.name if id_.owner is None and self.types.get(id_.kind) else id_.in_group

    async def find_id(self, id_: AzureId) -> Resource | None:
        """Return the resource with an Azure id, or None if it does not exist."""
        return await self.fleet.reader.read(Resource, self.store_id(id_))

    async def get_id(self, id_: AzureId) -> Resource:
        """Return the resource with an Azure id; raise if it does not exist."""
        resource = await self.find_id(id_)
        if resource is None:
            if id_.group:
                await self.group(id_.group)
            raise errors.resource_not_found(id_.kind, id_.name, id_.group)
        return resource

    async def find(self, kind: str, group: str, name: str) -> Resource | None:
        return await self.fleet.reader.read(Resource, resources.resource_id(kind, group, name))

    async def get(self, kind: str, group: str, name: str) -> Resource:
        return await self.get_id(AzureId(self.cloud.subscription, group, kind, name))

    async def group(self, name: str) -> Resource:
        group = await self.find(GROUP, "", name)
        if group is None:
            raise azure_error("ResourceGroupNotFound", group=name)
        return group

    async def no_content(self, id_: AzureId) -> Response:
        """Return 204 for the deletion of what does not exist, in a group that does."""
        if id_.group:
            await self.group(id_.group)
        return Response(b"", 204)

    async def page(self, request: ArmRequest, kind: str, group: str = "") -> Page:
        """Return a page of resources of a kind: of a group, or all that the client may read."""
        if group:
            await self.group(group)
        prefix = resources.id_prefix(kind, group or request.principal.group)
        return await self.rows(request, prefix)

    async def rows(self, request: ArmRequest, prefix: str) -> Page:
        """Return a page of the resources whose ids in the store begin like this."""
        after = decode_skip_token(request.query("$skiptoken")) or prefix
        if not after.startswith(prefix):
            raise azure_error("InvalidSkipToken")
        rows, more = await self.read_rows(prefix, after, PAGE)
        return rows, encode_skip_token(rows[-1].id) if more else ""

    async def read_rows(self, prefix: str, after: str, most: int) -> tuple[list[Resource], bool]:
        """Return resources after an id, and whether there are more; fewer if they are long."""
        rows: list[Resource] = []
        length = 0
        while read := await self.fleet.reader.resources(prefix, after, _ROWS):
            for row in read:
                length += len(row.body)
                if rows and (len(rows) == most or length > PAGE_CHARACTERS):
                    return rows, True
                rows.append(row)
            after = rows[-1].id
        return rows, False

    async def all_of(self, kind: str, group: str) -> list[Resource]:
        """Return all resources of a kind in a group; with an empty name, in all groups."""
        prefix = after = resources.id_prefix(kind, group)
        rows: list[Resource] = []
        while page := await self.fleet.reader.resources(prefix, after, PAGE):
            rows += page
            after = page[-1].id
        return rows

    async def read_all(self, kind: type[E], ids: Iterable[str]) -> dict[str, E]:
        """Return the entities with these ids that are in the store."""
        refs: list[Ref] = [(kind, id_) for id_ in dict.fromkeys(ids) if id_]
        entities = (await self.fleet.reader.read_all(refs)).values() if refs else ()
        return {entity.id: entity for entity in entities if isinstance(entity, kind)}

    async def scopes(self, page: Iterable[Resource]) -> dict[str, Scope]:
        """Return the scopes of these resources, by id."""
        return await self.read_all(Scope, (resource.scope for resource in page))

    async def scope(self, resource: Resource) -> Scope:
        scope = await self.fleet.reader.read(Scope, resource.scope)
        if scope is None:  # deleted since the resource was read
            raise errors.resource_not_found("Microsoft.Compute", resource.name, resource.group)
        return scope

    async def scale_set(self, resource: Resource) -> ScaleSet:
        scale_set = await self.fleet.reader.read(ScaleSet, resource.set)
        if scale_set is None:
            raise errors.resource_not_found(resources.SCALE_SET, resource.name, resource.group)
        return scale_set

    async def placement_groups(self, scale_set: ScaleSet) -> list[Scope]:
        return [*(await self.read_all(Scope, scale_set.groups)).values()]

    def path_of(self, row: Resource) -> str:
        """Return the Azure id of a resource that is stored."""
        kind = row.id.partition(":")[0]
        if kind == STORED:
            return f"{AzureId(self.cloud.subscription, row.group).path}/providers/{row.name}"
        return self.arm_id(self.types.canonical(kind), row.group, row.name)

    def arm_id(self, kind: str, group: str, name: str) -> str:
        """Return the Azure resource id, `/subscriptions/...`, of a resource."""
        if kind == GROUP:
            return AzureId(self.cloud.subscription, name).path
        return AzureId(self.cloud.subscription, group, kind, name).path

    def instance_id(self, owner: Resource, scale_set: ScaleSet, machine: Machine) -> str:
        """Return the Azure id of an instance of the set that `owner` describes.

        An instance of a Flexible set is a machine of the group, and so are its interfaces. All of
        an instance of a Uniform set is nested in the set.
        """
        if scale_set.flexible:
            return self.arm_id(MACHINE, owner.group, machine.name)
        return self.arm_id(INSTANCE, owner.group, f"{owner.name}/{machine.instance}")

    def interface_id(
        self, owner: Resource, scale_set: ScaleSet, machine: Machine, name: str
    ) -> str:
        """Return the Azure id of an instance's interface; `name` is the one in the model."""
        if scale_set.flexible:
            return self.arm_id(INTERFACE, owner.group, f"{machine.name}-{name}")
        return f"{self.instance_id(owner, scale_set, machine)}/networkInterfaces/{name}"


def new_operation() -> str:
    """Return an id for a new operation."""
    return str(uuid.uuid4())
