"""Scenarios: timelines in TOML that pass or fail (O6). docs/scenarios.md describes the format.

`scenario` reads the files, `run` runs them, `actions` has the actions of a step and `expectations`
what a step can expect. The TOML files in this package are the scenarios that ship.
"""

from fairwarning.testing.scenarios.run import (
    Difference,
    ScenarioProgress,
    ScenarioResult,
    run_scenario,
)
from fairwarning.testing.scenarios.scenario import Scenario, ScenarioStep, find, read, shipped

__all__ = [
    "Difference",
    "Scenario",
    "ScenarioProgress",
    "ScenarioResult",
    "ScenarioStep",
    "find",
    "read",
    "run_scenario",
    "shipped",
]
