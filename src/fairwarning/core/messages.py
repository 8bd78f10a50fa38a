"""Messages that scopes, sets, rollouts and resources send to each other while a command runs.

A message is a fact in the past tense (`InstanceDeleted`) or an instruction (`ApplyModel`). It is a
command that no client can send: `validate` refuses it.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TypeVar, dataclass_transform

from fairwarning.core.commands import (
    Command,
    LaneCommand,
    Maintain,
    ResourceCommand,
    RolloutCommand,
    ScopeCommand,
    SetCommand,
)
from fairwarning.core.model import Machine, PendingDelete, Rules, SetAside, Subnet
from fairwarning.core.record import record

M = TypeVar("M", bound=Command)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def message(kind: type[M]) -> type[M]:
    """Make a class a message: a command that only the rules send."""
    kind.internal = True
    return record(kind)


@message
class AddInstances(ScopeCommand):
    """Add instances to a placement group of a set; create the group if it does not exist."""

    machines: tuple[Machine, ...]
    owner: str
    group: str
    rules: Rules
    polled_at: float  # of the set, if Scheduled Events is enabled for it (M14)


@message
class GroupPolled(SetCommand):
    """A machine of a placement group polled: that counts for the whole set (M14)."""

    scope: str
    at: float


@message
class ShareGroupPoll(ScopeCommand):
    """A machine of another placement group of the same set polled (M14)."""

    at: float


@message
class ApplyModel(ScopeCommand):
    """Bring these machines to a version of their set's model."""

    machines: tuple[str, ...]
    model: int
    terminate_seconds: int
    size: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@message
class SetProtection(ScopeCommand):
    """Protect these machines from scale-in, or stop protecting them."""

    machines: tuple[str, ...]
    protected: bool
    shielded: bool


@message
class LinkMachine(ScopeCommand):
    """Record which ARM resource describes this machine."""

    machine: str
    resource: str


@message
class LinkSet(SetCommand):
    """Record which ARM resource describes this set."""

    resource: str


@message
class SubnetCommand(Command):
    """A command to a subnet."""

    on = Subnet
    target = "subnet"
    subnet: str


@message
class ClaimAddress(SubnetCommand):
    """A machine is given an address of this subnet by hand; it must be free."""

    address: str


@message
class ReleaseAddress(SubnetCommand):
    """A machine with an address of this subnet was deleted, or has another address now."""

    address: str


@message
class UseResource(ResourceCommand):
    """Another resource uses this one from now on; it must exist and not be in use."""

    user: str


@message
class ReleaseResource(ResourceCommand):
    """Its user does not use this resource any more, or was removed and owned it."""

    user: str
    remove: bool = False


@message
class UsedResourceRemoved(ResourceCommand):
    """A resource that this one uses was removed, with its group."""

    removed: str


@message
class TargetDeleted(ResourceCommand):
    """The machine or set of this resource was deleted, or its removal has ended."""


@message
class AwaitRemoval(ResourceCommand):
    """Let an operation wait until this resource is removed."""


@message
class TargetDeletionFailed(ResourceCommand):
    """The machine or set of this resource was to be deleted, and still exists."""

    why: str


@message
class RemovalFailed(ResourceCommand):
    """The removal of this resource did not complete."""


@message
class RemoveEmptyScope(ScopeCommand):
    """Remove an empty scope whose owner was removed."""


@message
class StartQueuedDelete(ScopeCommand):
    """Start an approved delete: the terminate queue no longer holds it back (T6)."""

    event: str


@message
class PeerApproved(ScopeCommand):
    """Another scope of the wave has approved, or has dropped out of it (E10)."""

    operation: str
    peer: str


@message
class CancelOperation(ScopeCommand):
    """Cancel the events of an operation that are still Scheduled."""

    operation: str
    reason: str


@message
class MaintainForRollout(Maintain):
    """Maintain the machines of a rollout's step in one scope; with `peers`, as a wave (E10)."""

    lane: str
    peers: tuple[str, ...] = ()
    not_before: int | None = None
    opens_at: int = 0  # the window that NotBefore falls into


@message
class DeleteAnnounced(SetCommand):
    """A Terminate event was announced."""

    entry: PendingDelete


@message
class DeleteApproved(SetCommand):
    """A Terminate event was approved; may it start (T6)?"""

    event: str


@message
class DeleteLeftQueue(SetCommand):
    """A Terminate event left the queue: it started at NotBefore, or was cancelled."""

    event: str


@message
class DeletionFailed(SetCommand):
    """An instance was not deleted: the impact failed, or its event was cancelled."""

    why: str


@message
class InstanceDeleted(SetCommand):
    """An instance was deleted."""


@message
class AdvanceLane(LaneCommand):
    """Take the next step that has something to do."""


@message
class AbortLane(LaneCommand):
    """The rollout was aborted: cancel the Scheduled events of the current step."""


@message
class StepEnded(LaneCommand):
    """The operation of a step has ended."""

    done: int
    failed: int
    cancelled: int


@message
class LaneProgressed(RolloutCommand):
    """A lane finished a step; with `ended`, its last one."""

    lane: int
    done: int = 0
    failed: int = 0
    skipped: int = 0
    ended: bool = False


@message
class LanePaused(RolloutCommand):
    """A lane stopped because the rollout is paused."""

    lane: int


@message
class ReportBug(Command):
    """A command to an entity could not be decided: set the entity aside (IB1)."""

    on = SetAside
    target = "entity"
    entity: str  # kind and id, such as "Scope/web"
    reason: str
    software: str
