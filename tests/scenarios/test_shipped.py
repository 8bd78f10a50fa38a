"""The scenarios that ship: each passes, and fails if any expected value is changed."""

import pytest

from fairwarning.testing.scenarios import Scenario, ScenarioProgress, run_scenario, shipped
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.expectations import SUBJECTS

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
