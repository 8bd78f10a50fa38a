"""One record for each resource type that acts; routes, lists, docs and permissions follow from it.

A type without a record is only stored (`stored.py`).
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairwarning.arm.http.azure_id import AzureId
from fairwarning.arm.http.request import Body
from fairwarning.arm.http.routes import Handler
from fairwarning.core.commands import Command
from fairwarning.core.model import Resource


@dataclass(frozen=True)
class DesiredResource:
    """The desired state of a resource: its body, its entities, and commands to commit with it.

    `uses` and `owns` are ids of other resources; None keeps those that the resource has.
    """

    body: Body
    commands: tuple[Command, ...] = ()
    scope: str = ""
    machine: str = ""
    set: str = ""
    uses: tuple[str, ...] | None = None
    owns: tuple[str, ...] | None = None


Plan = Callable[[Any, Body], Awaitable[DesiredResource]]
"""Takes a `ResourceWrite` and a body: checks it, adds Azure's defaults, says what to commit."""
Documents = Callable[[Any, Sequence[Resource]], Awaitable[list[Body]]]
"""Takes an `ArmContext` and resources; leaves out those that were deleted meanwhile."""
Exists = Callable[[Any, AzureId], Awaitable[object]]
"""Returns what has an id and no row in the store; None if it does not exist."""
Complete = Callable[[Any, Sequence[Resource], list[Body]], Awaitable[None]]
"""Adds computed members to the documents of resources."""


@dataclass(frozen=True, kw_only=True)
class ResourceType:
    """A resource type: what its requests do, where that is not the same for all types."""

    name: str  # in Azure's case
    purpose: str  # what the service does with it, for the documentation
    plan: Plan | None = None
    merges: bool = False  # a PUT changes only the members that it has
    patched: bool = True  # by PATCH; some types have only PUT
    listed: bool = True  # among the resources of a group
    extends: bool = False  # belongs to a scope: the subscription, a group or another resource
    new_status: int = 201  # for some types, clients accept only 200
    parts: tuple[str, ...] = ()  # lists of named parts in its properties
    nested: tuple[str, ...] = ()  # those of them that have URLs of their own
    expands: tuple[str, ...] = ()  # words of $expand that add nothing here
    documents: Documents | None = None
    complete: Complete | None = None
    exists: Exists | None = None
    put: Handler | None = None
    get: Handler | None = None
    list: Handler | None = None
    remove: Handler | None = None
    actions: Mapping[str, Handler] = field(default_factory=dict)  # POST {resource}/{action}
    views: Mapping[str, Handler] = field(default_factory=dict)  # GET {resource}/{view}
    refused: Mapping[str, str] = field(default_factory=dict)  # actions that are not offered, why


class ResourceTypes:
    """All types that have a record."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        self._types = {kind.name.lower(): kind for kind in types}
        self._nested = {
            f"{kind.name}/{part}".lower(): (kind, part) for kind in self for part in kind.nested
        }

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._types.values())

    def get(self, kind: str) -> ResourceType | None:
        """Return the record of a type; None for a type that is only stored."""
        return self._types.get(kind.lower())

    def nested(self, kind: str) -> tuple[ResourceType, str] | None:
        """Return the type of the parent and the list in it that has the resources of a type."""
        return self._nested.get(kind.lower())

    def acts(self, kind: str) -> bool:
        """Return whether the service acts on a type; any other one is only stored (C8)."""
        return kind.lower() in self._types or kind.lower() in self._nested

    def is_misplaced(self, id_: AzureId) -> bool:
        """Return whether a type that acts is outside a group, or belongs to another resource."""
        kind = self.get(id_.kind)
        in_group = bool(id_.group) and id_.owner is None
        return self.acts(id_.kind) and not in_group and not (kind and kind.extends)

    def canonical(self, kind: str) -> str:
        """Return a type in Azure's case, if it has a record."""
        if nested := self.nested(kind):
            return f"{nested[0].name}/{nested[1]}"
        known = self.get(kind)
        return known.name if known else kind
