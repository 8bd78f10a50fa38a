"""Runs a scenario in its own cloud, in virtual time. A run stops at the first difference."""

import json
import time
from collections.abc import Callable, Iterator

from fairwarning.core.errors import FairwarningError
from fairwarning.core.record import record
from fairwarning.core.times import parse_date
from fairwarning.testing.scenarios import expectations, values
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.environment import ScenarioEnvironment
from fairwarning.testing.scenarios.scenario import Scenario, ScenarioStep

_JOURNAL_LINES = 12  # shown in a difference


@record
class ScenarioProgress:
    """The progress of a run, reported before each step."""

    scenario: Scenario
    step: ScenarioStep  # the next step
    seconds: int  # of virtual time

    @property
    def clock(self) -> str:
        """The virtual time, in the format of scenarios."""
        return values.spelled(self.seconds)


Report = Callable[[ScenarioProgress], None]


@record
class Difference:
    """The first difference between the scenario and what happened."""

    step: ScenarioStep
    place: str  # in the file
    expected: str
    found: str
    document: tuple[str, ...]  # the document of the machine: its incarnation, then each event
    journal: tuple[str, ...]  # the last lines

    def lines(self) -> Iterator[str]:
        """Yield the difference as lines of text."""
        yield self.place
        yield f"  at        {values.spelled(self.step.at_seconds)}"
        yield f"  expected  {self.expected}"
        yield f"  found     {self.found}"
        for heading, lines in (("document", self.document), ("journal", self.journal)):
            for number, line in enumerate(lines):
                yield f"  {'' if number else heading:<8}  {line}"


@record
class ScenarioResult:
    """The result of a run."""

    scenario: Scenario
    done: int  # steps that passed
    seconds: int  # of virtual time
    real_seconds: float
    difference: Difference | None = None

    @property
    def passed(self) -> bool:
        """Whether every step passed."""
        return self.difference is None

    @property
    def line(self) -> str:
        """The result in one line."""
        steps = len(self.scenario.steps)
        progress = f"{steps} steps" if self.passed else f"step {self.done + 1} of {steps}"
        times = f"{values.spelled(self.seconds)} of virtual time in {self.real_seconds:.2f} s"
        word = "passed" if self.passed else "FAILED"
        return f"{word}  {self.scenario.name}: {progress}, {times}"


def run_scenario(scenario: Scenario, report: Report | None = None) -> ScenarioResult:
    """Run a scenario in virtual time, as fast as possible."""
    started = time.monotonic()
    done, difference = 0, None
    with ScenarioEnvironment(scenario.cloud, scenario.fleet, scenario.silent) as environment:
        for step in scenario.steps:
            environment.advance(step.at_seconds)
            if report:
                report(ScenarioProgress(scenario=scenario, step=step, seconds=environment.seconds))
            difference = _run_step(environment, scenario, step)
            if difference:
                break
            done += 1
        seconds = environment.seconds
    return ScenarioResult(
        scenario=scenario,
        done=done,
        seconds=seconds,
        real_seconds=time.monotonic() - started,
        difference=difference,
    )


# --- One step -----------------------------------------------------------------------------------


def _run_step(
    environment: ScenarioEnvironment, scenario: Scenario, step: ScenarioStep
) -> Difference | None:
    """Run the action or check the expectations of a step; return the first difference."""
    if step.do:
        return _run_action(environment, scenario, step)
    for expectation in step.expect:
        if unmet := expectations.first_unmet(environment, expectation):
            place = f"{scenario.source}: {step.place}, {expectation.place}, {unmet.key}"
            subject = f"{expectation.subject} {unmet.name}: {unmet.key}"
            machine = unmet.name if expectation.subject == "machine" else ""
            difference = f"{subject} {unmet.expected}", unmet.found
            return _build_difference(environment, step, place, difference, machine)
    return None


def _run_action(
    environment: ScenarioEnvironment, scenario: Scenario, step: ScenarioStep
) -> Difference | None:
    expected = f"refused: {step.refused}" if step.refused else "accepted"
    try:
        operations = ACTIONS[step.do].act(environment, step.arguments)
    except FairwarningError as error:
        if error.code == step.refused:
            return None
        found = f"refused: {error.code}, {error.message}"
    else:
        if step.label:
            environment.operations[step.label] = list(operations)
        if not step.refused:
            return None
        found = "accepted"
    place = f"{scenario.source}: {step.place}, do"
    machine = next(iter(step.arguments.get("machine", ())), "")
    return _build_difference(environment, step, place, (f"{step.do} is {expected}", found), machine)


def _build_difference(
    environment: ScenarioEnvironment,
    step: ScenarioStep,
    place: str,
    difference: tuple[str, str],
    machine: str,
) -> Difference:
    expected, found = difference
    lines = environment.cloud.journal().splitlines()  # before _document polls as the machine
    return Difference(
        step=step,
        place=place,
        expected=expected,
        found=found,
        document=_document(environment, machine) if machine else (),
        journal=tuple(_with_scenario_time(environment, line) for line in lines[-_JOURNAL_LINES:]),
    )


def _document(environment: ScenarioEnvironment, name: str) -> tuple[str, ...]:
    try:
        document = environment.machine(name).document()
    except (FairwarningError, ValueError) as error:
        return (str(error),)
    events = (json.dumps(event, separators=(",", ":")) for event in document["Events"])
    return (f"DocumentIncarnation {document['DocumentIncarnation']}", *events)


def _with_scenario_time(environment: ScenarioEnvironment, line: str) -> str:
    """Replace the date of a journal line with the time of the scenario."""
    date, _, text = line.partition(" ")
    return f"{values.spelled(environment.since(parse_date(date))):>8}  {text}"
