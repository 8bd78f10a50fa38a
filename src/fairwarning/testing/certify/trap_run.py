"""Runs one trap with one program, step by step, and describes what was observed."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fairwarning.core import limits
from fairwarning.core.commands import (
    OF_A_SET,
    Approve,
    Cancel,
    Command,
    Maintain,
    OperateInstances,
    Poll,
)
from fairwarning.core.errors import Conflict
from fairwarning.core.model import ImpactKind
from fairwarning.machines.process.isolation import Isolation
from fairwarning.service.faults import FaultRule
from fairwarning.testing.certify import allowances, steps
from fairwarning.testing.certify.allowances import approval_seconds, check_rules
from fairwarning.testing.certify.environment import (
    SCOPE,
    SET,
    CertifyEnvironment,
    ObservedEvent,
    TrapFailed,
)
from fairwarning.testing.certify.steps import CHANGE_DOCUMENT, ME, AnnounceEvent, Step

_DISABLE_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class CertifyOptions:
    """The program, and what is expected of it."""

    command: tuple[str, ...]
    approves: bool = True
    prepare_seconds: float = allowances.PREPARE_SECONDS
    jobs: int = 16
    isolation: Isolation = field(default_factory=Isolation)
    endpoint_variable: str = ""  # is set to the URL of the endpoint

    def exec_options(self) -> list[str]:
        """Return the options of `fairwarning exec` for each program."""
        words = ["--isolation", str(self.isolation)]
        if self.endpoint_variable:
            words += ["--endpoint-variable", self.endpoint_variable]
        return words


class TrapRun:
    """One trap with one program."""

    def __init__(self, environment: CertifyEnvironment, options: CertifyOptions) -> None:
        self._environment = environment
        self._options = options
        self._events: dict[str, ObservedEvent] = {}  # by the names that steps use
        self._notes: list[str] = []
        self._approval_times: list[str] = []  # from reading an event to approving it
        self.ignored: set[str] = set()
        """The types of the program's own events that it was not shown or did not approve."""
        environment.rules.append(self._check_rules)

    async def run(self, timeline: Sequence[Step]) -> str:
        """Run all steps after the first poll; describe what was observed. Raise `TrapFailed`."""
        seen = self._environment.seen
        if not await self._environment.until(lambda: seen.polls > 0, allowances.START_SECONDS):
            raise TrapFailed(_describe_silence(seen.refused, allowances.START_SECONDS))
        for step in timeline:
            await self._run_step(step)
        self._check_rules()
        if self._approval_times:
            self._notes.append(f"approved {' and '.join(self._approval_times)} after reading it")
        return "; ".join(self._notes) or "kept polling"

    @property
    def handled(self) -> set[str]:
        """The types of the events that the program has approved, or read if it need not approve."""
        return {
            event.type
            for event in self._events.values()
            if event.approved_by == ME or (event.read_at and not self._options.approves)
        }

    def _check_rules(self) -> None:
        check_rules(self._environment.seen, self._options.prepare_seconds)

    async def _run_step(self, step: Step) -> None:  # noqa: C901  (one line per step)
        match step:
            case AnnounceEvent():
                await self._announce(step)
            case steps.ExpectPolls(times):
                await self._expect_polls(times, allowances.POLL_SECONDS)
            case steps.ExpectRead(event):
                await self._expect_read(self._events[event])
            case steps.ExpectApproval(event):
                await self._expect_approval(self._events[event])
            case steps.ExpectNoApproval(event, seconds):
                longest = self._options.prepare_seconds if seconds is None else seconds
                await self._expect_no_approval(self._events[event], longest)
            case steps.ExpectOneApproval(event):
                await self._expect_one_approval(self._events[event])
            case steps.AwaitEventEnd(event):
                await self._await_end(self._events[event])
            case steps.ExpectMachineGone(event):
                await self._expect_machine_gone(self._events[event])
            case steps.CancelAnnouncedEvent(event):
                await self._cancel(self._events[event])
            case steps.InjectFault(kind, delay):
                await self._inject(FaultRule(kind=kind, delay_seconds=delay))
            case steps.DisableFeature():
                await self._disable_feature()
            case steps.LosePower(event):
                await self._lose_power(self._events.get(event))
            case steps.PowerOn():
                await self._power_on()

    # --- Actions ---

    async def _announce(self, step: AnnounceEvent) -> None:
        operation = self._environment.operation()
        event = await self._environment.announce(_command(step, operation), operation)
        self._events[step.event] = event

    async def _cancel(self, event: ObservedEvent) -> None:
        try:
            await self._environment.fleet.submit(Cancel(scope=SCOPE, event=event.id))
        except Conflict:
            raise TrapFailed("approved an event that also affects other machines") from None

    async def _approve(self, event: ObservedEvent) -> None:
        if not event.approved_by and not event.over:
            await self._environment.fleet.submit(Approve(scope=SCOPE, events=(event.id,)))

    async def _inject(self, fault: FaultRule) -> None:
        """Inject a fault until enough requests have met it; see `allowances`."""
        seen, faults = self._environment.seen, self._environment.fleet.faults
        faults.put(fault)
        started = time.monotonic()
        await self._environment.until(lambda: True, 0)
        for step in CHANGE_DOCUMENT if seen.held else ():  # ends long polls, so that they repeat
            await self._run_step(step)
        if not await self._environment.until(lambda: seen.faults > 0, allowances.POLL_SECONDS):
            raise TrapFailed(_describe_silence(Counter(), allowances.POLL_SECONDS))
        met_at = time.monotonic()

        def enough() -> bool:
            now = time.monotonic()
            enough_faults = seen.faults >= allowances.FAULTS_MET
            return (enough_faults and now - started >= allowances.FAULT_SECONDS) or (
                now - met_at >= allowances.FAULT_LONGEST_SECONDS
            )

        await self._environment.until(enough, 2 * allowances.FAULT_LONGEST_SECONDS)
        faults.clear()
        self._notes.append(f"met the fault {_times(seen.faults)} and kept polling")

    async def _disable_feature(self) -> None:
        before = self._environment.seen.disabled
        for _ in range(_DISABLE_ATTEMPTS):  # a poll at that moment keeps it enabled
            await self._environment.fleet.advance(allowances.SILENCE_SECONDS)
            if await self._environment.until(lambda: self._environment.seen.disabled > before, 0):
                break
        else:
            raise TrapFailed("polled so often that the feature could not be disabled")
        await self._environment.fleet.submit(Poll(scope=SCOPE, actor="machine"))

    async def _lose_power(self, event: ObservedEvent | None) -> None:
        if event is not None:
            await self._expect_read(event)
        if event is None or not event.started:
            await self._environment.lose_power()

    async def _power_on(self) -> None:
        if not self._environment.is_on:
            self._environment.start()
            await self._expect_polls(1, allowances.START_SECONDS)

    # --- Expectations ---

    async def _expect_polls(self, times: int, seconds: float) -> None:
        """Wait for polls. A long poll that waits counts as one."""
        seen = self._environment.seen
        for _ in range(times):
            before = seen.polls

            def polls(before: int = before) -> bool:
                return seen.polls > before or seen.held > 0

            refused = seen.refused
            if not await self._environment.until(polls, seconds):
                raise TrapFailed(_describe_silence(seen.refused - refused, seconds))

    async def _expect_read(self, event: ObservedEvent) -> None:
        left = await self._notice_left(event)
        longest = min(allowances.POLL_SECONDS, left)
        seen, refused = self._environment.seen, self._environment.seen.refused

        def read_or_hidden() -> bool:
            return event.read_at is not None or seen.polls - event.polls >= allowances.UNSHOWN_POLLS

        await self._environment.until(read_or_hidden, longest)
        if event.read_at is not None:
            return
        polls = seen.polls - event.polls
        if polls == 0:
            silence = _describe_silence(seen.refused - refused, longest)
            raise TrapFailed(f"{silence} and missed the notice")
        if polls == 1:  # it may have been answered before the event was in the document
            raise TrapFailed(f"polled once in {longest:.0f} s and missed the notice")
        self.ignored.add(event.type)
        raise TrapFailed(
            f"polled {_times(polls)} with an api-version that does not show {event.type} events"
        )

    async def _notice_left(self, observed: ObservedEvent) -> float:
        """Return the seconds until it is too late to read the event."""
        event = (await self._environment.scope()).events.get(observed.id)
        if event is None or observed.started:
            return allowances.POLL_SECONDS
        return event.not_before - self._environment.fleet.clock.now() - allowances.LEFT_SECONDS

    async def _expect_approval(self, event: ObservedEvent) -> None:
        await self._expect_read(event)
        if not self._options.approves:
            await self._approve(event)
            return
        seen, seconds = self._environment.seen, self._options.prepare_seconds
        polls = seen.polls
        await self._environment.until(lambda: bool(event.approved_by) or event.started, seconds)
        if event.approved_by:
            self._approval_times.append(f"{approval_seconds(event):.1f} s")
            return
        if reasons := seen.refused_approvals[event.refused :]:
            raise TrapFailed(f"its approval of a {event.type} event was refused: {reasons[-1]}")
        self.ignored.add(event.type)
        times = _times(seen.polls - polls + 1)
        limit = "before NotBefore" if event.started else f"within {seconds:g} s"
        raise TrapFailed(
            f"read its own {event.type} event ({times}) but did not approve it {limit}"
        )

    async def _expect_no_approval(self, event: ObservedEvent, seconds: float) -> None:
        await self._expect_read(event)
        sudden, seen = event.started and not event.approved_by, self._environment.seen
        await self._environment.until(lambda: sudden and seen.approvals > event.approvals, seconds)
        if sudden and seen.approvals > event.approvals:
            raise TrapFailed(
                f"approved the event of {' and '.join(event.resources)}, which had started"
            )
        owner = "" if ME in event.resources else ", which is another machine,"
        self._notes.append(
            f"read the event of {' and '.join(event.resources)}{owner} and did not approve it"
        )

    async def _expect_one_approval(self, event: ObservedEvent) -> None:
        await self._expect_approval(event)
        started, before = time.monotonic(), self._environment.seen.approvals

        def too_often() -> bool:
            most = allowances.REPEATS + (time.monotonic() - started) / allowances.REPEAT_SECONDS
            return self._environment.seen.approvals - before > most

        exceeded = await self._environment.until(too_often, allowances.REPEAT_WINDOW_SECONDS)
        times = self._environment.seen.approvals - before + 1
        text = f"approved the same event {_times(times)} in {time.monotonic() - started:.0f} s"
        if exceeded:
            raise TrapFailed(text)
        self._notes.append(text)

    async def _await_end(self, event: ObservedEvent) -> None:
        if not await self._environment.until(
            lambda: event.over or event.carried_out, allowances.OVER_SECONDS
        ):
            raise TrapFailed(
                f"its machine was not back within {allowances.OVER_SECONDS:g} s of the event"
            )
        await self._expect_polls(1, allowances.START_SECONDS)

    async def _expect_machine_gone(self, event: ObservedEvent) -> None:
        await self._environment.until(lambda: event.over, allowances.OVER_SECONDS, ends=True)
        at = event.read_at or event.at
        self._notes.append(f"read the event {max(0.0, at - event.at):.1f} s after it was scheduled")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _describe_silence(refused: Counter[str], seconds: float) -> str:
    if not refused:
        return f"did not poll for {seconds:.0f} s"
    reason, number = refused.most_common(1)[0]
    return f"got no document for {seconds:.0f} s; was refused {_times(number)} ({reason})"


def _command(step: AnnounceEvent, operation: str) -> Command:
    if step.action in OF_A_SET:
        ids = tuple(int(name.rpartition("_")[2]) for name in step.machines)
        return OperateInstances(
            set=SET, operation=operation, action=step.action, instances=ids, actor="user"
        )
    if step.action is Maintain:
        return Maintain(
            scope=SCOPE,
            operation=operation,
            machines=step.machines,
            kind=step.kind or ImpactKind.FREEZE,
            duration_seconds=limits.UNKNOWN_DURATION if step.seconds is None else step.seconds,
            actor="platform",
        )
    return step.action(scope=SCOPE, operation=operation, machines=step.machines, actor="platform")
