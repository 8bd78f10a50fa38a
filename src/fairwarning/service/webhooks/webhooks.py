"""The public face: make, list, try and remove subscriptions, and keep their deliveries going."""

import asyncio
import logging
import secrets
from contextlib import suppress
from dataclasses import field

import msgspec

from fairwarning.core.commands import Remove, Write
from fairwarning.core.errors import Conflict, NotFound, Refused, Unavailable
from fairwarning.core.record import record
from fairwarning.service.fleet import Fleet
from fairwarning.service.metrics import Metric, counters
from fairwarning.service.resources import WEBHOOKS
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.changes import MessageBuilder
from fairwarning.service.webhooks.cursors import Cursors
from fairwarning.service.webhooks.delivery import DeadLetter, Delivery, SubscriptionState
from fairwarning.service.webhooks.handshake import confirm_receiver
from fairwarning.service.webhooks.messages import TYPES, WebhookMessage
from fairwarning.service.webhooks.outside import Environment
from fairwarning.service.webhooks.posting import HttpSender, WebhookSendFailed
from fairwarning.service.webhooks.sending import Sender, describe_failure
from fairwarning.service.webhooks.subscription import (
    MessageFormat,
    Subscription,
    check_form,
    check_name,
    check_secret,
    read,
    resource_id,
)
from fairwarning.service.webhooks.targets import AllowedTargets

log = logging.getLogger(__name__)


@record
class CreatedSubscription:
    """A new subscription, and the only time its secret is shown."""

    name: str
    url: str
    form: MessageFormat
    secret: str = field(repr=False)


@record
class SubscriptionStatus:
    """How a subscription is. What is counted is counted since the service started."""

    name: str
    url: str
    form: MessageFormat
    state: SubscriptionState
    cursor: int  # the journal line it has got to
    waiting: int  # messages among the journal lines last read, of which there are at most 1000
    delivered: int
    failed: int  # attempts
    given_up: int
    last_error: str  # empty once a message arrived
    dead: tuple[DeadLetter, ...]  # the latest of those given up


