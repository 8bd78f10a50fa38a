"""Scenarios built from the steps of a test, and the results of running them."""

from fairwarning.testing.scenarios import Difference, Scenario, ScenarioResult, read, run_scenario

FLEET = """
[[fleet.availability_set]]
name = "db"
machines = 2

[[fleet.machine]]
name = "spot"
priority = "Spot"

[[fleet.scale_set]]
name = "web"
capacity = 3
terminate_notice = "PT5M"
"""


def scenario(*steps: str, fleet: str = FLEET, head: str = "") -> Scenario:
    """Return a scenario with this fleet and these steps."""
    text = "\n".join([head, fleet, *(f"[[step]]\n{step}" for step in steps)])
    return read(text, "my.toml")


def run_steps(*steps: str, fleet: str = FLEET, head: str = "") -> ScenarioResult:
    """Run these steps."""
    return run_scenario(scenario(*steps, fleet=fleet, head=head))


def assert_passes(*steps: str, fleet: str = FLEET, head: str = "") -> None:
    """Assert that the steps pass."""
    result = run_steps(*steps, fleet=fleet, head=head)
    assert result.passed, "\n".join(result.difference.lines() if result.difference else ())
    assert result.done == len(result.scenario.steps)


def difference(*steps: str, fleet: str = FLEET, head: str = "") -> Difference:
    """Run steps that do not pass, and return the difference."""
    result = run_steps(*steps, fleet=fleet, head=head)
    assert result.difference is not None
    return result.difference
