"""Scenarios built from the steps that a test writes, and what comes of playing them."""

from fairwarning.testing.scenarios import Difference, Scenario, ScenarioResult, play, read

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
    """One with this fleet, and these steps."""
    text = "\n".join([head, fleet, *(f"[[step]]\n{step}" for step in steps)])
    return read(text, "my.toml")


def verdict(*steps: str, fleet: str = FLEET, head: str = "") -> ScenarioResult:
    """What comes of these steps."""
    return play(scenario(*steps, fleet=fleet, head=head))


def passes(*steps: str, fleet: str = FLEET, head: str = "") -> None:
    """It goes as it says."""
    found = verdict(*steps, fleet=fleet, head=head)
    assert found.passed, "\n".join(found.difference.lines() if found.difference else ())
    assert found.done == len(found.scenario.steps)


def difference(*steps: str, fleet: str = FLEET, head: str = "") -> Difference:
    """It does not, and this is what is told."""
    found = verdict(*steps, fleet=fleet, head=head).difference
    assert found is not None
    return found