class WebhookService:
    """All subscriptions of a fleet."""

    def __init__(
        self,
        fleet: Fleet,
        targets: AllowedTargets,
        *,
        outside: Environment | None = None,
        give_up_seconds: float = limits.GIVE_UP_SECONDS,
    ) -> None:
        self._fleet = fleet
        self._outside = outside or Environment()
        self._targets = targets
        self._poster = HttpSender(self._outside)
        self._sender = Sender(targets, self._poster, self._outside)
        self._changes = MessageBuilder(fleet.store)
        self._cursors = Cursors(fleet)
        self._give_up_seconds = give_up_seconds
        self._deliveries: dict[str, Delivery] = {}  # by resource id
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changing = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take up every subscription where it was."""
        self._fleet.readers.append(self._wake)
        await self._look()
        if self._fleet.store.shared:
            self._looking = asyncio.create_task(self._keep_looking(), name="webhooks")

    async def stop(self) -> None:
        """Send nothing more; what was not sent is sent after the next start."""
        with suppress(ValueError):
            self._fleet.readers.remove(self._wake)
        if self._looking:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for name in list(self._deliveries):
            await self._end(name)
        self._poster.close()

    def _wake(self) -> None:
        for delivery in self._deliveries.values():
            delivery.wake()

    async def _keep_looking(self) -> None:
        """Other processes subscribe, and end; what they leave is taken over."""
        while True:
            await asyncio.sleep(limits.LOOK_SECONDS)
            try:
                async with self._changing:
                    await self._look()
            except Unavailable:
                continue  # the store is away

    async def _look(self) -> None:
        """Have a delivery for each subscription there is."""
        found = await self._fleet.reader.resources(WEBHOOKS, WEBHOOKS, limits.SUBSCRIPTIONS)
        for name in set(self._deliveries) - {resource.id for resource in found}:
            await self._end(name)
        for resource in found:
            try:
                await self._begin(read(resource))
            except msgspec.DecodeError:
                log.exception("webhook %s cannot be read; remove it", resource.name)

    async def _begin(self, subscription: Subscription) -> None:
        """Deliver; of several processes, one does."""
        name = subscription.id
        if name not in self._deliveries:
            self._deliveries[name] = Delivery(
                subscription,
                self._cursors,
                self._changes,
                self._sender,
                self._outside,
                give_up_seconds=self._give_up_seconds,
            )
        if not await self._fleet.store.claim_duty(name):
            await self._rest(name)
        elif name not in self._tasks:
            self._tasks[name] = asyncio.create_task(
                self._deliveries[name].run(), name=f"webhook {subscription.name}"
            )

    async def _rest(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _end(self, name: str) -> None:
        del self._deliveries[name]
        await self._rest(name)

    # --- What an operator may do ---

    async def create(
        self,
        name: str,
        url: str,
        form: str = MessageFormat.CLOUDEVENTS,
        *,
        secret: str | None = None,
        handshake: bool = True,
        actor: str = "operator",
    ) -> CreatedSubscription:
        """Subscribe, from now on; unless told otherwise the receiver has to agree first."""
        check_name(name)
        if secret is None:
            secret = secrets.token_urlsafe(limits.SECRET_BYTES)
        check_secret(secret)
        subscription = Subscription(name=name, url=url, form=check_form(form), secret=secret)
        self._targets.check(url)
        self._check_room(subscription)
        if handshake:
            await confirm_receiver(self._sender, subscription, self._fleet.clock.now())
        # Whoever asked may be gone by now; what is written is delivered all the same.
        await asyncio.shield(asyncio.create_task(self._enter(subscription, actor)))
        return CreatedSubscription(name=name, url=url, form=subscription.form, secret=secret)

    def _check_room(self, subscription: Subscription) -> None:
        if subscription.id in self._deliveries:
            raise _exists(subscription.name)
        if len(self._deliveries) >= limits.SUBSCRIPTIONS:
            raise Conflict(
                "TooManyWebhooks", f"there are {limits.SUBSCRIPTIONS} webhooks; remove one first"
            )

    async def _enter(self, one: Subscription, actor: str) -> None:
        write = Write(resource=one.id, name=one.name, body=one.body(), at=0, actor=actor)
        async with self._changing:
            self._check_room(one)
            try:
                await self._fleet.submit(write)
            except Conflict:
                raise _exists(one.name) from None
            await self._begin(one)

    async def remove(self, name: str, *, actor: str = "operator") -> None:
        """End a subscription; a message that is on its way is cut off."""
        check_name(name)
        await asyncio.shield(asyncio.create_task(self._leave(name, actor)))

    async def _leave(self, name: str, actor: str) -> None:
        found = resource_id(name)
        operation = f"remove webhook {secrets.token_hex(8)}"
        async with self._changing:
            try:
                await self._fleet.submit(Remove(resource=found, operation=operation, actor=actor))
            except NotFound:
                raise _unknown(name) from None
            if found in self._deliveries:
                await self._end(found)

    async def test(self, name: str) -> int:
        """Send a message that is about nothing; the status of the answer.

        If it is a success, a subscription that had stopped goes on.
        """
        delivery = self._deliveries.get(resource_id(name))
        if delivery is None:
            raise _unknown(name)
        ping = WebhookMessage(
            id=f"ping-{secrets.token_hex(8)}",
            type=f"{TYPES}ping",
            scope="",
            subject=delivery.subscription.name,
            at=self._fleet.clock.now(),
            data={"Webhook": delivery.subscription.name},
        )
        try:
            answer = await self._sender.post(delivery.subscription, ping)
        except WebhookSendFailed as failure:
            raise Refused("NoAnswer", f"webhook {name!r} did not answer: {failure}") from None
        if not describe_failure(answer):
            delivery.resume()
        return answer.status

    def metrics(self) -> list[Metric]:
        """Figures about the deliveries, by subscription."""
        all_of = [(one.subscription.name, one) for one in self._deliveries.values()]
        return [
            counters(
                "fairwarning_webhook_delivered", "Messages that arrived.", "webhook",
                {name: one.delivered for name, one in all_of},
            ),
            counters(
                "fairwarning_webhook_failed", "Attempts that failed.", "webhook",
                {name: one.failed for name, one in all_of},
            ),
            counters(
                "fairwarning_webhook_given_up", "Messages given up.", "webhook",
                {name: one.given_up for name, one in all_of},
            ),
            Metric(
                name="fairwarning_webhook_waiting",
                help="Messages that wait, among the next 1000 journal lines.",
                gauge=True,
                label="webhook",
                values={name: one.waiting for name, one in all_of},
            ),
        ]  # fmt: skip

    async def list(self) -> list[SubscriptionStatus]:
        """All subscriptions, by name; without their secrets."""
        return [_status(self._deliveries[name]) for name in sorted(self._deliveries)]


def _status(delivery: Delivery) -> SubscriptionStatus:
    return SubscriptionStatus(
        name=delivery.subscription.name,
        url=delivery.subscription.url,
        form=delivery.subscription.form,
        state=delivery.state,
        cursor=delivery.cursor,
        waiting=delivery.waiting,
        delivered=delivery.delivered,
        failed=delivery.failed,
        given_up=delivery.given_up,
        last_error=delivery.last_error,
        dead=tuple(delivery.dead),
    )


def _exists(name: str) -> Conflict:
    return Conflict(
        "WebhookExists", f"there is a webhook {name!r} already; remove it, or pick another name"
    )


def _unknown(name: str) -> NotFound:
    return NotFound(
        "UnknownWebhook", f"there is no webhook {name[:60]!r}; `fairwarning webhook list` names all"
    )
