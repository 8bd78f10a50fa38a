"""Subscriptions, resource groups and resources as the scope of tags, locks and assignments.

Azure calls them extension resources: `{scope}/providers/Microsoft.Resources/tags/default`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest
from fairwarning.arm.http.routes import GROUP as GROUP_PATH
from fairwarning.arm.http.routes import SUBSCRIPTION
from fairwarning.arm.resources import targets
from fairwarning.arm.resources.providers import canonical_kind
from fairwarning.service.resources import GROUP, INSTANCE, MACHINE, Resource

RESOURCE_PATH = f"{GROUP_PATH}/providers/{{namespace}}/{{kind}}/{{resource}}"
EXTENSION_PATHS = (SUBSCRIPTION, GROUP_PATH, RESOURCE_PATH)
"""The paths that an extension resource may follow."""

_PROVIDERS = "providers"
_SUBSCRIPTION_SEGMENTS = 2
_GROUP_SEGMENTS = 4


@dataclass(frozen=True)
class AzureScope:
    """A resource, a resource group (without a kind), or the subscription (without a group)."""

    group: str = ""
    kind: str = ""  # as Microsoft.Compute/virtualMachines
    name: str = ""  # of a nested resource: with its parent's, `web/0`

    @property
    def key(self) -> str:
        """Its name among the scopes of its group."""
        if self.kind:
            return f"{self.kind}/{self.name}"
        return "resourceGroup" if self.group else "subscription"

    def path(self, context: ArmContext) -> str:
        """Return the Azure id of this scope."""
        if self.kind:
            return context.arm_id(self.kind, self.group, self.name)
        if self.group:
            return context.arm_id(GROUP, "", self.group)
        return f"/subscriptions/{context.cloud.subscription}"

    def with_parents(self) -> Iterator["AzureScope"]:
        """Yield the subscription, the group, the resources around this scope, and this scope."""
        yield AzureScope()
        if self.group:
            yield AzureScope(self.group)
        namespace, *types = self.kind.split("/") if self.kind else [""]
        names = self.name.split("/")
        for depth in range(1, len(types) + 1):
            kind = "/".join([namespace, *types[:depth]])
            yield AzureScope(self.group, kind, "/".join(names[:depth]))


def of_request(request: ArmRequest) -> AzureScope:
    """Return the scope that the path of an extension resource begins with."""
    params = request.params
    if "resource" not in params:
        return AzureScope(params.get("group", ""))
    kind = canonical_kind(params["namespace"], params["kind"])
    if not kind:
        text = f"{params['namespace'][:80]}/{params['kind'][:80]}"
        raise ArmError("InvalidResourceType", f"The resource type '{text}' does not exist.", 404)
    return AzureScope(request.group, kind, params["resource"])


def of_path(path: str) -> AzureScope | None:
    """Return the scope that an Azure id or the path of a request names; None for other paths.

    The name of an action, and an extension resource, are not parts of the scope.
    """
    segments = [part for part in path.split("/") if part]
    lower = [part.lower() for part in segments]
    if len(segments) < _SUBSCRIPTION_SEGMENTS or lower[0] != "subscriptions":
        return None
    if lower[2:3] != ["resourcegroups"] or len(segments) < _GROUP_SEGMENTS:
        return AzureScope()
    group, rest = segments[3], segments[_GROUP_SEGMENTS:]
    if len(rest) < len(("providers", "namespace", "type", "name")) or lower[4] != _PROVIDERS:
        return AzureScope(group)
    own = rest[: _extension(rest)]
    namespace, pairs = own[1], own[2:]
    types, names = pairs[::2][: len(pairs) // 2], pairs[1::2]
    return AzureScope(group, "/".join([namespace, *types]), "/".join(names))


def _extension(rest: list[str]) -> int:
    """Return the index of the second `providers`, where an extension resource begins."""
    return next((n for n, part in enumerate(rest) if n and part.lower() == _PROVIDERS), len(rest))


async def require(context: ArmContext, scope: AzureScope) -> Resource | None:
    """Return the resource or group of a scope; raise if it does not exist.

    The subscription has none, nor has an instance that no client has written.
    """
    if not scope.group:
        return None
    if not scope.kind:
        return await context.group(scope.group)
    if scope.kind == MACHINE:
        return (await targets.find_machine(context, scope.group, scope.name)).resource
    if scope.kind == INSTANCE:
        owner, number = scope.name.split("/")
        return (await targets.find_instance(context, scope.group, owner, number)).resource
    return await context.get(scope.kind, scope.group, scope.name)
