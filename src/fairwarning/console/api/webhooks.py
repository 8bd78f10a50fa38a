"""Webhooks."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.endpoints import endpoint
from fairwarning.console.api.section import OPERATOR, ApiSection

if TYPE_CHECKING:
    from fairwarning.service.webhooks.webhooks import WebhookService


LoadWebhooks = Callable[[], Awaitable["WebhookService"]]
"""Return the webhook service, which is loaded on first use."""


class WebhooksApi(ApiSection):
    """Webhooks. A receiver may be slow: no read waits for it."""

    load_webhooks: LoadWebhooks

    @endpoint("GET", "/api/webhooks")
    async def webhooks(self) -> responses.WebhookList:
        """List webhooks."""
        webhooks = await (await self.load_webhooks()).list()
        return responses.WebhookList(
            webhooks=[views.copied(responses.WebhookInfo, webhook) for webhook in webhooks]
        )

    @endpoint("POST", "/api/webhooks", status=201)
    async def create_webhook(
        self, body: bodies.NewWebhook, actor: str = OPERATOR
    ) -> responses.CreatedWebhook:
        """Create a webhook that receives every event change."""
        service = await self.load_webhooks()
        created = await service.create(**bodies.set_fields(body), actor=actor)
        return views.copied(responses.CreatedWebhook, created)

    @endpoint("DELETE", "/api/webhooks/{name}", status=204)
    async def remove_webhook(self, name: str, actor: str = OPERATOR) -> None:
        """Delete a webhook."""
        await (await self.load_webhooks()).remove(name, actor=actor)

    @endpoint("POST", "/api/webhooks/{name}/test")
    async def test_webhook(self, name: str) -> responses.WebhookTestResult:
        """Send a test message to a webhook."""
        with self.fleet.reader.share.elsewhere():
            status = await (await self.load_webhooks()).test(name)
        return responses.WebhookTestResult(status=status)
