"""A subscription: who gets messages, in which form. Kept as a resource, so it is durable."""

import re
from dataclasses import field
from enum import StrEnum

import msgspec

from fairwarning.core.errors import Refused
from fairwarning.core.model import Resource
from fairwarning.core.record import record
from fairwarning.service.resources import WEBHOOKS
from fairwarning.service.webhooks import limits

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{limits.NAME_CHARACTERS}}}", re.ASCII)
_SECRET = re.compile(
    rf"(?=[!-~])[ -~]{{{limits.SECRET_MIN_CHARACTERS},{limits.SECRET_MAX_CHARACTERS}}}(?<=[!-~])",
    re.ASCII,
)


class MessageFormat(StrEnum):
    """How a message is written."""

    CLOUDEVENTS = "cloudevents"
    EVENTGRID = "eventgrid"


@record
class Subscription:
    """Where messages go. The secret is for signing and is never given out again."""

    name: str
    url: str
    form: MessageFormat
    secret: str = field(repr=False)

    @property
    def id(self) -> str:
        """Its id as a resource: no two names differ in case alone."""
        return resource_id(self.name)

    @property
    def note(self) -> str:
        """What its cursor is kept under."""
        return f"webhook:{self.name.lower()}"

    def body(self) -> str:
        """What is kept beside its name."""
        return msgspec.json.encode(_Body(self.url, self.form, self.secret)).decode()


class _Body(msgspec.Struct):
    url: str
    form: MessageFormat
    secret: str


def resource_id(name: str) -> str:
    """The id of the subscription of this name."""
    return f"{WEBHOOKS}:{name.lower()}"


def read(resource: Resource) -> Subscription:
    """The subscription again."""
    body = msgspec.json.decode(resource.body, type=_Body)
    return Subscription(name=resource.name, url=body.url, form=body.form, secret=body.secret)


def check_name(name: str) -> None:
    """Refuse what cannot be a name."""
    if not _NAME.fullmatch(name):
        raise Refused(
            "BadWebhookName",
            f"a webhook's name is 1 to {limits.NAME_CHARACTERS} letters, digits, '-', '_' or '.'",
        )


def check_form(form: str) -> MessageFormat:
    """The form of this name."""
    try:
        return MessageFormat(form)
    except ValueError:
        raise Refused(
            "BadWebhookForm", f"a webhook's form is {' or '.join(MessageFormat)}"
        ) from None


def check_secret(secret: str) -> None:
    """Refuse a secret that is weak, or that a file or a header would change."""
    if not _SECRET.fullmatch(secret):
        raise Refused(
            "BadWebhookSecret",
            f"a webhook's secret is {limits.SECRET_MIN_CHARACTERS} to "
            f"{limits.SECRET_MAX_CHARACTERS} printable ASCII characters, no space at its ends; "
            "leave it out and one is made",
        )
