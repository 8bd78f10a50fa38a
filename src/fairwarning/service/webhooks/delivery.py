"""Deliver the journal to one subscription: in order, retrying each message until it arrives.

The cursor advances after the receiver has accepted a message, and is durable before the next
message is sent. A crash therefore repeats at most one message.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from http import HTTPStatus

from fairwarning.core.errors import FairwarningError
from fairwarning.core.record import record
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.backoff import backoff_seconds
from fairwarning.service.webhooks.changes import MessageBuilder, is_reported
from fairwarning.service.webhooks.cursors import Cursors, DutyLost
from fairwarning.service.webhooks.environment import Environment
from fairwarning.service.webhooks.http_sender import WebhookResponse, WebhookSendFailed
from fairwarning.service.webhooks.messages import WebhookMessage
from fairwarning.service.webhooks.sender import Sender, describe_failure
from fairwarning.service.webhooks.subscription import Subscription, SubscriptionState
from fairwarning.store.store import JournalEntry

log = logging.getLogger(__name__)


@record
class DeadLetter:
    """A message that could not be delivered and was dropped."""

    number: int  # of its journal line, which stays in the journal
    type: str
    subject: str
    error: str


class Delivery:
    """Follows the journal for one subscription, in a task of its own."""

    def __init__(
        self,
        subscription: Subscription,
        cursors: Cursors,
        builder: MessageBuilder,
        sender: Sender,
        environment: Environment,
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
        self._builder = builder
        self._environment = environment
        self._give_up_seconds = give_up_seconds
        self._awake = asyncio.Event()
        self._saved = 0  # the durable cursor
        self._saved_state = SubscriptionState.FOLLOWING  # the durable state
        self._failures = 0  # consecutive, of the current message
        self._failing_since = 0.0

    def wake(self) -> None:
        """Look for new journal lines."""
        self._awake.set()

    def resume(self) -> None:
        """Resume a stopped subscription whose receiver answers again."""
        if self.state is SubscriptionState.STOPPED:
            self.state = self._saved_state = SubscriptionState.FOLLOWING
        self._awake.set()

    async def run(self) -> None:
        """Deliver while this process has the duty; retry later if the store fails."""
        started = False
        while True:
            try:
                if not started:
                    await self._start()
                    started = True
                await self._follow()
            except DutyLost:
                return
            except FairwarningError as error:
                self.last_error = error.message
            except Exception as error:
                log.exception("webhook %s: internal error; retrying", self.subscription.name)
                self.last_error = f"internal error: {error}"
            await self._environment.sleep(backoff_seconds(1, None, self._environment))

    async def _start(self) -> None:
        stored = await self._cursors.start(self.subscription)
        self.cursor = self._saved = stored.cursor
        self.state = self._saved_state = stored.state
        self.last_error = stored.error

    async def _save_cursor(self) -> None:
        number = self.cursor
        await self._cursors.save_cursor(self.subscription, number)
        self._saved = number

    async def _save_state(self, state: SubscriptionState) -> None:
        """Store a new state, so that every process shows it."""
        if state is not self._saved_state:
            await self._cursors.save_state(self.subscription, state, self.last_error)
            self._saved_state = state
        self.state = state

    async def _follow(self) -> None:
        if self.cursor != self._saved:  # an earlier write failed
            await self._save_cursor()
        await self._save_state(self.state)
        while True:
            self._awake.clear()
            page = await self._builder.page(self.cursor)
            if self.state is not SubscriptionState.STOPPED and any(map(is_reported, page)):
                # After the page was read: nothing in it follows the removal (IK5).
                await self._cursors.check(self.subscription)
            done = await self._send_page(page)
            if self.state is SubscriptionState.STOPPED or (done and len(page) < limits.PAGE_LINES):
                await self._awake.wait()

    async def _send_page(self, page: Sequence[JournalEntry]) -> bool:
        """Send the messages of these lines; return False as soon as one fails."""
        self.waiting = sum(map(is_reported, page))
        for entry in page:
            if is_reported(entry):
                if self.state is SubscriptionState.STOPPED or not await self._deliver(entry):
                    return False
                self.waiting -= 1
            self.cursor = entry.number
            if is_reported(entry) or self.cursor - self._saved >= limits.PAGE_LINES:
                await self._save_cursor()
                await self._save_state(self.state)
        return True

    async def _deliver(self, entry: JournalEntry) -> bool:
        """Attempt a delivery; return True if the message needs no further attempt."""
        message = await self._builder.message(entry)
        response: WebhookResponse | None = None
        try:
            response = await self._sender.post(self.subscription, message)
            error = describe_failure(response)
        except WebhookSendFailed as failure:
            error = str(failure)
        except FairwarningError as refusal:  # the host or its new address is not allowed
            error = refusal.message
        if not error:
            self._record_success()
            return True
        self.failed += 1
        self.last_error = error
        if response is not None and response.status == HTTPStatus.GONE:
            await self._stop()
            return False
        return await self._back_off(entry, message, response)

    def _record_success(self) -> None:
        self.delivered += 1
        self._failures = 0
        self.state = SubscriptionState.FOLLOWING
        self.last_error = ""

    async def _stop(self) -> None:
        await self._save_state(SubscriptionState.STOPPED)
        log.warning(
            "webhook %s stopped: the receiver answered 410 Gone; test it to resume, or remove it",
            self.subscription.name,
        )

    async def _back_off(
        self, entry: JournalEntry, message: WebhookMessage, response: WebhookResponse | None
    ) -> bool:
        """Wait before the next attempt; return True if the message is dropped instead."""
        now = self._environment.monotonic()
        if not self._failures:
            self._failing_since = now
            log.warning(
                "webhook %s: delivery failed, retrying: %s", self.subscription.name, self.last_error
            )
        self._failures += 1
        await self._save_state(SubscriptionState.RETRYING)
        if now - self._failing_since >= self._give_up_seconds:
            self._give_up(entry, message)
            return True
        await self._environment.sleep(backoff_seconds(self._failures, response, self._environment))
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
            "webhook %s: gave up on journal line %d: %s",
            self.subscription.name, entry.number, self.last_error,
        )  # fmt: skip
