"""Scenarios for the console, which may not know where they are played."""

from fairwarning.console.api import shapes
from fairwarning.testing.scenarios import find, play, shipped


class Theatre:
    """The scenarios that ship, each played in a cloud of its own."""

    def shipped(self) -> list[shapes.Scenario]:
        """The scenarios there are."""
        return [shapes.Scenario(name=one.name, about=one.about, text=one.text) for one in shipped()]

    def play(self, name: str) -> shapes.Verdict:
        """Run one of them in virtual time."""
        verdict = play(find(name))
        difference = verdict.difference
        return shapes.Verdict(
            name=name,
            passed=verdict.passed,
            steps=len(verdict.scenario.steps),
            seconds=verdict.seconds,
            took=round(verdict.real_seconds, 3),
            difference="\n".join(difference.lines()) if difference else "",
        )
