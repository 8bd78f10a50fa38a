"""Send a message to a subscriber: check the target, render, sign and post."""

from http import HTTPStatus

from fairwarning.service.webhooks.environment import Environment
from fairwarning.service.webhooks.http_sender import HttpSender, WebhookResponse
from fairwarning.service.webhooks.messages import SIGNATURE, WebhookMessage, render, signature
from fairwarning.service.webhooks.subscription import Subscription
from fairwarning.service.webhooks.targets import AllowedTargets


class Sender:
    """Sends to subscribers whose hosts are still allowed."""

    def __init__(self, targets: AllowedTargets, http: HttpSender, environment: Environment) -> None:
        self._targets = targets
        self._http = http
        self._environment = environment

    async def post(self, to: Subscription, message: WebhookMessage) -> WebhookResponse:
        """Send a signed message; check the target again, because the allowed hosts may change."""
        target = self._targets.check(to.url)
        headers, body = render(message)
        signed = signature(to.secret, body, int(self._environment.wall_time()))
        return await self._http.send(to.id, target, {**headers, SIGNATURE: signed}, body)


def describe_failure(response: WebhookResponse) -> str:
    """Return why a response is a failure; empty on success."""
    status = response.status
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return ""
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"the receiver answered {status}; redirects are not followed, so use the final url"
    return f"the receiver answered {status}"
