"""A subscription: a receiver of messages. Stored as a resource, so it is durable."""

import re
from dataclasses import field
from enum import StrEnum

import msgspec

from fairwarning.core.errors import Refused
from fairwarning.core.model import Resource
from fairwarning.core.record import record
from fairwarning.service.resources import WEBHOOKS
from fairwarning.service.webhooks import limits

CURSORS = "webhook:"
"""The prefix of the notes that store cursors."""
STATES = "webhook-state:"
"""The prefix of the notes that store states."""

_NAME = re.compile(rf"(?!\.{{1,2}}$)[A-Za-z0-9_.-]{{1,{limits.NAME_CHARACTERS}}}", re.ASCII)
_SECRET = re.compile(
    rf"(?=[!-~])[ -~]{{{limits.SECRET_MIN_CHARACTERS},{limits.SECRET_MAX_CHARACTERS}}}(?<=[!-~])",
    re.ASCII,
)


class SubscriptionState(StrEnum):
    """The state of a subscription."""

    FOLLOWING = "following"
    RETRYING = "retrying"  # the last attempt failed
    STOPPED = "stopped"  # the receiver answered 410 Gone


@record
class Subscription:
    """A receiver of messages. The secret signs messages and is shown only once."""

    name: str
    url: str = field(repr=False)  # it may contain a key
    secret: str = field(repr=False)
    creation: str
    """Differs for a subscription that is created later under the same name."""

    @property
    def id(self) -> str:
        """Its resource id; names are case-insensitive."""
        return resource_id(self.name)

    @property
    def origin(self) -> str:
        """The scheme and authority of its URL; all that is shown after its creation."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{re.split('[/?]', rest, maxsplit=1)[0]}"

    @property
    def cursor_note(self) -> str:
        """The name of the note that stores its cursor."""
        return f"{CURSORS}{self._key}"

    @property
    def state_note(self) -> str:
        """The name of the note that stores its state."""
        return f"{STATES}{self._key}"

    @property
    def _key(self) -> str:
        return f"{self.name.lower()}:{self.creation}"

    def body(self) -> str:
        """The resource's body: everything but the name."""
        return msgspec.json.encode(_Body(self.url, self.secret, self.creation)).decode()


class _Body(msgspec.Struct):
    url: str
    secret: str
    creation: str


def resource_id(name: str) -> str:
    """Return the id of the subscription of this name."""
    return f"{WEBHOOKS}:{name.lower()}"


def read(resource: Resource) -> Subscription:
    """Return the subscription that a resource stores."""
    body = msgspec.json.decode(resource.body, type=_Body)
    return Subscription(name=resource.name, **msgspec.structs.asdict(body))


def check_name(name: str) -> None:
    """Refuse an invalid name."""
    if not _NAME.fullmatch(name):
        raise Refused(
            "BadWebhookName",
            f"a webhook's name must be 1 to {limits.NAME_CHARACTERS} letters, digits, '-', '_' "
            "or '.', and other than '.' and '..'",
        )


def check_secret(secret: str) -> None:
    """Refuse a secret that is weak, or that a file or a header would alter."""
    if not _SECRET.fullmatch(secret):
        raise Refused(
            "BadWebhookSecret",
            f"a webhook's secret must be {limits.SECRET_MIN_CHARACTERS} to "
            f"{limits.SECRET_MAX_CHARACTERS} printable ASCII characters without leading or "
            "trailing spaces; leave it out to have one generated",
        )
