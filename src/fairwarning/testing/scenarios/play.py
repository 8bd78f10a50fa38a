"""Plays a scenario in a cloud of its own, to a verdict. It stops at the first difference.

Time is virtual also when it is played in real time: it is then let pass a little at a time, at the
pace of a real clock. So a step comes at exactly its moment either way, and no expectation needs a
tolerance.
"""

import json
import time
from collections.abc import Callable, Iterator
from math import ceil

from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.record import record
from fairwarning.core.times import parse_date
from fairwarning.testing.scenarios import expectations, values
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.scenario import Scenario, ScenarioStep
from fairwarning.testing.scenarios.stage import ScenarioStage

_JOURNAL_LINES = 12  # that a difference shows
_TICK_SECONDS = 0.1  # real ones, at least, between two moves of time
RATE_MAX = 1_000_000.0


@record
class ScenarioProgress:
    """How far it is: before each step, and as real time passes."""

    scenario: Scenario
    step: ScenarioStep  # the one that comes next
    seconds: int  # of virtual time

    @property
    def clock(self) -> str:
        """The virtual time, as scenarios write it."""
        return values.spelled(self.seconds)


Report = Callable[[ScenarioProgress], None]


@record
class Difference:
    """The first thing that was not as the scenario says."""

    step: ScenarioStep
    place: str  # in the file
    expected: str
    found: str
    document: tuple[str, ...]  # what the machine in question reads: its number, then each event
    journal: tuple[str, ...]  # the last lines

    def lines(self) -> Iterator[str]:
        """All of it, as text."""
        yield self.place
        yield f"  at        {values.spelled(self.step.at_seconds)}"
        yield f"  expected  {self.expected}"
        yield f"  found     {self.found}"
        for heading, lines in (("document", self.document), ("journal", self.journal)):
            for number, line in enumerate(lines):
                yield f"  {'' if number else heading:<8}  {line}"


@record
class ScenarioResult:
    """What came of it."""

    scenario: Scenario
    done: int  # steps that went as the scenario says
    seconds: int  # of virtual time
    real_seconds: float
    difference: Difference | None = None

    @property
    def passed(self) -> bool:
        """Whether all went as the scenario says."""
        return self.difference is None

    @property
    def line(self) -> str:
        """It in a line."""
        steps = len(self.scenario.steps)
        far = f"{steps} steps" if self.passed else f"step {self.done + 1} of {steps}"
        took = f"{values.spelled(self.seconds)} of virtual time in {self.real_seconds:.2f} s"
        return f"{'passed' if self.passed else 'FAILED'}  {self.scenario.name}: {far}, {took}"


def play(
    scenario: Scenario, report: Report | None = None, *, real: bool = False, rate: float = 1.0
) -> ScenarioResult:
    """Play it as fast as may be; if `real`, in real time, or `rate` times as fast."""
    if not 0 < rate <= RATE_MAX:
        raise Refused("BadRate", f"rate must be above 0 and at most {RATE_MAX:g}, not {rate:g}")
    began = time.monotonic()
    done, difference = 0, None
    with ScenarioStage(scenario.cloud, scenario.fleet, scenario.silent) as stage:
        pace = _Pace(stage, rate if real else 0.0)
        for step in scenario.steps:
            for seconds in pace.until(step.at_seconds):
                if report:
                    report(ScenarioProgress(scenario=scenario, step=step, seconds=seconds))
            difference = _difference(stage, scenario, step)
            if difference:
                break
            done += 1
        seconds = stage.seconds
    return ScenarioResult(
        scenario=scenario,
        done=done,
        seconds=seconds,
        real_seconds=time.monotonic() - began,
        difference=difference,
    )


class _Pace:
    """Lets a stage's time pass: at once, or at a multiple of real time."""

    def __init__(self, stage: ScenarioStage, rate: float) -> None:
        self._stage = stage
        self._rate = rate  # 0: at once
        self._tick = max(1, ceil(rate * _TICK_SECONDS))
        self._began = time.monotonic()

    def until(self, seconds: int) -> Iterator[int]:
        """Return when it is then; every moment at which there is something to show."""
        if not self._rate:
            self._stage.advance(seconds)
        yield self._stage.seconds
        while self._stage.seconds < seconds:
            goal = min(seconds, self._stage.seconds + self._tick)
            time.sleep(max(0.0, self._began + goal / self._rate - time.monotonic()))
            self._stage.advance(goal)
            yield goal


# --- One step -----------------------------------------------------------------------------------


def _difference(stage: ScenarioStage, scenario: Scenario, step: ScenarioStep) -> Difference | None:
    """Do or look at it, and tell what was not as it should be."""
    if step.do:
        return _done(stage, scenario, step)
    for expectation in step.expect:
        if miss := expectations.miss(stage, expectation):
            place = f"{scenario.source}: {step.place}, {expectation.place}, {miss.key}"
            whose = f"{expectation.subject} {miss.name}: {miss.key}"
            whom = miss.name if expectation.subject == "machine" else ""
            return _told(stage, step, place, (f"{whose} {miss.expected}", miss.found), whom)
    return None


def _done(stage: ScenarioStage, scenario: Scenario, step: ScenarioStep) -> Difference | None:
    wanted = f"refused: {step.refused}" if step.refused else "accepted"
    try:
        operations = ACTIONS[step.do].act(stage, step.given)
    except FairwarningError as error:
        if error.code == step.refused:
            return None
        found = f"refused: {error.code}, {error.message}"
    else:
        if step.label:
            stage.operations[step.label] = list(operations)
        if not step.refused:
            return None
        found = "accepted"
    place = f"{scenario.source}: {step.place}, do"
    whom = next(iter(step.given.get("machine", ())), "")
    return _told(stage, step, place, (f"{step.do} is {wanted}", found), whom)


def _told(
    stage: ScenarioStage, step: ScenarioStep, place: str, difference: tuple[str, str], machine: str
) -> Difference:
    expected, found = difference
    lines = stage.cloud.journal().splitlines()  # before the machine is made to ask
    return Difference(
        step=step,
        place=place,
        expected=expected,
        found=found,
        document=_document(stage, machine) if machine else (),
        journal=tuple(_dated(stage, line) for line in lines[-_JOURNAL_LINES:]),
    )


def _document(stage: ScenarioStage, name: str) -> tuple[str, ...]:
    try:
        read = stage.machine(name).document()
    except (FairwarningError, ValueError) as error:
        return (str(error),)
    events = (json.dumps(event, separators=(",", ":")) for event in read["Events"])
    return (f"DocumentIncarnation {read['DocumentIncarnation']}", *events)


def _dated(stage: ScenarioStage, line: str) -> str:
    """A line of the journal with the time as the scenario has it."""
    moment, _, told = line.partition(" ")
    return f"{values.spelled(stage.since(parse_date(moment))):>8}  {told}"
