"""Scenarios: a timeline in TOML, played to a verdict (O6). docs/scenarios.md shows them whole.

`scenario` reads them, `play` plays them; what a step may do is in `actions`, what it may expect in
`expectations`. The files beside these are the scenarios that ship.
"""

from fairwarning.testing.scenarios.play import Difference, ScenarioProgress, ScenarioResult, play
from fairwarning.testing.scenarios.scenario import Scenario, ScenarioStep, find, read, shipped

__all__ = [
    "Difference",
    "Scenario",
    "ScenarioProgress",
    "ScenarioResult",
    "ScenarioStep",
    "find",
    "play",
    "read",
    "shipped",
]
