"""Sends notices to chat tools and webhooks in the background (G8).

Each notification has its own thread and a bounded queue, so that a target that hangs delays
neither the agent nor another target. URLs are secrets: they never appear in a log or an error.
"""

from __future__ import annotations

import http.client
import json
import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.connections import HttpPost, is_success, is_transient
from fairwarning.guest.agent.log_format import event_fields
from fairwarning.guest.agent.notices import (
    EventNotice,
    NotifyKind,
    NotifySettings,
    render_text,
    text_fields,
)
from fairwarning.guest.agent.work import to_printable
from fairwarning.guest.events import to_json
from fairwarning.guest.session import retry_after

ATTEMPTS = 8  # with their pauses about two minutes: after a boot, the network may be late
FIRST_PAUSE_SECONDS = 1.0  # doubled after each attempt
QUEUE_LENGTH = 100
CLOSE_SECONDS = 3.0  # for what waits when the agent stops: a reboot may be near
LONGEST_PAUSE_SECONDS = 60.0  # also of a server's Retry-After
CONNECT_SECONDS = 10.0
ATTEMPT_SECONDS = 30.0  # for an attempt, however slowly the server answers

log = logging.getLogger(__name__)


class Notifier:
    """Sends notices in the background."""

    def __init__(self, settings: Sequence[NotifySettings] = (), attempts: int = 0) -> None:
        self._attempts = attempts or ATTEMPTS
        self._targets: list[_Target] = []
        self._ended: list[_Target] = []  # that are gone, with notices that wait for them
        self.reconfigure(settings)

    def reconfigure(self, settings: Sequence[NotifySettings]) -> None:
        """Send later notices to these; a target that is gone still gets those that wait for it."""
        old = {target.settings: target for target in self._targets}
        self._targets = [
            old.pop(each) if each in old else _Target(each, self._attempts) for each in settings
        ]
        for target in old.values():
            target.end()
        self._ended = [target for target in (*self._ended, *old.values()) if target.is_sending()]

    def send(self, notice: EventNotice) -> None:
        """Queue a notice for each notification that wants it. Never blocks, never raises."""
        for target in self._targets:
            if target.settings.wants(notice):
                target.put(notice)

    def close(self, seconds: float = CLOSE_SECONDS) -> int:
        """Wait briefly for queued notices; return how many were not sent."""
        end = time.monotonic() + seconds
        left = sum(target.close(end) for target in (*self._targets, *self._ended))
        if left:
            log.warning("%d notifications were not sent before the end", left)
        return left


class _Target:
    """One notification: its queue and its thread, which starts with the first notice."""

    def __init__(self, settings: NotifySettings, attempts: int) -> None:
        self.settings = settings
        self._attempts = attempts
        self._queue: queue.Queue[EventNotice | None] = queue.Queue(QUEUE_LENGTH + 1)
        self._changed = threading.Condition()
        self._waiting = 0
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        for result in (agent_metrics.SENT, agent_metrics.FAILED, agent_metrics.DROPPED):
            agent_metrics.NOTIFICATIONS.create(settings.name, result)

    def put(self, notice: EventNotice) -> None:
        with self._changed:
            self._waiting += 1
        if self._queue.qsize() < QUEUE_LENGTH:
            self._queue.put(notice)
        else:
            self._finish()
            agent_metrics.NOTIFICATIONS.add(self.settings.name, agent_metrics.DROPPED)
            _log_failure(self.settings, notice, f"{QUEUE_LENGTH} others wait to be sent")
            return
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="notify", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return  # no thread now; the next notice tries again
            self._thread = thread

    def end(self) -> None:
        """Let the thread end after what waits."""
        self._queue.put(None)

    def is_sending(self) -> bool:
        """Whether notices wait, or one is being sent."""
        with self._changed:
            return self._waiting > 0

    def close(self, end: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, max(0.0, end - time.monotonic()))
            self._closing.set()
            return self._waiting

    def _work(self) -> None:
        while not self._closing.is_set() and (notice := self._queue.get()) is not None:
            try:
                self._deliver(notice)
            except Exception as error:  # noqa: BLE001  (the thread must live on)
                _log_failure(self.settings, notice, type(error).__name__)
                agent_metrics.NOTIFICATIONS.add(self.settings.name, agent_metrics.FAILED)
            self._finish()

    def _finish(self) -> None:
        with self._changed:
            self._waiting -= 1
            self._changed.notify_all()

    def _deliver(self, notice: EventNotice) -> None:
        pause = FIRST_PAUSE_SECONDS
        for attempt in range(1, self._attempts + 1):
            try:
                deliver(self.settings, notice)
            except DeliveryFailed as failed:
                if failed.final or attempt == self._attempts or self._closing.is_set():
                    _log_failure(self.settings, notice, str(failed))
                    agent_metrics.NOTIFICATIONS.add(self.settings.name, agent_metrics.FAILED)
                    return
                self._closing.wait(min(max(pause, failed.pause), LONGEST_PAUSE_SECONDS))
                pause *= 2
            else:
                agent_metrics.NOTIFICATIONS.add(self.settings.name, agent_metrics.SENT)
                return


def _log_failure(settings: NotifySettings, notice: EventNotice, reason: str) -> None:
    log.warning(
        "notification %s (event %s, %s) was not sent: %s",
        *(settings.name, to_printable(notice.event.id), notice.phase, to_printable(reason)),
        extra=event_fields(
            notice.event, notice.machine, phase=str(notice.phase), result=agent_metrics.FAILED
        ),
    )


# --- One attempt ----------------------------------------------------------------------------------


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
    NotifyKind.SLACK: lambda _, text: {"text": text},
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
