"""What the configuration says about an event: which hooks it has, and whether to approve it. Pure.

IG3: an agent approves only for its own machine, or as the leader of a group.
"""

from __future__ import annotations

from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, HookSettings
from fairwarning.guest.agent.event_state import EventState, HookState
from fairwarning.guest.events import Event, Phase, normalize_name


class EventRules:
    """The rules of one machine."""

    def __init__(self, config: AgentConfig, name: str) -> None:
        self.config = config
        self._name = name

    # --- Hooks ---

    def hooks(self, tracked: EventState, phase: Phase) -> list[HookSettings]:
        """Return the hooks of a phase of this event."""
        event = tracked.event
        if tracked.boot:
            return [hook for hook in self.config.hooks if hook.phase == phase and hook.boot]
        hooks = [hook for hook in self.config.hooks if hook.phase == phase]
        if phase is Phase.OVER:  # they undo what was done for an earlier type, too (IG1)
            return [hook for hook in hooks if any(hook.fits_kind(*kind) for kind in tracked.kinds)]
        if not event.concerns(self._name):  # any more
            return []
        return [hook for hook in hooks if hook.fits(event)]

    def may_follow(self, tracked: EventState, hook: HookSettings) -> bool:
        """Whether the hooks before this one have ended, and the required ones with success."""
        return all(
            state is HookState.DONE
            or (not earlier.required and state in {HookState.FAILED, HookState.NO_TIME})
            for earlier in self.hooks(tracked, hook.phase)
            if earlier.order < hook.order
            for state in [tracked.hooks.get((hook.phase, earlier.name))]
        )

    def required_states(self, tracked: EventState) -> list[HookState | None]:
        """Return the states of the hooks that the approval waits for."""
        hooks = self.hooks(tracked, Phase.SCHEDULED)
        required = [hook for hook in hooks if hook.required]
        return [tracked.hooks.get((Phase.SCHEDULED, hook.name)) for hook in required]

    def is_prepared(self, tracked: EventState) -> bool:
        """Whether this machine was prepared for the event, or is being prepared.

        It stays so while the event is listed, also if the event names only other machines by now.
        """
        has_begun = any(
            (Phase.SCHEDULED, hook.name) in tracked.hooks
            for hook in self.config.hooks
            if hook.required and hook.phase is Phase.SCHEDULED
        )
        is_preparing = has_begun or tracked.is_running(Phase.SCHEDULED, Phase.STARTED)
        return is_preparing and not tracked.over

    def is_recovering(self, tracked: EventState) -> bool:
        """Whether hooks of an event that is over run, or have to run for the first time."""
        return tracked.over and (
            tracked.is_running(*Phase)
            or any(
                tracked.is_pending(Phase.OVER, hook.name) and self.may_follow(tracked, hook)
                for hook in self.hooks(tracked, Phase.OVER)
            )
        )

    # --- Approval ---

    def is_shared(self, event: Event) -> bool:
        """Whether several machines have to agree on the event."""
        return len(event.resources) > 1 and self.config.group is not None

    def may_approve(self, event: Event) -> bool:
        """IG3: whether the event names this machine alone, or there is a group to coordinate."""
        coordinated = len(event.resources) == 1 or self.config.group is not None
        never = self.config.approves(event) is ApprovalPolicy.NEVER
        return event.concerns(self._name) and coordinated and not never

    def is_ready(self, tracked: EventState) -> bool:
        """Whether required hooks are done and this agent may approve (IG1, IG3)."""
        if tracked.waits or not self.may_approve(tracked.event):
            return False
        if self.config.approves(tracked.event) is ApprovalPolicy.AT_ONCE:
            return True
        return all(state is HookState.DONE for state in self.required_states(tracked))

    def has_failed(self, tracked: EventState) -> bool:
        """Whether a required hook has failed on this machine."""
        if self.config.approves(tracked.event) is ApprovalPolicy.AT_ONCE:
            return False
        failed = {HookState.FAILED, HookState.NO_TIME}
        return not failed.isdisjoint(self.required_states(tracked))

    def earlier_machines(self, event: Event) -> list[str]:
        """Return the machines that an event lists before this one, by normalized name."""
        names = [normalize_name(name) for name in event.resources]
        own = normalize_name(self._name)
        return names[: names.index(own)] if own in names else names

    def other_machines(self, event: Event) -> list[str]:
        """Return the other machines of an event, as it names them."""
        own = normalize_name(self._name)
        return [name for name in event.resources if normalize_name(name) != own]
