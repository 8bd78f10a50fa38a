"""What people are told about events, where, and in which words. `notify` sends it."""

from __future__ import annotations

import os
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fairwarning.guest.agent.urls import parse_url
from fairwarning.guest.events import Event, date_text
from fairwarning.guest.text_enum import StrEnum

_SECRET_BYTES = 8192  # of a file with a URL


class NoticePhase(StrEnum):
    """The steps of an event that people can be told about."""

    SCHEDULED = "scheduled"
    APPROVED = "approved"
    STARTED = "started"
    OVER = "over"
    FAILED = "failed"  # a hook or an approval


class NotifyKind(StrEnum):
    """The kind of a notification."""

    SLACK = "slack"
    TEAMS = "teams"
    WEBHOOK = "webhook"


@dataclass(frozen=True)
class EventNotice:
    """A step of an event."""

    phase: NoticePhase
    event: Event
    machine: str
    reason: str = ""
    cancelled: bool = False
    drill: bool = False


@dataclass(frozen=True)
class NotifySettings:
    """Where to send notices. Exactly one of the URL's sources is set."""

    name: str
    kind: NotifyKind
    url: str = field(default="", repr=False)  # the URL of a chat tool is a secret
    url_file: str = ""
    url_env: str = ""
    phases: frozenset[str] = frozenset()  # empty: all
    types: frozenset[str] = frozenset()  # empty: all
    text: str = ""  # a template; empty: `default_text`

    def wants(self, notice: EventNotice) -> bool:
        """Whether this step of this type of event is to be sent."""
        return (not self.phases or notice.phase in self.phases) and (
            not self.types or notice.event.type in self.types
        )

    def read_url(self) -> tuple[str, str]:
        """Return the URL and the value of its Authorization header, which may be empty.

        Raise `ValueError` with a text that contains neither.
        A file or a variable is read each time, because secrets are replaced while the agent runs.
        """
        url, source = self.url, "url"
        if self.url_env:
            url, source = os.environ.get(self.url_env, ""), f"the variable {self.url_env}"
        elif self.url_file:
            source = f"the file {self.url_file}"
            try:
                content = Path(self.url_file).read_bytes()[:_SECRET_BYTES]
            except OSError as error:
                raise ValueError(f"cannot read {source}: {error.strerror or error}") from None
            url = content.decode("utf-8", "replace")
        url = url.strip()
        if not url:
            raise ValueError(f"{source} is empty")
        try:
            return parse_url(url)
        except ValueError as error:
            raise ValueError(f"{source} does not hold a URL: {error}") from None


# --- Text -----------------------------------------------------------------------------------------


def text_fields(notice: EventNotice) -> dict[str, str]:
    """Return the fields of a template."""
    event = notice.event
    not_before = date_text(event.not_before)
    return {
        "type": str(event.type),
        "machine": notice.machine,
        "not_before": not_before,
        "phase": str(notice.phase),
        "reason": notice.reason,
        "event_id": event.id,
        "resources": ", ".join(event.resources),
        "source": str(event.source),
        "description": event.description,
    }


TEMPLATE_FIELDS = (
    *("type", "machine", "not_before", "phase", "reason"),
    *("event_id", "resources", "source", "description"),
)


def check_template(text: str) -> None:
    """Raise `ValueError` if a template has a field that does not exist."""
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"is not a template: {error}; write {{{{ for a brace") from None
    allowed = ", ".join(f"{{{name}}}" for name in TEMPLATE_FIELDS)
    for _, name, spec, conversion in parsed:
        if name is None:
            continue
        if name not in TEMPLATE_FIELDS or spec or conversion:
            shown = (
                f"{{{name}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}"
            )
            raise ValueError(f"unknown field {shown}; use {allowed}")


def render_text(settings: NotifySettings, notice: EventNotice) -> str:
    """Return the text of a notice; that of a drill says so.

    For Slack, fields are escaped and the template is not, so only the template can mention people.
    """
    fields = text_fields(notice)
    if settings.kind is NotifyKind.SLACK:
        fields = {name: _escape_slack(value) for name, value in fields.items()}
    text = settings.text.format_map(fields) if settings.text else default_text(fields)
    return f"[drill] {text}" if notice.drill else text


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def default_text(fields: Mapping[str, str]) -> str:
    """Return a sentence such as `Reboot of db_1: scheduled, not before 2026-11-15T09:23:16Z`."""
    text = f"{fields['type']} of {fields['machine']}: {fields['phase']}"
    if fields["phase"] == NoticePhase.SCHEDULED and fields["not_before"]:
        text += f", not before {fields['not_before']}"
    return f"{text} ({fields['reason']})" if fields["reason"] else text
