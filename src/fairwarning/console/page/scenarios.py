"""The scenarios that ship with it, to be run on a fleet of their own (O6)."""

from fairwarning.console.page import words
from fairwarning.console.page.forms import FormDone
from fairwarning.console.page.request import Deeds, PageContent, PageRequest, Views
from fairwarning.core.errors import Conflict


async def show(visit: PageRequest) -> PageContent:
    """All of them."""
    return PageContent("scenarios.html", {"scenarios": (await visit.api.scenarios()).scenarios})


async def run(visit: PageRequest) -> FormDone:
    """Play one to its end; a difference is told beside it."""
    verdict = await visit.api.run_scenario(visit.named("name"))
    if not verdict.passed:
        raise Conflict("ScenarioFailed", f"failed: {verdict.difference}")
    told = f"{words.count(verdict.steps, 'step')}, {words.span(verdict.seconds)} of virtual time"
    return FormDone(f"{verdict.name} passed: {told} in {verdict.took:.2f} s.", "/scenarios")


VIEWS: Views = [("/scenarios", show)]
DEEDS: Deeds = [("/scenarios/{name}/run", run, show)]
