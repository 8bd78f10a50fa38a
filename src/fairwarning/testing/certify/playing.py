"""Plays one trap with one program: carries each step out, and tells what was seen."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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
from fairwarning.service.faults import FaultRule
from fairwarning.testing.certify import allowances
from fairwarning.testing.certify.judging import judge, took
from fairwarning.testing.certify.stage import (
    SCOPE,
    SET,
    CertifyEnvironment,
    ObservedEvent,
    TrapFailed,
)
from fairwarning.testing.certify.steps import (
    ME,
    STIR,
    AnnounceEvent,
    AwaitEventEnd,
    CancelAnnouncedEvent,
    DisableFeature,
    ExpectApproval,
    ExpectMachineGone,
    ExpectNoApproval,
    ExpectOneApproval,
    ExpectPolls,
    ExpectRead,
    InjectFault,
    LosePower,
    PowerOn,
    StartEvent,
    Step,
)


@dataclass(frozen=True, slots=True)
class CertifyOptions:
    """What is run, and what is asked of it."""

    command: tuple[str, ...]
    approves: bool = True
    prepare_seconds: float = allowances.PREPARE_SECONDS
    jobs: int = 16


class TrapRun:
    """One trap with one program."""

    def __init__(self, stage: CertifyEnvironment, terms: CertifyOptions) -> None:
        self._stage = stage
        self._terms = terms
        self._told: dict[str, ObservedEvent] = {}  # by the name that steps have for it
        self._words: list[str] = []
        self._took: list[str] = []  # from reading of an event to approving it
        stage.rules.append(lambda: judge(stage.seen))

    async def run(self, steps: Sequence[Step]) -> str:
        """From its first request to the last step; what was seen. Raises Trapped."""
        seen = self._stage.seen
        if not await self._stage.until(lambda: seen.polls > 0, allowances.START_SECONDS):
            raise TrapFailed(_silence(seen.refused, allowances.START_SECONDS))
        for step in steps:
            await self._do(step)
        judge(self._stage.seen)
        if self._took:
            self._words.append(f"it approved {' and '.join(self._took)} after reading of it")
        return "; ".join(self._words) or "it went on asking"

    @property
    def silent(self) -> bool | None:
        """Whether it approved no event of its own; None if it read of none, or need not."""
        own = [told for told in self._told.values() if told.resources == (ME,) and told.read_at]
        if not own or not self._terms.approves:
            return None
        return not any(told.approved_by == ME for told in own)

    async def _do(self, step: Step) -> None:  # noqa: C901  (a line each)
        match step:
            case AnnounceEvent():
                await self._announce(step)
            case ExpectPolls(times):
                await self._asks(times, allowances.ASK_SECONDS)
            case ExpectRead(event):
                await self._reads(self._told[event])
            case ExpectApproval(event):
                await self._approves(self._told[event])
            case ExpectNoApproval(event, seconds):
                await self._leaves(self._told[event], seconds)
            case ExpectOneApproval(event):
                await self._approves_once(self._told[event])
            case StartEvent(event):
                await self._begins(self._told[event])
            case AwaitEventEnd(event):
                await self._ends(self._told[event])
            case ExpectMachineGone(event):
                await self._vanishes(self._told[event])
            case CancelAnnouncedEvent(event):
                await self._call_off(self._told[event])
            case InjectFault(kind, delay):
                await self._misbehave(FaultRule(kind=kind, delay_seconds=delay))
            case DisableFeature():
                await self._forget()
            case LosePower(event):
                await self._lose_power(self._told.get(event))
            case PowerOn():
                await self._power_on()

    # --- What happens ---

    async def _announce(self, step: AnnounceEvent) -> None:
        operation = self._stage.operation()
        told = await self._stage.announce(_command(step, operation), operation)
        self._told[step.event] = told

    async def _call_off(self, told: ObservedEvent) -> None:
        try:
            await self._stage.fleet.submit(Cancel(scope=SCOPE, event=told.id))
        except Conflict:
            raise TrapFailed("it approved what it should have left to others") from None

    async def _begins(self, told: ObservedEvent) -> None:
        await self._reads(told)
        await self._stage.until(lambda: bool(told.approved_by), allowances.LEAVE_SECONDS)
        await self._approve(told)

    async def _approve(self, told: ObservedEvent) -> None:
        if not told.approved_by and not told.over:
            await self._stage.fleet.submit(Approve(scope=SCOPE, events=(told.id,)))

    async def _misbehave(self, fault: FaultRule) -> None:
        """Until enough requests have met it; see the allowances."""
        seen, faults = self._stage.seen, self._stage.fleet.faults
        faults.put(fault)
        began = time.monotonic()
        await self._stage.until(lambda: True, 0)
        for step in STIR if seen.held else ():  # a request that is held meets it when it is renewed
            await self._do(step)
        if not await self._stage.until(lambda: seen.faults > 0, allowances.ASK_SECONDS):
            raise TrapFailed(_silence(Counter(), allowances.ASK_SECONDS))
        met_at = time.monotonic()

        def enough() -> bool:
            now = time.monotonic()
            often = seen.faults >= allowances.FAULTS_MET
            return (often and now - began >= allowances.FAULT_SECONDS) or (
                now - met_at >= allowances.FAULT_LONGEST_SECONDS
            )

        await self._stage.until(enough, 2 * allowances.FAULT_LONGEST_SECONDS)
        faults.clear()
        self._words.append(f"it met this {_times(seen.faults)}, and went on")

    async def _forget(self) -> None:
        before = self._stage.seen.disabled
        while self._stage.seen.disabled == before:  # who asks at that very moment keeps it on
            await self._stage.fleet.advance(allowances.SILENCE_SECONDS)
            await self._stage.until(lambda: True, 0)
        await self._stage.fleet.submit(Poll(scope=SCOPE, actor="machine"))

    async def _lose_power(self, told: ObservedEvent | None) -> None:
        if told is not None:
            await self._reads(told)
        if told is None or not told.started:
            await self._stage.lose_power()

    async def _power_on(self) -> None:
        if not self._stage.is_on:
            self._stage.start()
            await self._asks(1, allowances.START_SECONDS)

    # --- What is expected ---

    async def _asks(self, times: int, seconds: float) -> None:
        """A request that is held counts: it asks all the time."""
        seen = self._stage.seen
        for _ in range(times):
            before = seen.polls

            def asks(before: int = before) -> bool:
                return seen.polls > before or seen.held > 0

            refused = seen.refused
            if not await self._stage.until(asks, seconds):
                raise TrapFailed(_silence(seen.refused - refused, seconds))

    async def _reads(self, told: ObservedEvent) -> None:
        left = await self._notice_left(told)
        longest = min(allowances.ASK_SECONDS, left)
        if not await self._stage.until(lambda: told.read_at is not None, longest):
            raise TrapFailed(
                f"it asked for nothing in {longest:.0f} s, and the notice passed unread"
            )

    async def _notice_left(self, told: ObservedEvent) -> float:
        """Seconds in which to read of it, or it is too late to do anything."""
        event = (await self._stage.scope()).events.get(told.id)
        if event is None or told.started:
            return allowances.ASK_SECONDS
        return event.not_before - self._stage.fleet.clock.now() - allowances.LEFT_SECONDS

    async def _approves(self, told: ObservedEvent) -> None:
        await self._reads(told)
        if not self._terms.approves:
            await self._approve(told)
            return
        seen, asked = self._stage.seen, self._stage.seen.polls
        seconds = self._terms.prepare_seconds
        if not await self._stage.until(lambda: bool(told.approved_by), seconds):
            times = _times(seen.polls - asked + 1)
            raise TrapFailed(
                f"it read of its own event ({times}) and did not approve it in {seconds:g} s"
            )
        self._took.append(f"{took(told):.1f} s")

    async def _leaves(self, told: ObservedEvent, seconds: float) -> None:
        await self._reads(told)
        await self._stage.until(lambda: False, seconds)
        whose = "" if ME in told.resources else ", which is not its own"
        self._words.append(
            f"it read of the event of {' and '.join(told.resources)}{whose}, and left it"
        )

    async def _approves_once(self, told: ObservedEvent) -> None:
        await self._reads(told)
        if not await self._stage.until(lambda: bool(told.approved_by), self._terms.prepare_seconds):
            self._words.append("it did not approve, so it had nothing to repeat")
            return
        began, before = time.monotonic(), self._stage.seen.approvals

        def too_often() -> bool:
            most = allowances.REPEATS + (time.monotonic() - began) / allowances.REPEAT_SECONDS
            return self._stage.seen.approvals - before > most

        often = await self._stage.until(too_often, allowances.QUIET_SECONDS)
        times = self._stage.seen.approvals - before + 1
        text = f"it approved the same event {_times(times)} in {time.monotonic() - began:.0f} s"
        if often:
            raise TrapFailed(text)
        self._words.append(text)

    async def _ends(self, told: ObservedEvent) -> None:
        if not await self._stage.until(lambda: told.over, allowances.OVER_SECONDS):
            raise TrapFailed(
                f"its machine was not back {allowances.OVER_SECONDS:g} s after the start"
            )
        await self._asks(1, allowances.START_SECONDS)

    async def _vanishes(self, told: ObservedEvent) -> None:
        await self._stage.until(lambda: told.over, allowances.OVER_SECONDS, ends=True)
        at = told.read_at or told.at
        self._words.append(f"it read of it {max(0.0, at - told.at):.1f} s after it was announced")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _silence(refused: Counter[str], seconds: float) -> str:
    if not refused:
        return f"it asked for nothing in {seconds:g} s"
    reason, number = refused.most_common(1)[0]
    return f"in {seconds:g} s it got no document; it was refused {_times(number)} ({reason})"


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
