"""A message on its way to one subscriber: checked, written, signed, sent."""

from collections.abc import Mapping
from http import HTTPStatus

from fairwarning.service.webhooks.messages import SIGNATURE, Message, signature, written
from fairwarning.service.webhooks.outside import Outside
from fairwarning.service.webhooks.posting import Answer, Poster, Request
from fairwarning.service.webhooks.subscription import Subscription
from fairwarning.service.webhooks.targets import Targets


class Sender:
    """Sends to subscribers, as far as they are still allowed."""

    def __init__(self, targets: Targets, poster: Poster, outside: Outside) -> None:
        self._targets = targets
        self._poster = poster
        self._outside = outside

    async def post(self, to: Subscription, message: Message) -> Answer:
        """Send a message in the form it subscribed to."""
        post = written(message, to.form)
        return await self.request(to, "POST", post.headers, post.body)

    async def request(
        self, to: Subscription, method: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Send anything, signed; where it goes is checked anew, for what is allowed may change."""
        target = self._targets.check(to.url)
        signed = {**headers, SIGNATURE: signature(to.secret, body, int(self._outside.wall()))}
        request = Request(target=target, method=method, headers=signed, body=body)
        return await self._poster.send(request)


def trouble(answer: Answer) -> str:
    """Why an answer is no success; empty if it is one."""
    status = answer.status
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return ""
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"it answered {status}; redirects are not followed, so subscribe the final url"
    return f"it answered {status}"
