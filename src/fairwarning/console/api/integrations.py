"""What is not the fleet's own: scenarios, which run beside it, and webhooks, which leave it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from fairwarning.console.api import bodies, responses
from fairwarning.console.api.part import OPERATOR, ApiSection, Settings, read
from fairwarning.core.errors import NotFound, Unavailable
from fairwarning.service.config.settings import CloudSettings
from fairwarning.service.fleet import Fleet

if TYPE_CHECKING:
    from fairwarning.service.webhooks.webhooks import WebhookService


Hooks = Callable[[], Awaitable["WebhookService"]]
"""Who has none need not load what sends to them."""


class ScenarioRunner(Protocol):
    """Where scenarios are played, each in a cloud of its own: nothing of it touches the fleet."""

    def shipped(self) -> list[responses.ScenarioInfo]:
        """The scenarios there are."""

    def play(self, name: str) -> responses.ScenarioResultInfo:
        """Run one of them, in virtual time; takes a moment."""


class IntegrationsApi(ApiSection):
    """Scenarios and webhooks."""

    def __init__(
        self,
        fleet: Fleet,
        cloud: CloudSettings,
        webhooks: Hooks,
        scenarios: ScenarioRunner | None = None,
    ) -> None:
        super().__init__(fleet, cloud)
        self._runner = scenarios
        self._webhooks = webhooks
        self._playing = asyncio.Lock()

    # --- Scenarios (O6) ---

    async def scenarios(self) -> responses.ScenarioList:
        """The scenarios that ship with it."""
        return responses.ScenarioList(scenarios=self._stage().shipped())

    async def run_scenario(self, name: str) -> responses.ScenarioResultInfo:
        """Run one in virtual time, in a cloud of its own."""
        stage = self._stage()
        if name not in {one.name for one in stage.shipped()}:
            known = ", ".join(one.name for one in stage.shipped())
            raise NotFound("UnknownScenario", f"there is no scenario {name[:60]!r}; it is {known}")
        async with self._playing:  # one at a time: each is a whole cloud
            return await asyncio.to_thread(stage.play, name)

    def _stage(self) -> ScenarioRunner:
        if self._runner is None:
            raise Unavailable("NoScenarios", "this service runs no scenarios")
        return self._runner

    # --- Webhooks ---

    async def webhooks(self) -> responses.WebhookList:
        """All webhooks; without their secrets."""
        shown = [
            responses.WebhookInfo(
                name=one.name,
                url=one.url,
                form=one.form.value,
                state=one.state.value,
                cursor=one.cursor,
                delivered=one.delivered,
                given_up=one.given_up,
                last_error=one.last_error,
            )
            for one in await (await self._webhooks()).list()
        ]
        return responses.WebhookList(webhooks=shown)

    async def create_webhook(
        self, settings: Settings, actor: str = OPERATOR
    ) -> responses.CreatedWebhook:
        """From now on, send every change of an event there."""
        given = bodies.given(read(bodies.NewWebhook, settings))
        made = await (await self._webhooks()).create(**given, actor=actor)
        return responses.CreatedWebhook(
            name=made.name, url=made.url, form=made.form.value, secret=made.secret
        )

    async def remove_webhook(self, name: str, actor: str = OPERATOR) -> None:
        """Send nothing more there."""
        await (await self._webhooks()).remove(name, actor=actor)

    async def test_webhook(self, name: str) -> responses.WebhookTestResult:
        """Send a message that is about nothing."""
        return responses.WebhookTestResult(status=await (await self._webhooks()).test(name))
