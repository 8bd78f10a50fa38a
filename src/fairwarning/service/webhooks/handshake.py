"""Ask a receiver for consent before anything is sent to it.

CloudEvents uses an OPTIONS request; Event Grid uses a message whose code the receiver returns.
"""

import secrets

import msgspec

from fairwarning.core.errors import Refused
from fairwarning.service.webhooks.http_sender import WebhookResponse, WebhookSendFailed
from fairwarning.service.webhooks.messages import VALIDATION, WebhookMessage
from fairwarning.service.webhooks.sender import Sender, describe_failure
from fairwarning.service.webhooks.subscription import MessageFormat, Subscription

ORIGIN = "fairwarning"
_EXPECTED = {
    MessageFormat.CLOUDEVENTS: (
        "answer OPTIONS with 'WebHook-Allowed-Origin: *' or the origin that was sent"
    ),
    MessageFormat.EVENTGRID: (
        'answer the validation message with 200 and {"validationResponse": its code}'
    ),
}


async def confirm_receiver(sender: Sender, to: Subscription, at: float) -> None:
    """Raise `Refused`, with the expected answer, unless the receiver agrees."""
    try:
        if to.form is MessageFormat.CLOUDEVENTS:
            reason = await _options(sender, to)
        else:
            reason = await _validation(sender, to, at)
    except WebhookSendFailed as failure:
        reason = str(failure)
    if reason:
        raise Refused(
            "HandshakeFailed",
            f"the receiver of webhook {to.name!r} did not agree: {reason}. It must "
            f"{_EXPECTED[to.form]}; or create the webhook without a handshake",
        )


async def _options(sender: Sender, to: Subscription) -> str:
    response = await sender.request(to, "OPTIONS", {"WebHook-Request-Origin": ORIGIN})
    if reason := describe_failure(response):
        return reason
    allowed = response.headers.get("webhook-allowed-origin", "").strip()
    if allowed in {"*", ORIGIN}:
        return ""
    return f"it allows the origin {allowed[:60]!r}" if allowed else "it allows no origin"


async def _validation(sender: Sender, to: Subscription, at: float) -> str:
    code = secrets.token_hex(16)
    message = WebhookMessage(
        id=code, type=VALIDATION, scope="", subject="", at=at, data={"validationCode": code}
    )
    response = await sender.post(to, message)
    if reason := describe_failure(response):
        return reason
    return "" if _validation_response(response) == code else "it did not return the validation code"


def _validation_response(response: WebhookResponse) -> object:
    try:
        content = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return content.get("validationResponse") if isinstance(content, dict) else None
