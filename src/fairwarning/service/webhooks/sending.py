"""A message on its way to one subscriber: checked, written, signed, sent."""

from collections.abc import Mapping
from http import HTTPStatus

from fairwarning.service.webhooks.messages import SIGNATURE, WebhookMessage, render, signature
from fairwarning.service.webhooks.outside import Environment
from fairwarning.service.webhooks.posting import HttpSender, WebhookRequest, WebhookResponse
from fairwarning.service.webhooks.subscription import Subscription
from fairwarning.service.webhooks.targets import AllowedTargets


class Sender:
    """Sends to subscribers, as far as they are still allowed."""

    def __init__(self, targets: AllowedTargets, poster: HttpSender, outside: Environment) -> None:
        self._targets = targets
        self._poster = poster
        self._outside = outside

    async def post(self, to: Subscription, message: WebhookMessage) -> WebhookResponse:
        """Send a message in the form it subscribed to."""
        post = render(message, to.form)
        return await self.request(to, "POST", post.headers, post.body)

    async def request(
        self, to: Subscription, method: str, headers: Mapping[str, str], body: bytes = b""
    ) -> WebhookResponse:
        """Send anything, signed; where it goes is checked anew, for what is allowed may change."""
        target = self._targets.check(to.url)
        signed = {**headers, SIGNATURE: signature(to.secret, body, int(self._outside.wall()))}
        request = WebhookRequest(target=target, method=method, headers=signed, body=body)
        return await self._poster.send(request)


def describe_failure(answer: WebhookResponse) -> str:
    """Why an answer is no success; empty if it is one."""
    status = answer.status
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return ""
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"it answered {status}; redirects are not followed, so subscribe the final url"
    return f"it answered {status}"
