"""Scenarios, which run apart from the fleet, and webhooks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.endpoints import endpoint
from fairwarning.console.api.section import OPERATOR, ApiSection
from fairwarning.core.errors import NotFound, Unavailable
from fairwarning.service.config.settings import CloudSettings
from fairwarning.service.fleet import Fleet

if TYPE_CHECKING:
    from fairwarning.service.webhooks.webhooks import WebhookService


LoadWebhooks = Callable[[], Awaitable["WebhookService"]]
"""Return the webhook service, which is loaded on first use."""


class ScenarioRunner(Protocol):
    """Runs scenarios, each on a separate fleet, so that this fleet is not affected."""

    def list_scenarios(self) -> list[responses.ScenarioInfo]:
        """List the bundled scenarios."""

    def run(self, name: str) -> responses.ScenarioResultInfo:
        """Run a scenario in virtual time. It blocks, for up to some seconds."""


class IntegrationsApi(ApiSection):
    """Scenarios and webhooks."""

    def __init__(
        self,
        fleet: Fleet,
        cloud: CloudSettings,
        webhooks: LoadWebhooks,
        scenarios: ScenarioRunner | None = None,
    ) -> None:
        super().__init__(fleet, cloud)
        self._runner = scenarios
        self._webhooks = webhooks
        self._running = asyncio.Lock()

    # --- Scenarios (O6) ---

    @endpoint("GET", "/api/scenarios")
    async def scenarios(self) -> responses.ScenarioList:
        """List the bundled scenarios."""
        return responses.ScenarioList(scenarios=self._scenario_runner().list_scenarios())

    @endpoint("POST", "/api/scenarios/{name}/run")
    async def run_scenario(self, name: str) -> responses.ScenarioResultInfo:
        """Run a scenario on a separate fleet."""
        runner = self._scenario_runner()
        names = [scenario.name for scenario in runner.list_scenarios()]
        if name not in names:
            text = f"there is no scenario {name[:60]!r}; use one of {', '.join(names)}"
            raise NotFound("UnknownScenario", text)
        async with self._running:  # one at a time: each runs a whole fleet
            return await asyncio.to_thread(runner.run, name)

    def _scenario_runner(self) -> ScenarioRunner:
        if self._runner is None:
            raise Unavailable("NoScenarios", "this service has no scenarios")
        return self._runner

    # --- Webhooks ---

    @endpoint("GET", "/api/webhooks")
    async def webhooks(self) -> responses.WebhookList:
        """List webhooks."""
        webhooks = await (await self._webhooks()).list()
        return responses.WebhookList(
            webhooks=[views.copied(responses.WebhookInfo, webhook) for webhook in webhooks]
        )

    @endpoint("POST", "/api/webhooks", status=201)
    async def create_webhook(
        self, body: bodies.NewWebhook, actor: str = OPERATOR
    ) -> responses.CreatedWebhook:
        """Create a webhook that receives every event change."""
        created = await (await self._webhooks()).create(**bodies.set_fields(body), actor=actor)
        return views.copied(responses.CreatedWebhook, created)

    @endpoint("DELETE", "/api/webhooks/{name}", status=204)
    async def remove_webhook(self, name: str, actor: str = OPERATOR) -> None:
        """Delete a webhook."""
        await (await self._webhooks()).remove(name, actor=actor)

    @endpoint("POST", "/api/webhooks/{name}/test")
    async def test_webhook(self, name: str) -> responses.WebhookTestResult:
        """Send a test message to a webhook."""
        return responses.WebhookTestResult(status=await (await self._webhooks()).test(name))
