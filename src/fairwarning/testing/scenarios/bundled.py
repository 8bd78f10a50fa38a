"""Scenarios for the console, which may not know where they are played."""

from fairwarning.console.api import responses
from fairwarning.testing.scenarios import find, play, shipped


class BundledScenarios:
    """The scenarios that ship, each played in a cloud of its own."""

    def list_scenarios(self) -> list[responses.ScenarioInfo]:
        """The scenarios there are."""
        return [
            responses.ScenarioInfo(name=one.name, about=one.about, text=one.text)
            for one in shipped()
        ]

    def run(self, name: str) -> responses.ScenarioResultInfo:
        """Run one of them in virtual time."""
        verdict = play(find(name))
        difference = verdict.difference
        return responses.ScenarioResultInfo(
            name=name,
            passed=verdict.passed,
            steps=len(verdict.scenario.steps),
            seconds=verdict.seconds,
            took=round(verdict.real_seconds, 3),
            difference="\n".join(difference.lines()) if difference else "",
        )
