"""What the synchronous client and the one for asyncio have in common."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import ClassVar

from fairwarning.guest import session
from fairwarning.guest.conversation import PATIENCE_SECONDS, Conversation
from fairwarning.guest.endpoint import endpoint as endpoint_of
from fairwarning.guest.transport import EndpointConnection


class ClientBase:
    """A connection to the endpoint, and the conversation over it."""

    _connection_class: ClassVar[type[EndpointConnection]]

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        name: str = "",
        version: str = session.VERSION,
        every: float = session.INTERVAL_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Use `endpoint`, or FAIRWARNING_ENDPOINT, or Azure's address, in this order.

        `name`: of this machine; default: read from instance metadata.
        `every`: minimum seconds between requests. `patience`: seconds to retry before giving up.
        """
        address = endpoint_of(endpoint)
        self._transport = self._connection_class(address)
        self._conversation = Conversation(
            time.monotonic, address, name=name, version=version, every=every, patience=patience
        )

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._transport.close()

    @property
    def read_at(self) -> float:
        """The time of the last successful read, by `time.monotonic`."""
        return self._conversation.read_at

    @property
    def failed_reads(self) -> int:
        """How many requests for the document have failed so far."""
        return self._conversation.failed_reads

    def now(self) -> datetime:
        """Return the endpoint's time, to compare with NotBefore; before any response, our own."""
        seconds = self._conversation.endpoint_time()
        return (
            datetime.now(timezone.utc)
            if seconds is None
            else datetime.fromtimestamp(seconds, timezone.utc)
        )
