"""What scopes, sets and rollouts send to each other while a command is carried out.

Messages are commands that cannot come from outside (`validate` refuses them).
"""

from dataclasses import field

from fairwarning.core.commands import (
    LaneCommand,
    Maintain,
    ResourceCommand,
    RolloutCommand,
    ScopeCommand,
    SetCommand,
)
from fairwarning.core.model import Machine, PendingDelete, Rules
from fairwarning.core.record import record


@record
class Join(ScopeCommand):
    """More instances for a set's placement group; the group comes to be if it must."""

    internal = True
    machines: tuple[Machine, ...]
    owner: str
    group: str = ""
    rules: Rules = field(default_factory=Rules)


@record
class Follow(ScopeCommand):
    """These machines follow this version of their set's model from now on."""

    internal = True
    machines: tuple[str, ...]
    model: int
    terminate_seconds: int
    size: str = ""


@record
class Protect(ScopeCommand):
    """These machines are kept from scale-in, or no longer."""

    internal = True
    machines: tuple[str, ...]
    protected: bool
    shielded: bool = False


@record
class Tie(ScopeCommand):
    """This resource stands for this machine."""

    internal = True
    machine: str
    resource: str


@record
class TieSet(SetCommand):
    """This resource stands for this set."""

    internal = True
    resource: str


@record
class Vanish(ResourceCommand):
    """What the resource stood for is gone, or all of its removal is done."""

    internal = True


@record
class Await(ResourceCommand):
    """An operation waits until the resource is gone."""

    internal = True


@record
class Endure(ResourceCommand):
    """What the resource stands for was to go, and did not."""

    internal = True
    why: str


@record
class Stay(ResourceCommand):
    """The resource was to be removed, but not all of that could be done."""

    internal = True


@record
class Dissolve(ScopeCommand):
    """What an empty scope belonged to is gone, and so is the scope."""

    internal = True


@record
class Release(ScopeCommand):
    """The terminate queue lets an approved delete go (T6)."""

    internal = True
    event: str


@record
class PeerApproved(ScopeCommand):
    """Another scope of the wave no longer needs waiting for (E10)."""

    internal = True
    operation: str
    peer: str


@record
class Withdraw(ScopeCommand):
    """Cancel what is still Scheduled of an operation."""

    internal = True
    operation: str
    reason: str


@record
class Hit(Maintain):
    """A rollout's step reaches a scope; with `peers` it is a wave (E10)."""

    internal = True
    lane: str
    peers: tuple[str, ...] = ()
    not_before: int | None = None


@record
class Enqueue(SetCommand):
    """A Terminate event was announced."""

    internal = True
    entry: PendingDelete


@record
class ApproveDelete(SetCommand):
    """A Terminate event was approved; may it start (T6)?"""

    internal = True
    event: str


@record
class Dequeue(SetCommand):
    """A Terminate event no longer waits: it started at NotBefore, or was cancelled."""

    internal = True
    event: str


@record
class Remain(SetCommand):
    """An instance that was to be deleted stays: it failed, or was cancelled."""

    internal = True
    why: str


@record
class Dwindle(SetCommand):
    """An instance is gone for good."""

    internal = True


@record
class AdvanceLane(LaneCommand):
    """Take the next step that has something to do."""

    internal = True


@record
class AbortLane(LaneCommand):
    """The rollout is aborted: cancel what is Scheduled of the step under way."""

    internal = True


@record
class EndStep(LaneCommand):
    """A step's operation has ended."""

    internal = True
    done: int
    failed: int
    cancelled: int


@record
class CountStep(RolloutCommand):
    """A lane finished a step, and with `ended` all of them."""

    internal = True
    lane: int
    done: int = 0
    failed: int = 0
    skipped: int = 0
    ended: bool = False


@record
class ParkLane(RolloutCommand):
    """A lane stopped at a pause."""

    internal = True
    lane: int
