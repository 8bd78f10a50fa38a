"""What the agent decided about an event, and why, in words for the log. Pure.

`plan` decides; this module only describes its state.
"""

from __future__ import annotations

from fairwarning.guest.agent.actions import GroupMembers
from fairwarning.guest.agent.config import (
    UNKNOWN_TYPE,
    AgentConfig,
    ApprovalPolicy,
    HookSettings,
)
from fairwarning.guest.agent.event_state import EventState, HookState
from fairwarning.guest.events import Event, EventType, Phase, normalize_name

APPROVED = "approved"
OVER_UNREADY = "approving without word from"


def describe_decision(
    tracked: EventState, config: AgentConfig, machine: str, members: GroupMembers | None = None
) -> str:
    """Return the decision about an event: approved, not approved and why, or what it waits for."""
    event = tracked.event
    if tracked.boot:
        return "booted"
    if tracked.over:
        return "cancelled" if tracked.cancelled else "over"
    if tracked.refused:
        return "not approved: the endpoint refused the approval"
    if tracked.approved_at is not None:
        return APPROVED
    if event.started:
        return "started without our approval"
    if tracked.approving:
        return _approving(tracked)
    if reason := _prohibition(event, config, machine):
        return f"not approved: {reason}"
    if reason := _hooks_reason(tracked, config):
        return reason
    if len(event.resources) > 1:
        return _group_reason(event, config, machine, members)
    return "approving"


def _approving(tracked: EventState) -> str:
    if not tracked.unready_members:
        return "approving"
    return f"{OVER_UNREADY} {_machines(list(tracked.unready_members))}, as NotBefore is near"


def _prohibition(event: Event, config: AgentConfig, machine: str) -> str:
    """Return why this agent must not approve an event; empty if it may."""
    if not event.concerns(machine):
        return "it names other machines only"
    if config.approves(event) is ApprovalPolicy.NEVER:
        return _policy_reason(event, config)
    if len(event.resources) > 1 and config.group is None:
        return "it names other machines too, and no group is configured"
    return ""


def _policy_reason(event: Event, config: AgentConfig) -> str:
    rule = config.policy(event)
    if rule is ApprovalPolicy.WHEN_DONE:
        return (
            'there is no hook of phase scheduled; to approve without one, set approve = "at once"'
        )
    if not isinstance(event.type, EventType) and UNKNOWN_TYPE not in config.approve:
        return "its type is unknown; see `approve.unknown`"
    source = f", source {event.source}" if rule is ApprovalPolicy.USER_ONLY else ""
    return f"policy {rule}{source}"


def _hooks_reason(tracked: EventState, config: AgentConfig) -> str:
    if config.approves(tracked.event) is ApprovalPolicy.AT_ONCE:
        return ""
    states = {
        hook.name: tracked.hooks.get((Phase.SCHEDULED, hook.name))
        for hook in _required(config, tracked.event)
    }
    if failed := [name for name, state in states.items() if state is HookState.FAILED]:
        return f"not approved because {_hooks(failed)} failed"
    if late := [name for name, state in states.items() if state is HookState.NO_TIME]:
        return f"not approved because {_hooks(late)} had too little time"
    running = [name for name, state in states.items() if state is not HookState.DONE]
    return f"waiting for {_hooks(running)}" if running else ""


def _required(config: AgentConfig, event: Event) -> list[HookSettings]:
    return [
        hook
        for hook in config.hooks
        if hook.phase == Phase.SCHEDULED and hook.required and hook.fits(event)
    ]


def _hooks(names: list[str]) -> str:
    return f"hook{'s' * (len(names) > 1)} {', '.join(names)}"


def _group_reason(
    event: Event, config: AgentConfig, machine: str, members: GroupMembers | None
) -> str:
    """Return which machines a ready one waits for: those not ready, or the one that leads."""
    own = normalize_name(machine)
    if members is None:
        return "ready; waiting for the state of the other machines"
    over_failures = config.group is not None and config.group.approve_over_failures
    failed = [name for name in event.resources if normalize_name(name) in members.failed - {own}]
    if failed and not over_failures:
        return f"not approved because a required hook failed on {_machines(failed)}"
    alive = [name for name in event.resources if normalize_name(name) in members.alive | {own}]
    unready = [
        name for name in event.resources if normalize_name(name) not in members.ready | {own}
    ]
    if unready:
        return f"waiting for {_machines(unready)}"
    if alive and normalize_name(alive[0]) != own:
        return f"ready; machine {alive[0]} approves"
    return "approving"


def _machines(names: list[str]) -> str:
    return f"machine{'s' * (len(names) > 1)} {', '.join(names)}"
