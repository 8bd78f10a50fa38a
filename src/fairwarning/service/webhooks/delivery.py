"""Deliver the journal to one subscription: in order, retrying each message until it arrives.

The cursor advances after the receiver has accepted a message, and is durable before the next
message is sent. A crash therefore repeats at most one message.
"""

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus

from fairwarning.core.errors import FairwarningError
from fairwarning.core.printable import printable
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.backoff import backoff_seconds
from fairwarning.service.webhooks.changes import MessageBuilder, is_reported
from fairwarning.service.webhooks.cursors import Cursors, DutyLost
from fairwarning.service.webhooks.environment import Environment
from fairwarning.service.webhooks.http_sender import (
    HttpSender,
    WebhookResponse,
    WebhookSendFailed,
    describe_failure,
)
from fairwarning.service.webhooks.subscription import Subscription, SubscriptionState
from fairwarning.store.store import JournalEntry

log = logging.getLogger(__name__)


class Delivery:
    """Follows the journal for one subscription, in a task of its own."""

    def __init__(
        self,
        subscription: Subscription,
        cursors: Cursors,
        builder: MessageBuilder,
        sender: HttpSender,
        environment: Environment,
    ) -> None:
        self.subscription = subscription
        self.cursor = 0
        self.waiting = 0  # messages in the page last read
        self.delivered = self.failed = self.given_up = 0
        self.saved_state = SubscriptionState.FOLLOWING  # the durable state
        self._cursors = cursors
        self._sender = sender
        self._builder = builder
        self._environment = environment
        self._awake = asyncio.Event()
        self._saved = 0  # the durable cursor
        self._stopped = False
        self._refusal = ""  # why the receiver has not accepted a message
        self._failures = 0  # consecutive, of the current message
        self._failing_since = 0.0
        self._problem = ""  # why this process cannot deliver, such as a cursor that was not saved
        self._problems = 0  # consecutive

    @property
    def last_error(self) -> str:
        """Why the last message has not arrived, or is not recorded; empty if it is."""
        return self._problem or self._refusal

    @property
    def state(self) -> SubscriptionState:
        """The state of the subscription."""
        if self._stopped:
            return SubscriptionState.STOPPED
        return SubscriptionState.RETRYING if self.last_error else SubscriptionState.FOLLOWING

    def wake(self) -> None:
        """Look for new journal lines."""
        self._awake.set()

    def resume(self) -> None:
        """Resume a stopped subscription whose receiver answers again."""
        if self._stopped:
            self._stopped, self._refusal, self._failures = False, "", 0
            self.saved_state = SubscriptionState.FOLLOWING
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
                self._hold(error.message)
            except Exception as error:
                log.exception("webhook %s: internal error; retrying", self.subscription.name)
                self._hold(f"internal error: {error}")
            seconds = backoff_seconds(self._problems, None, self._environment)
            await self._environment.sleep(seconds)

    def _hold(self, problem: str) -> None:
        if not self._problems:
            log.warning("webhook %s: held, retrying: %s", self.subscription.name, problem)
        self._problems += 1
        self._problem = printable(problem, limits.ERROR_CHARACTERS)

    async def _start(self) -> None:
        stored = await self._cursors.read(self.subscription)
        self.cursor = self._saved = stored.cursor
        self.saved_state = stored.state
        self._stopped = stored.state is SubscriptionState.STOPPED
        self._refusal = stored.last_error

    async def _save_cursor(self) -> None:
        number, subscription = self.cursor, self.subscription
        await self._cursors.save(subscription, subscription.cursor_note, str(number))
        self._saved = number
        self._problem, self._problems = "", 0

    async def _save_state(self) -> None:
        """Store a new state, so that every process shows it."""
        state, subscription = self.state, self.subscription
        if state is not self.saved_state:
            text = f"{state} {self._refusal if self._stopped else self.last_error}".strip()
            await self._cursors.save(subscription, subscription.state_note, text)
            self.saved_state = state

    async def _follow(self) -> None:
        await self._save_state()
        if self.cursor != self._saved:  # an earlier write failed
            await self._save_cursor()
        while True:
            self._awake.clear()
            page = await self._builder.page(self.cursor)
            if not self._stopped and any(map(is_reported, page)):
                # After the page was read: nothing in it follows the removal (IK5).
                await self._cursors.check(self.subscription)
            done = await self._send_page(page)
            self._problem, self._problems = "", 0
            await self._save_state()
            if self._stopped or (done and len(page) < limits.PAGE_LINES):
                await self._awake.wait()

    async def _send_page(self, page: Sequence[JournalEntry]) -> bool:
        """Send the messages of these lines; return False as soon as one fails."""
        self.waiting = sum(map(is_reported, page))
        for entry in page:
            if is_reported(entry):
                if self._stopped or not await self._deliver(entry):
                    return False
                self.waiting -= 1
            self.cursor = entry.number
            if is_reported(entry) or self.cursor - self._saved >= limits.PAGE_LINES:
                await self._save_cursor()
                await self._save_state()
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
        self._refusal = error
        if not error:
            self.delivered += 1
            self._failures = 0
            return True
        self.failed += 1
        if response is not None and response.status == HTTPStatus.GONE:
            await self._stop()
            return False
        return await self._back_off(entry, response)

    async def _stop(self) -> None:
        self._stopped = True
        await self._save_state()
        log.warning(
            "webhook %s stopped: the receiver answered 410 Gone; test it to resume, or remove it",
            self.subscription.name,
        )

    async def _back_off(self, entry: JournalEntry, response: WebhookResponse | None) -> bool:
        """Wait before the next attempt; return True if the message is dropped instead."""
        now, name = self._environment.monotonic(), self.subscription.name
        if not self._failures:
            self._failing_since = now
            log.warning("webhook %s: delivery failed, retrying: %s", name, self._refusal)
        self._failures += 1
        await self._save_state()
        if now - self._failing_since >= limits.GIVE_UP_SECONDS:
            self.given_up += 1
            self._failures = 0
            text = "webhook %s: gave up on journal line %d: %s"
            log.error(text, name, entry.number, self._refusal)
            return True
        await self._environment.sleep(backoff_seconds(self._failures, response, self._environment))
        return False
