"""Makes one attempt to deliver a notice: payloads for chat tools, and HTTP (G8).

URLs are secrets: they never appear in a log or an error.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from fairwarning.guest.agent.connections import HttpPost, is_success, is_transient
from fairwarning.guest.agent.notices import (
    EventNotice,
    NotifyKind,
    NotifySettings,
    render_text,
    text_fields,
)
from fairwarning.guest.events import to_json
from fairwarning.guest.session import retry_after

LONGEST_PAUSE_SECONDS = 60.0  # also of a server's Retry-After
CONNECT_SECONDS = 10.0
ATTEMPT_SECONDS = 30.0  # for an attempt, however slowly the server answers


class DeliveryFailed(Exception):
    """A notification was not accepted. The text contains no secret."""

    def __init__(self, text: str, *, final: bool = False, pause: float = 0.0) -> None:
        super().__init__(text)
        self.final = final
        self.pause = pause


def deliver(settings: NotifySettings, notice: EventNotice) -> None:
    """Make one attempt; raise `DeliveryFailed`."""
    text = render_text(settings, notice)
    try:
        url, authorization = settings.read_url()
    except ValueError as error:  # its text has no secret
        raise DeliveryFailed(str(error)) from None
    headers = {"Content-Type": "application/json"}
    if authorization:
        headers["Authorization"] = authorization
    _post(url, headers, json.dumps(_PAYLOADS[settings.kind](notice, text)).encode())


# --- Payloads -------------------------------------------------------------------------------------


def _slack(_: EventNotice, text: str) -> dict[str, Any]:
    return {"text": text}


def _teams(notice: EventNotice, text: str) -> dict[str, Any]:
    """Return a message with an Adaptive Card, as webhooks of Workflows expect it."""
    shown = ("type", "machine", "phase", "not_before", "reason", "event_id")
    fields = text_fields(notice)
    facts = [{"title": name, "value": fields[name]} for name in shown if fields[name]]
    if notice.drill:
        facts.append({"title": "drill", "value": "yes"})
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": text, "wrap": True, "weight": "Bolder"},
            {"type": "FactSet", "facts": facts},
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [{**attachment, "contentUrl": None}]}


def _webhook(notice: EventNotice, text: str) -> dict[str, Any]:
    return {
        **to_json(notice.event),
        "Phase": str(notice.phase),
        "Machine": notice.machine,
        "Cancelled": notice.cancelled,
        "Drill": notice.drill,
        "Reason": notice.reason,
        "Text": text,
    }


_PAYLOADS: Mapping[NotifyKind, Callable[[EventNotice, str], dict[str, Any]]] = {
    NotifyKind.SLACK: _slack,
    NotifyKind.TEAMS: _teams,
    NotifyKind.WEBHOOK: _webhook,
}


# --- HTTP -----------------------------------------------------------------------------------------


def _post(url: str, headers: Mapping[str, str], body: bytes) -> None:
    post = HttpPost(url, headers, body)
    timer = threading.Timer(ATTEMPT_SECONDS, post.cancel)  # the server may send byte by byte
    timer.daemon = True
    timer.start()
    try:
        response, phrase = post.send(CONNECT_SECONDS, time.monotonic() + ATTEMPT_SECONDS)
    except OSError as error:
        raise DeliveryFailed(f"there was no response: {os_error_text(error)}") from None
    except (http.client.HTTPException, ValueError) as error:  # its text may contain the URL
        raise DeliveryFailed(f"there was no valid response: {type(error).__name__}") from None
    finally:
        timer.cancel()
    if not is_success(response.status):
        reason = f"the response was {response.status} {phrase}"
        is_final = not is_transient(response.status)
        raise DeliveryFailed(reason, final=is_final, pause=retry_after(response))


def os_error_text(error: OSError) -> str:
    """Return the reason of an error of the network; never a URL."""
    if isinstance(error, socket.timeout):  # before Python 3.10 not the same as `TimeoutError`
        return "timed out"
    return str(error.strerror or type(error).__name__)
