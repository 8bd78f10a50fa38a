"""Messages that scopes, sets, rollouts and resources send to each other while a command runs.

A message is a fact in the past tense (`InstanceDeleted`) or an instruction (`ApplyModel`). It is a
command that no client can send: `validate` refuses it.
"""

from collections.abc import Mapping
from dataclasses import field

from fairwarning.core.commands import (
    LaneCommand,
    Maintain,
    ResourceCommand,
    RolloutCommand,
    ScopeCommand,
    SetCommand,
    SubnetCommand,
)
from fairwarning.core.model import Machine, PendingDelete, Rules
from fairwarning.core.record import record


@record
class AddInstances(ScopeCommand):
    """Add instances to a placement group of a set; create the group if it does not exist."""

    internal = True
    machines: tuple[Machine, ...]
    owner: str
    group: str = ""
    rules: Rules = field(default_factory=Rules)


@record
class ApplyModel(ScopeCommand):
    """Bring these machines to a version of their set's model."""

    internal = True
    machines: tuple[str, ...]
    model: int
    terminate_seconds: int
    size: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@record
class SetProtection(ScopeCommand):
    """Protect these machines from scale-in, or stop protecting them."""

    internal = True
    machines: tuple[str, ...]
    protected: bool
    shielded: bool = False


@record
class LinkMachine(ScopeCommand):
    """Record which ARM resource describes this machine."""

    internal = True
    machine: str
    resource: str


@record
class LinkSet(SetCommand):
    """Record which ARM resource describes this set."""

    internal = True
    resource: str


@record
class ClaimAddress(SubnetCommand):
    """A machine is given an address of this subnet by hand; it must be free."""

    internal = True
    address: str


@record
class ReleaseAddress(SubnetCommand):
    """A machine with an address of this subnet was deleted, or has another address now."""

    internal = True
    address: str


@record
class UseResource(ResourceCommand):
    """Another resource uses this one from now on; it must exist and not be in use."""

    internal = True
    user: str


@record
class ReleaseResource(ResourceCommand):
    """Its user does not use this resource any more, or was removed and owned it."""

    internal = True
    user: str
    remove: bool = False


@record
class UsedResourceRemoved(ResourceCommand):
    """A resource that this one uses was removed, with its group."""

    internal = True
    removed: str


@record
class TargetDeleted(ResourceCommand):
    """The machine or set of this resource was deleted, or its removal has ended."""

    internal = True


@record
class AwaitRemoval(ResourceCommand):
    """Let an operation wait until this resource is removed."""

    internal = True


@record
class TargetDeletionFailed(ResourceCommand):
    """The machine or set of this resource was to be deleted, and still exists."""

    internal = True
    why: str


@record
class RemovalFailed(ResourceCommand):
    """The removal of this resource did not complete."""

    internal = True


@record
class RemoveEmptyScope(ScopeCommand):
    """Remove an empty scope whose owner was removed."""

    internal = True


@record
class StartQueuedDelete(ScopeCommand):
    """Start an approved delete: the terminate queue no longer holds it back (T6)."""

    internal = True
    event: str


@record
class PeerApproved(ScopeCommand):
    """Another scope of the wave has approved, or has dropped out of it (E10)."""

    internal = True
    operation: str
    peer: str


@record
class CancelOperation(ScopeCommand):
    """Cancel the events of an operation that are still Scheduled."""

    internal = True
    operation: str
    reason: str


@record
class MaintainForRollout(Maintain):
    """Maintain the machines of a rollout's step in one scope; with `peers`, as a wave (E10)."""

    internal = True
    lane: str
    peers: tuple[str, ...] = ()
    not_before: int | None = None


@record
class DeleteAnnounced(SetCommand):
    """A Terminate event was announced."""

    internal = True
    entry: PendingDelete


@record
class DeleteApproved(SetCommand):
    """A Terminate event was approved; may it start (T6)?"""

    internal = True
    event: str


@record
class DeleteLeftQueue(SetCommand):
    """A Terminate event left the queue: it started at NotBefore, or was cancelled."""

    internal = True
    event: str


@record
class DeletionFailed(SetCommand):
    """An instance was not deleted: the impact failed, or its event was cancelled."""

    internal = True
    why: str


@record
class InstanceDeleted(SetCommand):
    """An instance was deleted."""

    internal = True


@record
class AdvanceLane(LaneCommand):
    """Take the next step that has something to do."""

    internal = True


@record
class AbortLane(LaneCommand):
    """The rollout was aborted: cancel the Scheduled events of the current step."""

    internal = True


@record
class StepEnded(LaneCommand):
    """The operation of a step has ended."""

    internal = True
    done: int
    failed: int
    cancelled: int


@record
class LaneProgressed(RolloutCommand):
    """A lane finished a step; with `ended`, its last one."""

    internal = True
    lane: int
    done: int = 0
    failed: int = 0
    skipped: int = 0
    ended: bool = False


@record
class LanePaused(RolloutCommand):
    """A lane stopped because the rollout is paused."""

    internal = True
    lane: int
