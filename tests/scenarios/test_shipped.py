"""The scenarios that ship: each passes, and fails if any expected value is changed."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairwarning.core.record import changed
from fairwarning.testing.scenarios import Scenario, ScenarioProgress, run_scenario, shipped
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.expectations import SUBJECTS
from fairwarning.testing.scenarios.run import RATE_MAX
from tests.campaigns import split

pytestmark = pytest.mark.spec("O6")

SHIPPED = shipped()
each = pytest.mark.parametrize("scenario", SHIPPED, ids=[scenario.name for scenario in SHIPPED])


def test_the_names_of_the_scenarios() -> None:
    """Nine scenarios ship, each with a description."""
    assert [scenario.name for scenario in SHIPPED] == [
        "cancelled-maintenance",
        "degraded-hardware",
        "hardware-failure",
        "host-update",
        "live-migration",
        "scale-in",
        "spot-eviction",
        "user-reboot",
        "user-redeploy",
    ]
    assert all(scenario.about for scenario in SHIPPED)


@each
def test_it_passes(scenario: Scenario) -> None:
    """All its steps pass in virtual time."""
    reports: list[ScenarioProgress] = []
    result = run_scenario(scenario, reports.append)
    print(result.line)  # noqa: T201  (how long it took)
    assert result.passed, "\n".join(result.difference.lines() if result.difference else ())
    assert (result.done, result.seconds) == (len(scenario.steps), scenario.seconds)
    assert [report.step for report in reports] == list(scenario.steps)
    assert [report.seconds for report in reports] == [step.at_seconds for step in scenario.steps]


@pytest.mark.campaign
@pytest.mark.spec("O6", "E11")
def test_it_passes_in_real_time() -> None:
    """The scenario passes at the pace of the real clock.

    This is the only test that waits (40 seconds), because it proves that real time passes.
    """
    (scenario,) = [scenario for scenario in SHIPPED if scenario.name == "spot-eviction"]
    seconds: list[int] = []
    result = run_scenario(scenario, lambda progress: seconds.append(progress.seconds), real=True)
    assert result.passed
    assert result.real_seconds >= scenario.seconds == 40
    assert sorted(set(seconds)) == list(range(41))  # reported every second


@each
def test_it_passes_faster_than_real_time(scenario: Scenario) -> None:
    """Steps run at exactly their times at any rate, so expectations need no tolerance."""
    rate = min(scenario.seconds / 0.5, RATE_MAX)
    result = run_scenario(scenario, real=True, rate=rate)
    assert result.passed
    assert result.real_seconds >= scenario.seconds / rate


# --- Every expectation matters --------------------------------------------------------------------

_OTHER_VALUES = {
    "type": ("Freeze", "Reboot"),
    "status": ("Started", "Scheduled", "InProgress", "Running"),
    "source": ("User", "Platform"),
    "power": ("running", "stopped"),
    "answer": ("500", "404"),
    "sees": ((), ("Freeze", "Reboot")),
    "history": (("start",), ("freeze", "start")),
    "resources": (("other",), ("another",)),
    "machines": (("other",), 99),
    "description": ("Otherwise.", ""),
    "not_before": (1, 2),
    "duration": (1, 2),
    "event": ("otherwise", "quite"),
}


def other_value(key: str, value: Any) -> Any:  # noqa: ANN401  (any expected value)
    """Return another valid value for an expectation."""
    if isinstance(value, bool):
        return not value
    if key in _OTHER_VALUES:
        return next(other for other in _OTHER_VALUES[key] if other != value)
    return value + 1


def mutants(scenario: Scenario) -> Iterator[tuple[str, int, Scenario]]:
    """Yield the scenario up to a step, with one value of that step changed, and its name."""
    for number, step in enumerate(scenario.steps):
        before = scenario.steps[:number]
        if step.do:
            refused = "" if step.refused else "SomethingElse"
            last = changed(step, refused=refused)
            yield f"{step.place}, do", number, changed(scenario, steps=(*before, last))
        for place, expectation in enumerate(step.expect):
            for key, value in expectation.expected.items():
                if key == "version" or (key == "event" and not is_known(before, value)):
                    continue
                expected = {**expectation.expected, key: other_value(key, value)}
                wrong = changed(expectation, expected=expected)
                expect = (*step.expect[:place], wrong, *step.expect[place + 1 :])
                steps = (*before, changed(step, expect=expect))
                yield f"{step.place}, {place}, {key}", number, changed(scenario, steps=steps)


def is_known(steps: tuple[Any, ...], label: object) -> bool:
    """Return whether a step has used this label; a new label matches any event."""
    return any(
        expectation.expected.get("event") == label for step in steps for expectation in step.expect
    )


@pytest.mark.parametrize("scenario", split(SHIPPED[::-1], 1), ids=lambda scenario: scenario.name)
def test_every_changed_value_is_detected(scenario: Scenario) -> None:
    """With any expected value changed, the run fails at that step."""
    count = 0
    for name, number, mutant in mutants(scenario):
        result = run_scenario(mutant)
        assert result.difference is not None, name
        assert result.difference.step.number == number + 1, name
        count += 1
    print(f"{scenario.name}: {count} changes")  # noqa: T201  (how many were tried)
    assert count > 30


def test_they_use_nearly_every_action_and_expectation() -> None:
    """The scenarios are examples of all keys, except for three actions."""
    steps = [step for scenario in SHIPPED for step in scenario.steps]
    assert ACTIONS.keys() - {step.do for step in steps} == {"freeze", "recommend", "clear_faults"}
    used = {
        (expectation.subject, key)
        for step in steps
        for expectation in step.expect
        for key in expectation.expected
    }
    assert {(subject, key) for subject, keys in SUBJECTS.items() for key in keys} == used
