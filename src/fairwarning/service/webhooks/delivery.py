"""One subscription's way through the journal: in order, each message until it has arrived.

The cursor moves after the receiver said so, and is durable before the next message goes. So a
process that dies at any instant repeats at most the message it was at.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from http import HTTPStatus

from fairwarning.core.errors import FairwarningError
from fairwarning.core.record import record
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.changes import MessageBuilder, is_reported
from fairwarning.service.webhooks.cursors import Cursors
from fairwarning.service.webhooks.messages import WebhookMessage
from fairwarning.service.webhooks.outside import Environment
from fairwarning.service.webhooks.pauses import pause_seconds
from fairwarning.service.webhooks.posting import WebhookResponse, WebhookSendFailed
from fairwarning.service.webhooks.sending import Sender, describe_failure
from fairwarning.service.webhooks.subscription import Subscription
from fairwarning.store.store import JournalEntry

log = logging.getLogger(__name__)


class SubscriptionState(StrEnum):
    """How a subscription is."""

    FOLLOWING = "following"
    RETRYING = "retrying"  # the last attempt failed
    STOPPED = "stopped"  # the receiver said that it is gone (410)


@record
class DeadLetter:
    """A message that was given up."""

    number: int  # of its journal line, which is kept
    type: str
    subject: str
    error: str


class Delivery:
    """Follows the journal for one subscription, in a task of its own."""

    def __init__(
        self,
        subscription: Subscription,
        cursors: Cursors,
        changes: MessageBuilder,
        sender: Sender,
        outside: Environment,
        *,
        give_up_seconds: float,
    ) -> None:
        self.subscription = subscription
        self.state = SubscriptionState.FOLLOWING
        self.cursor = 0
        self.waiting = 0  # messages in the page last read
        self.delivered = self.failed = self.given_up = 0
        self.last_error = ""
        self.dead: deque[DeadLetter] = deque(maxlen=limits.DEAD_LETTERS)
        self._cursors = cursors
        self._sender = sender
        self._changes = changes
        self._outside = outside
        self._give_up_seconds = give_up_seconds
        self._awake = asyncio.Event()
        self._kept = 0  # the cursor that is durable
        self._failures = 0  # in a row, of the message at hand
        self._failing_since = 0.0

    def wake(self) -> None:
        """Something was committed."""
        self._awake.set()

    def resume(self) -> None:
        """The receiver answers again."""
        if self.state is SubscriptionState.STOPPED:
            self.state = SubscriptionState.FOLLOWING
        self._awake.set()

    async def run(self) -> None:
        """Follow until cancelled; a store that fails is asked again later."""
        begun = False
        while True:
            try:
                if not begun:
                    self.cursor = self._kept = await self._cursors.read(self.subscription)
                    begun = True
                await self._follow()
            except FairwarningError as error:
                self.last_error = error.message
            except Exception as bug:
                log.exception("webhook %s failed", self.subscription.name)
                self.last_error = f"a bug of ours: {bug}"
            await self._outside.sleep(pause_seconds(1, None, self._outside))

    async def _keep(self) -> None:
        number = self.cursor
        await self._cursors.keep(self.subscription, number)
        self._kept = number

    async def _follow(self) -> None:
        if self.cursor != self._kept:  # a store that failed did not take it
            await self._keep()
        while True:
            self._awake.clear()
            page = await self._changes.page(self.cursor)
            whole = await self._work_off(page)
            if self.state is SubscriptionState.STOPPED or (whole and len(page) < limits.PAGE_LINES):
                await self._awake.wait()

    async def _work_off(self, page: Sequence[JournalEntry]) -> bool:
        """Send what is told in these lines; False as soon as one did not arrive."""
        self.waiting = sum(map(is_reported, page))
        for entry in page:
            if is_reported(entry):
                if self.state is SubscriptionState.STOPPED or not await self._deliver(entry):
                    return False
                self.waiting -= 1
            self.cursor = entry.number
            if is_reported(entry) or self.cursor - self._kept >= limits.PAGE_LINES:
                await self._keep()
        return True

    async def _deliver(self, entry: JournalEntry) -> bool:
        """One attempt; True when the message needs no other."""
        message = await self._changes.message(entry)
        answer: WebhookResponse | None = None
        try:
            answer = await self._sender.post(self.subscription, message)
            error = describe_failure(answer)
        except WebhookSendFailed as failure:
            error = str(failure)
        except FairwarningError as refusal:  # the host is no longer allowed, or moved
            error = refusal.message
        if not error:
            self._arrived()
            return True
        self.failed += 1
        self.last_error = error
        if answer is not None and answer.status == HTTPStatus.GONE:
            self._stop()
            return False
        return await self._later(entry, message, answer)

    def _arrived(self) -> None:
        self.delivered += 1
        self._failures = 0
        self.state = SubscriptionState.FOLLOWING
        self.last_error = ""

    def _stop(self) -> None:
        self.state = SubscriptionState.STOPPED
        log.warning("webhook %s stopped: the receiver is gone (410)", self.subscription.name)

    async def _later(
        self, entry: JournalEntry, message: WebhookMessage, answer: WebhookResponse | None
    ) -> bool:
        """Wait until the next attempt; True if there will be none."""
        now = self._outside.steady()
        if not self._failures:
            self._failing_since = now
            log.warning("webhook %s: %s", self.subscription.name, self.last_error)
        self._failures += 1
        self.state = SubscriptionState.RETRYING
        if now - self._failing_since >= self._give_up_seconds:
            self._give_up(entry, message)
            return True
        await self._outside.sleep(pause_seconds(self._failures, answer, self._outside))
        return False

    def _give_up(self, entry: JournalEntry, message: WebhookMessage) -> None:
        self.given_up += 1
        self._failures = 0
        self.dead.append(
            DeadLetter(
                number=entry.number,
                type=message.type,
                subject=message.subject,
                error=self.last_error,
            )
        )
        log.error(
            "webhook %s: journal line %d given up: %s",
            self.subscription.name, entry.number, self.last_error,
        )  # fmt: skip
