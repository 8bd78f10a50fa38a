"""Before anything is sent, the receiver says that it wants it: nobody is made to receive.

CloudEvents has an OPTIONS request for that, Event Grid a message with a code to be sent back.
"""

import secrets

import msgspec

from fairwarning.core.errors import Refused
from fairwarning.service.webhooks.messages import VALIDATION, Message
from fairwarning.service.webhooks.posting import Answer, Failed
from fairwarning.service.webhooks.sending import Sender, trouble
from fairwarning.service.webhooks.subscription import Form, Subscription

ORIGIN = "fairwarning"
_ASKS = {
    Form.CLOUDEVENTS: "answer OPTIONS with 'WebHook-Allowed-Origin: *' or that header's own origin",
    Form.EVENTGRID: 'answer the validation message with 200 and {"validationResponse": its code}',
}


async def shake_hands(sender: Sender, to: Subscription, at: float) -> None:
    """Refused, with what was expected, unless the receiver agrees."""
    try:
        if to.form is Form.CLOUDEVENTS:
            why = await _options(sender, to)
        else:
            why = await _validation(sender, to, at)
    except Failed as failure:
        why = str(failure)
    if why:
        raise Refused(
            "HandshakeFailed",
            f"the receiver of webhook {to.name!r} did not agree: {why}. It has to "
            f"{_ASKS[to.form]}; or create the webhook without a handshake",
        )


async def _options(sender: Sender, to: Subscription) -> str:
    answer = await sender.request(to, "OPTIONS", {"WebHook-Request-Origin": ORIGIN})
    if why := trouble(answer):
        return why
    allowed = answer.headers.get("webhook-allowed-origin", "").strip()
    if allowed in {"*", ORIGIN}:
        return ""
    return f"it allows the origin {allowed[:60]!r}" if allowed else "it allows no origin"


async def _validation(sender: Sender, to: Subscription, at: float) -> str:
    code = secrets.token_hex(16)
    message = Message(
        id=code, type=VALIDATION, scope="", subject="", at=at, data={"validationCode": code}
    )
    answer = await sender.post(to, message)
    if why := trouble(answer):
        return why
    return "" if _response(answer) == code else "it did not send the validation code back"


def _response(answer: Answer) -> object:
    try:
        found = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found.get("validationResponse") if isinstance(found, dict) else None
