"""Before anything is sent, the receiver says that it wants it: nobody is made to receive.

CloudEvents has an OPTIONS request for that, Event Grid a message with a code to be sent back.
"""

import secrets

import msgspec

from fairwarning.core.errors import Refused
from fairwarning.service.webhooks.messages import VALIDATION, WebhookMessage
from fairwarning.service.webhooks.posting import WebhookResponse, WebhookSendFailed
from fairwarning.service.webhooks.sending import Sender, describe_failure
from fairwarning.service.webhooks.subscription import MessageFormat, Subscription

ORIGIN = "fairwarning"
_ASKS = {
    MessageFormat.CLOUDEVENTS: (
        "answer OPTIONS with 'WebHook-Allowed-Origin: *' or the origin that was sent"
    ),
    MessageFormat.EVENTGRID: (
        'answer the validation message with 200 and {"validationResponse": its code}'
    ),
}


async def confirm_receiver(sender: Sender, to: Subscription, at: float) -> None:
    """Refused, with what was expected, unless the receiver agrees."""
    try:
        if to.form is MessageFormat.CLOUDEVENTS:
            why = await _options(sender, to)
        else:
            why = await _validation(sender, to, at)
    except WebhookSendFailed as failure:
        why = str(failure)
    if why:
        raise Refused(
            "HandshakeFailed",
            f"the receiver of webhook {to.name!r} did not agree: {why}. It has to "
            f"{_ASKS[to.form]}; or create the webhook without a handshake",
        )


async def _options(sender: Sender, to: Subscription) -> str:
    answer = await sender.request(to, "OPTIONS", {"WebHook-Request-Origin": ORIGIN})
    if why := describe_failure(answer):
        return why
    allowed = answer.headers.get("webhook-allowed-origin", "").strip()
    if allowed in {"*", ORIGIN}:
        return ""
    return f"it allows the origin {allowed[:60]!r}" if allowed else "it allows no origin"


async def _validation(sender: Sender, to: Subscription, at: float) -> str:
    code = secrets.token_hex(16)
    message = WebhookMessage(
        id=code, type=VALIDATION, scope="", subject="", at=at, data={"validationCode": code}
    )
    answer = await sender.post(to, message)
    if why := describe_failure(answer):
        return why
    return "" if _response(answer) == code else "it did not send the validation code back"


def _response(answer: WebhookResponse) -> object:
    try:
        found = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found.get("validationResponse") if isinstance(found, dict) else None
