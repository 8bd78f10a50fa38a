"""The scenario runner of the console, which must not import `fairwarning.testing` itself."""

from fairwarning.console.api import responses
from fairwarning.testing.scenarios import find, run_scenario, shipped


class BundledScenarios:
    """The scenarios that ship, each run in its own cloud."""

    def list_scenarios(self) -> list[responses.ScenarioInfo]:
        """Return the scenarios that ship."""
        return [
            responses.ScenarioInfo(name=scenario.name, about=scenario.about, text=scenario.text)
            for scenario in shipped()
        ]

    def run(self, name: str) -> responses.ScenarioResultInfo:
        """Run a scenario in virtual time."""
        result = run_scenario(find(name))
        difference = result.difference
        return responses.ScenarioResultInfo(
            name=name,
            passed=result.passed,
            steps=len(result.scenario.steps),
            seconds=result.seconds,
            real_seconds=round(result.real_seconds, 3),
            difference="\n".join(difference.lines()) if difference else "",
        )
