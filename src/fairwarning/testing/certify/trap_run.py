"""The steps of traps: events and faults, and expectations; what was observed meanwhile."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from fairwarning.core import limits
from fairwarning.core.commands import (
    OF_A_SET,
    Approve,
    Cancel,
    Command,
    Maintain,
    Operate,
    OperateInstances,
    Poll,
    Restart,
)
from fairwarning.core.errors import Conflict
from fairwarning.core.model import ImpactKind
from fairwarning.machines.process.isolation import Isolation
from fairwarning.service.faults import FaultKind, FaultRule
from fairwarning.testing.certify import allowances
from fairwarning.testing.certify.allowances import approval_seconds, check_rules
from fairwarning.testing.certify.environment import (
    ME,
    OTHER,
    SCOPE,
    SET,
    CertifyEnvironment,
    ObservedEvent,
    TrapFailed,
)

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

    async def run(self, steps: Sequence["Step"]) -> str:
        """Run all steps after the first poll; describe what was observed. Raise `TrapFailed`."""
        seen = self._environment.seen
        if not await self._environment.until(lambda: seen.polls > 0, allowances.START_SECONDS):
            raise TrapFailed(_describe_silence(seen.refused, allowances.START_SECONDS))
        for step in steps:
            await step(self)
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

    # --- Actions ---

    async def announce(
        self,
        event: str = "own",
        machines: tuple[str, ...] = (ME,),
        *,
        action: type[Operate] = Restart,
        maintain: ImpactKind | None = None,
        seconds: int = limits.UNKNOWN_DURATION,
    ) -> None:
        """Schedule an event for machines, of an action or of maintenance that takes `seconds`.

        Later steps refer to it as `event`.
        """
        operation = self._environment.operation()
        command: Command
        if maintain:
            command = Maintain(
                scope=SCOPE,
                operation=operation,
                machines=machines,
                kind=maintain,
                duration_seconds=seconds,
                actor="platform",
            )
        elif action in OF_A_SET:
            ids = tuple(int(name.rpartition("_")[2]) for name in machines)
            command = OperateInstances(
                set=SET, operation=operation, action=action, instances=ids, actor="user"
            )
        else:
            command = action(scope=SCOPE, operation=operation, machines=machines, actor="platform")
        self._events[event] = await self._environment.announce(command, operation)

    async def cancel(self, event: str) -> None:
        """Cancel the event."""
        try:
            command = Cancel(scope=SCOPE, event=self._events[event].id)
            await self._environment.fleet.submit(command)
        except Conflict:
            raise TrapFailed("approved an event that also affects other machines") from None

    async def change_document(self) -> None:
        """Change the document twice, back to its old events: its incarnation grows by two."""
        await self.announce("change", (OTHER,), maintain=ImpactKind.FREEZE)
        await self.cancel("change")

    async def _approve(self, event: ObservedEvent) -> None:
        if not event.approved_by and not event.over:
            await self._environment.fleet.submit(Approve(scope=SCOPE, events=(event.id,)))

    async def fail_approvals(self) -> None:
        """Fail the next approvals of the program, each with another status."""
        self._environment.fail_approvals()

    async def inject_fault(self, kind: FaultKind, delay_seconds: float = 0.0) -> None:
        """Answer requests with a fault until enough have met it; see `allowances`."""
        seen, faults = self._environment.seen, self._environment.fleet.faults
        faults.put(FaultRule(kind=kind, delay_seconds=delay_seconds))
        started = time.monotonic()
        await self._environment.until(lambda: True, 0)
        if seen.held:
            await self.change_document()  # ends long polls, so that they repeat
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

    async def disable_feature(self) -> None:
        """Let a day pass without polls, which disables the feature; another machine enables it."""
        before = self._environment.seen.disabled
        for _ in range(_DISABLE_ATTEMPTS):  # a poll at that moment keeps it enabled
            await self._environment.fleet.advance(allowances.SILENCE_SECONDS)
            if await self._environment.until(lambda: self._environment.seen.disabled > before, 0):
                break
        else:
            raise TrapFailed("polled so often that the feature could not be disabled")
        await self._environment.fleet.submit(Poll(scope=SCOPE, actor="machine"))

    async def lose_power(self, event: str = "") -> None:
        """Kill the program without a warning, unless the event has started."""
        if event:
            await self.expect_read(event)
        if not event or not self._events[event].started:
            await self._environment.lose_power()

    async def power_on(self) -> None:
        """Start the program if it is not running, and expect a poll."""
        if not self._environment.is_on:
            self._environment.start()
            await self.expect_polls(allowances.START_SECONDS)

    # --- Expectations ---

    async def expect_polls(self, seconds: float = allowances.POLL_SECONDS) -> None:
        """Wait for a poll. A long poll that waits counts as one."""
        seen, refused = self._environment.seen, self._environment.seen.refused
        before = seen.polls
        if not await self._environment.until(lambda: seen.polls > before or seen.held > 0, seconds):
            raise TrapFailed(_describe_silence(seen.refused - refused, seconds))

    async def expect_read(self, name: str) -> ObservedEvent:
        """Expect that the program reads the event in time; return the event."""
        event = self._events[name]
        left = await self._notice_left(event)
        longest = min(allowances.POLL_SECONDS, left)
        seen, refused = self._environment.seen, self._environment.seen.refused

        def read_or_hidden() -> bool:
            return event.read_at is not None or seen.polls - event.polls >= allowances.UNSHOWN_POLLS

        await self._environment.until(read_or_hidden, longest)
        if event.read_at is not None:
            return event
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

    async def expect_approval(self, name: str = "own") -> None:
        """Expect that the program approves the event in time."""
        event = await self.expect_read(name)
        if not self._options.approves:
            await self._approve(event)
            return
        seen, seconds = self._environment.seen, self._options.prepare_seconds
        polls = seen.polls
        await self._until_approved(event)
        failed = " and ".join(str(status) for status in seen.failed_approvals)
        if event.approved_by:
            self._approval_times.append(f"{approval_seconds(event):.1f} s")
            self._notes += [f"repeated its approval after {failed}"] if failed else []
            return
        if failed:
            raise TrapFailed(f"did not repeat its approval within {seconds:g} s after {failed}")
        if reasons := seen.refused_approvals[event.refused :]:
            raise TrapFailed(f"its approval of a {event.type} event was refused: {reasons[-1]}")
        self.ignored.add(event.type)
        times = _times(seen.polls - polls + 1)
        limit = "before NotBefore" if event.started else f"within {seconds:g} s"
        raise TrapFailed(
            f"read its own {event.type} event ({times}) but did not approve it {limit}"
        )

    async def _until_approved(self, event: ObservedEvent) -> None:
        """Wait as long as the program may prepare; after a failed approval, as long again."""
        failed = self._environment.seen.failed_approvals
        before = len(failed)

        def is_over() -> bool:
            return bool(event.approved_by) or event.started or len(failed) > before

        await self._environment.until(is_over, self._options.prepare_seconds)
        if len(failed) > before:
            await self._until_approved(event)

    async def expect_no_approval(self, name: str, seconds: float | None = None) -> None:
        """Expect that the program reads the event and does not approve it.

        It has `seconds` for it, or as long as it may prepare.
        """
        event = await self.expect_read(name)
        longest = self._options.prepare_seconds if seconds is None else seconds
        sudden, seen = event.started and not event.approved_by, self._environment.seen
        await self._environment.until(lambda: sudden and seen.approvals > event.approvals, longest)
        if sudden and seen.approvals > event.approvals:
            raise TrapFailed(
                f"approved the event of {' and '.join(event.resources)}, which had started"
            )
        owner = "" if ME in event.resources else ", which is another machine,"
        self._notes.append(
            f"read the event of {' and '.join(event.resources)}{owner} and did not approve it"
        )

    async def expect_one_approval(self) -> None:
        """Expect that the program approves its unchanged event, and not again and again."""
        await self.expect_approval()
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

    async def await_end(self, name: str = "own") -> None:
        """Wait until the machine is back after the event and the program polls again."""
        event = self._events[name]
        if not await self._environment.until(
            lambda: event.over or event.carried_out, allowances.OVER_SECONDS
        ):
            raise TrapFailed(
                f"its machine was not back within {allowances.OVER_SECONDS:g} s of the event"
            )
        await self.expect_polls(allowances.START_SECONDS)

    async def expect_machine_gone(self) -> None:
        """Wait until the program's own event is over, with its machine."""
        event = self._events["own"]
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


Step = Callable[[TrapRun], Awaitable[object]]
"""A step of a trap: a method of a run."""
