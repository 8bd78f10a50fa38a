"""References between resources, by Azure ids: parsed, checked and written in their usual case.

A tenant of one group may refer to the resources of that group only.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fairwarning.arm.http.context import PAGE, ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import documents
from fairwarning.core.commands import Command
from fairwarning.core.model import Ref
from fairwarning.service import resources
from fairwarning.service.resources import AVAILABILITY_SET, MACHINE, SCALE_SET, Resource

NETWORK = "Microsoft.Network/virtualNetworks"
SECURITY_GROUP = "Microsoft.Network/networkSecurityGroups"
PUBLIC_ADDRESS = "Microsoft.Network/publicIPAddresses"
LOAD_BALANCER = "Microsoft.Network/loadBalancers"
INTERFACE = "Microsoft.Network/networkInterfaces"
DISK = "Microsoft.Compute/disks"
PROXIMITY_GROUP = "Microsoft.Compute/proximityPlacementGroups"

_USERS = {
    kind.lower(): kind for kind in (MACHINE, SCALE_SET, AVAILABILITY_SET, INTERFACE, LOAD_BALANCER)
}  # resources that use others, in Azure's case
_ID = re.compile(
    r"/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/([^/]+/[^/]+)/([^/]+)"
    r"(?:/([^/]+)/([^/]+))?/?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Target:
    """What a reference names: a resource, or a part of it such as a subnet."""

    resource: Resource
    id: str  # the Azure id, in its usual case
    part: Body | None = None


@dataclass(frozen=True)
class Links:
    """The resources that a resource uses and owns, and the commands that create new ones."""

    uses: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Referrer:
    """A resource that is being written, and whose references are checked."""

    context: ArmContext
    id: str  # its Azure id
    store_id: str
    existing: Resource | None = None
    confined: bool = False  # its client may use resources of its own group only
    attempt: int = 0  # how often it has been planned before: another request came first

    async def find(self, link: object, path: str, kind: str, part: str = "") -> Target | None:
        """Return the target of a member such as `{"id": ...}`; None if there is no such member.

        `part` is the list of the resource that contains the target: `subnets` of a network.
        """
        if link is None:
            return None
        text = link.get("id") if isinstance(link, dict) else None
        match = _ID.fullmatch(text) if isinstance(text, str) else None
        if match is None or [match[3].lower(), (match[5] or "").lower()] != [
            kind.lower(), part.lower(),
        ]:  # fmt: skip
            raise _invalid_id(text, path, f"{kind}/{part}" if part else kind)
        resource = await self._read(match, kind)
        entry = _part(resource, part, match[6]) if resource and part else None
        if resource is None or (part and entry is None):
            raise self._missing(match[0])
        id_ = self.context.arm_id(kind, resource.group, resource.name)
        return Target(resource, f"{id_}/{part}/{entry['name']}" if entry else id_, entry)

    async def require(self, link: object, path: str, kind: str, part: str = "") -> Target:
        """Return the target of a member; raise if there is no such member."""
        target = await self.find({} if link is None else link, path, kind, part)
        assert target is not None
        return target

    @property
    def group(self) -> str:
        """The name of its group."""
        return self.id.split("/")[4]

    def is_free(self, resource: Resource) -> bool:
        """Whether this resource may use another one, which can have one user only."""
        return resource.used_by in {"", self.store_id}

    async def _read(self, match: re.Match[str], kind: str) -> Resource | None:
        if match[1].lower() != self.context.cloud.subscription.lower():
            return None
        if self.confined and match[2].lower() != self.group.lower():
            text = (
                f"Resource {match[0][:300]} referenced by resource {self.id} is in another "
                "resource group, which you may not use; refer to resources of your own group."
            )
            raise ArmError("InvalidResourceReference", text)
        return await self.context.find(kind, match[2], match[4])

    def _missing(self, id_: str) -> ArmError:
        return ArmError(
            "InvalidResourceReference",
            f"Resource {id_[:300]} referenced by resource {self.id} was not found. Please make "
            "sure that the referenced resource exists, and that both resources are in the same "
            "region.",
        )


def _invalid_id(text: object, path: str, kind: str) -> ArmError:
    return ArmError(
        "LinkedInvalidPropertyId",
        f"Property id '{str(text)[:300]}' at path '{path}' is invalid. Expect the fully qualified "
        f"resource Id of a {kind}, which starts with '/subscriptions/{{subscriptionId}}/"
        "resourceGroups/{resourceGroupName}/providers/'.",
    )


def _part(resource: Resource, part: str, name: str) -> Body | None:
    properties = documents.stored_body(resource).get("properties", {})
    for entry in properties.get(part, ()):
        if str(entry["name"]).lower() == name.lower():
            named: Body = entry
            return named
    return None


def same(first: object, second: str) -> bool:
    """Whether a member such as `{"id": ...}` names this Azure id."""
    text = first.get("id") if isinstance(first, dict) else None
    return isinstance(text, str) and text.lower().rstrip("/") == second.lower()


# --- Reading --------------------------------------------------------------------------------------


async def read_all(context: ArmContext, ids: Iterable[str]) -> dict[str, Resource]:
    """Return the resources with these ids in the store."""
    refs: list[Ref] = [(Resource, id_) for id_ in dict.fromkeys(ids) if id_]
    rows = (await context.fleet.reader.read_all(refs)).values() if refs else ()
    return {row.id: row for row in rows if isinstance(row, Resource)}


async def read_group(context: ArmContext, kind: str, group: str) -> list[Resource]:
    """Return all resources of a kind in a group; with an empty name, in all groups."""
    prefix = after = resources.id_prefix(kind, group)
    rows: list[Resource] = []
    while page := await context.fleet.reader.resources(prefix, after, PAGE):
        rows += page
        after = page[-1].id
    return rows


def user_id(context: ArmContext, user: Resource) -> str:
    """Return the Azure id of a resource that uses another one."""
    return context.arm_id(_USERS[user.id.partition(":")[0]], user.group, user.name)
