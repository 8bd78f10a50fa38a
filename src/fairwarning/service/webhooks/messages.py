"""The form of messages, CloudEvents 1.0 in structured mode, and their signatures.

Pure functions: the same journal line gives the same bytes, whenever it is sent.
"""

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from fairwarning.core import times
from fairwarning.core.record import record

SIGNATURE = "X-Fairwarning-Signature"
TYPES = "com.fairwarning."
_ROOT = "/fairwarning"
Headers = Mapping[str, str]


@record
class WebhookMessage:
    """A message."""

    id: str
    type: str
    scope: str  # empty if no scope is concerned
    subject: str
    at: float
    data: Mapping[str, object]


def render(message: WebhookMessage) -> tuple[Headers, bytes]:
    """Return the headers and the body of a message."""
    envelope = {
        "specversion": "1.0",
        "id": message.id,
        "source": source(message.scope),
        "type": message.type,
        "subject": message.subject,
        "time": times.iso(int(message.at)),
        "datacontenttype": "application/json",
        "data": message.data,
    }
    headers = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
    return headers, msgspec.json.encode(envelope)


def source(scope: str) -> str:
    """Return the message's source: a URI reference with the escaped scope name."""
    return f"{_ROOT}/{quote(scope, safe='')}" if scope else _ROOT


def signature(secret: str, body: bytes, at: int) -> str:
    """Sign the body and the time of sending."""
    digest = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"
