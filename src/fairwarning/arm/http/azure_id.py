"""Azure's ids: of the subscription, of a resource group, or of a resource.

    /subscriptions/S/resourceGroups/G/providers/Microsoft.Network/virtualNetworks/net/subnets/one

An extension resource belongs to another resource, and has an id below that one's:

    .../virtualMachines/web/providers/Microsoft.Authorization/locks/keep
"""

from collections.abc import Iterator
from dataclasses import dataclass

_PARTS = 100  # of a path; the longest id that is stored has fewer
_SUBSCRIPTIONS, _GROUPS, _PROVIDERS = "subscriptions", "resourcegroups", "providers"


@dataclass(frozen=True)
class AzureId:
    """An id, as the client wrote it. Ids are case-insensitive."""

    subscription: str = ""
    group: str = ""  # none for the subscription, and for a resource of the subscription
    kind: str = ""  # as Microsoft.Network/virtualNetworks/subnets; none for a group
    name: str = ""  # of a nested resource with its parents': net/one
    owner: "AzureId | None" = None  # the resource that an extension resource belongs to

    @property
    def names(self) -> list[str]:
        """The names of the parents, and its own."""
        return self.name.split("/")

    @property
    def in_group(self) -> str:
        """The end of the id, after the group: Microsoft.Compute/virtualMachines/web."""
        if not self.kind:
            return ""
        namespace, *types = self.kind.split("/")
        pairs = zip(types, self.names, strict=True)
        own = "/".join([namespace, *(f"{kind}/{name}" for kind, name in pairs)])
        return f"{self.owner.in_group}/{_PROVIDERS}/{own}" if self.owner else own

    @property
    def path(self) -> str:
        group = f"/resourceGroups/{self.group}" if self.group else ""
        end = f"/{_PROVIDERS}/{self.in_group}" if self.kind else ""
        return f"/subscriptions/{self.subscription}{group}{end}"

    def parent(self) -> "AzureId | None":
        """The resource that a nested resource or an extension resource belongs to."""
        if self.kind.count("/") > 1:
            kind, name = self.kind.rpartition("/")[0], self.name.rpartition("/")[0]
            return AzureId(self.subscription, self.group, kind, name, self.owner)
        return self.owner

    def with_parents(self) -> Iterator["AzureId"]:
        """Yield this id, those of the resources around it, of its group and the subscription."""
        around: AzureId | None = self if self.kind else None
        while around:
            yield around
            around = around.parent()
        if self.group:
            yield AzureId(self.subscription, self.group)
        yield AzureId(self.subscription)


@dataclass(frozen=True)
class ResourcePath:
    """The path of a request: an id, or an id and a `member` of what it names.

    A member is a list of resources (`subnets`, or with its namespace `Microsoft.Web/sites`) or an
    action (`restart`).
    """

    id: AzureId
    member: str = ""

    @property
    def listed_kind(self) -> str:
        """The type of the resources that the member lists."""
        return self.member if "/" in self.member else f"{self.id.kind}/{self.member}"


def parse_path(path: str) -> ResourcePath | None:
    """Return the id and the member that a path names; None for another path."""
    parts = [part for part in path.split("/") if part]  # the Azure CLI doubles some slashes
    return _read(parts)


def parse_id(text: object) -> AzureId | None:
    """Return the id that a text is; None for any other value."""
    if not isinstance(text, str) or not text.startswith("/"):
        return None
    parts = text.strip("/").split("/")
    path = _read(parts) if all(parts) else None
    return path.id if path and not path.member else None


def _read(parts: list[str]) -> ResourcePath | None:
    lower = [part.lower() for part in parts[:3]]
    if not 1 < len(parts) <= _PARTS or lower[:1] != [_SUBSCRIPTIONS]:
        return None
    id_, at = AzureId(parts[1]), 2
    if lower[2:] == [_GROUPS] and parts[3:]:
        id_, at = AzureId(parts[1], parts[3]), 4
    while at < len(parts):
        if parts[at].lower() != _PROVIDERS or "." not in "".join(parts[at + 1 : at + 2]):
            return None
        extensions = (n for n in range(at + 2, len(parts), 2) if parts[n].lower() == _PROVIDERS)
        end = next(extensions, len(parts))
        namespace, pairs = parts[at + 1], parts[at + 2 : end]
        types, names = pairs[::2], pairs[1::2]
        owner = id_ if id_.kind else None
        if len(types) == len(names) == 0:
            return None
        if names:
            kind = "/".join([namespace, *types[: len(names)]])
            id_ = AzureId(id_.subscription, id_.group, kind, "/".join(names), owner)
        if len(types) > len(names):
            member = types[-1] if names else f"{namespace}/{types[-1]}"
            return ResourcePath(id_, member) if end == len(parts) else None
        at = end
    return ResourcePath(id_)
