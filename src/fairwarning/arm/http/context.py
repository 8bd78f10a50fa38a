"""What every handler of the control plane works with: the fleet, and its resources."""

import base64
import binascii
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairwarning.arm.http import errors
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest
from fairwarning.core.model import Ref, ScaleSet, Scope
from fairwarning.service import resources
from fairwarning.service.config.settings import ArmSettings, CloudSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.resources import GROUP, Resource
from fairwarning.service.tokens import Tokens

PAGE = 200  # resources listed at once
Page = tuple[Sequence[Resource], str]
"""Some resources, and the token that the next page begins with (none: there is no next)."""


@dataclass(frozen=True)
class ArmContext:
    """The control plane of one service."""

    fleet: Fleet
    cloud: CloudSettings
    settings: ArmSettings
    tokens: Tokens

    # --- Resources ---

    async def find(self, kind: str, group: str, name: str) -> Resource | None:
        """A resource, if there is one of this name."""
        return await self.fleet.reader.read(Resource, resources.resource_id(kind, group, name))

    async def get(self, kind: str, group: str, name: str) -> Resource:
        """A resource that has to be there."""
        resource = await self.find(kind, group, name)
        if resource is None:
            await self.group(group)
            raise errors.missing(kind, name, group)
        return resource

    async def group(self, name: str) -> Resource:
        """A resource group that has to be there."""
        group = await self.find(GROUP, "", name)
        if group is None:
            raise errors.group_missing(name)
        return group

    async def page(self, call: ArmRequest, kind: str, group: str = "") -> Page:
        """Resources of a kind in order: those of a group, or all that the caller may see."""
        if group:
            await self.group(group)
        prefix = resources.id_prefix(kind, group or call.principal.group)
        after = _after(call.query("$skiptoken"), prefix)
        found = await self.fleet.reader.resources(prefix, after, PAGE + 1)
        token = skip_token(found[PAGE - 1].id) if len(found) > PAGE else ""
        return found[:PAGE], token

    def next_link(self, call: ArmRequest, token: str) -> dict[str, str]:
        """What a listing says of its next page."""
        if not token:
            return {}
        kept = {
            key: value
            for key, value in call.request.query_params.items()
            if key.lower() not in {"$skiptoken", "api-version"}
        }
        return {"nextLink": call.link_with(call.path, {**kept, "$skiptoken": token})}

    # --- What they stand for ---

    async def scopes(self, found: Iterable[Resource]) -> dict[str, Scope]:
        """The scopes of these resources, by their ids."""
        refs: list[Ref] = [(Scope, one.scope) for one in found if one.scope]
        entities = await self.fleet.reader.read_all(dict.fromkeys(refs))
        return {ref[1]: scope for ref, scope in entities.items() if isinstance(scope, Scope)}

    async def scope(self, resource: Resource) -> Scope:
        """The scope that a resource stands for or is in."""
        scope = await self.fleet.reader.read(Scope, resource.scope)
        if scope is None:  # it went a moment ago
            raise errors.missing("Microsoft.Compute", resource.name, resource.group)
        return scope

    async def scale_set(self, resource: Resource) -> ScaleSet:
        """The scale set that a resource stands for."""
        scale_set = await self.fleet.reader.read(ScaleSet, resource.set)
        if scale_set is None:
            raise errors.missing(resources.SCALE_SET, resource.name, resource.group)
        return scale_set

    # --- Names ---

    def path(self, kind: str, group: str, name: str) -> str:
        """A resource's id as Azure spells it."""
        home = f"/subscriptions/{self.cloud.subscription}/resourceGroups/{group}"
        if kind == GROUP:
            return home.removesuffix(group) + name
        namespace, *types = kind.split("/")
        steps = "/".join(f"{t}/{n}" for t, n in zip(types, name.split("/"), strict=True))
        return f"{home}/providers/{namespace}/{steps}"


def new_operation() -> str:
    """An id for an operation."""
    return str(uuid.uuid4())


def skip_token(last: str) -> str:
    """What the next page of a listing begins past, as a client sends it back."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def place_of(token: str) -> str:
    """The id that a page begins past; empty for the first one."""
    try:
        return base64.b64decode(token.encode("ascii"), b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error) as error:
        raise bad_skip_token() from error


def bad_skip_token() -> ArmError:
    """A token that we did not give."""
    return ArmError("InvalidSkipToken", "The $skiptoken is not one of a nextLink of this listing.")


def _after(token: str, prefix: str) -> str:
    after = place_of(token) or prefix
    if not after.startswith(prefix):
        raise bad_skip_token()
    return after
