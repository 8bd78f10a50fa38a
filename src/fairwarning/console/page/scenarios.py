"""The page of the bundled scenarios, which run on a separate fleet (O6)."""

from fairwarning.console.page import words
from fairwarning.console.page.form_data import FormDone
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views
from fairwarning.core.errors import Conflict


async def show(request: PageRequest) -> PageContent:
    """List the scenarios."""
    return PageContent("scenarios.html", {"scenarios": (await request.api.scenarios()).scenarios})


async def run(request: PageRequest) -> FormDone:
    """Run a scenario to its end; a failure is shown beside it."""
    result = await request.api.run_scenario(request.path_param("name"))
    if not result.passed:
        raise Conflict("ScenarioFailed", f"failed: {result.difference}")
    steps = words.count(result.steps, "step")
    virtual = f"{words.duration(result.seconds)} of virtual time"
    notice = f"{result.name} passed: {steps}, {virtual} in {result.real_seconds:.2f} s."
    return FormDone(notice, "/scenarios")


VIEWS: Views = [("/scenarios", show)]
FORMS: FormRoutes = [("/scenarios/{name}/run", run, show)]
