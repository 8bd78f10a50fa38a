"""Create, list, test and remove subscriptions, and run their deliveries."""

import asyncio
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from fairwarning.core.commands import Remove, Write
from fairwarning.core.errors import Conflict, FairwarningError, NotFound, Refused
from fairwarning.core.model import Resource
from fairwarning.core.printable import printable
from fairwarning.service.fleet import Fleet
from fairwarning.service.health import PartHealth
from fairwarning.service.metrics import Metric
from fairwarning.service.resources import WEBHOOKS
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.changes import MessageBuilder
from fairwarning.service.webhooks.cursors import Cursors
from fairwarning.service.webhooks.delivery import Delivery
from fairwarning.service.webhooks.environment import Environment
from fairwarning.service.webhooks.http_sender import (
    HttpSender,
    WebhookSendFailed,
    describe_failure,
)
from fairwarning.service.webhooks.messages import TYPES, WebhookMessage
from fairwarning.service.webhooks.status import (
    SubscriptionStatus,
    delivery_metrics,
    describe_failing,
    subscription_status,
)
from fairwarning.service.webhooks.subscription import (
    Subscription,
    SubscriptionState,
    check_name,
    check_secret,
    read,
    resource_id,
)
from fairwarning.service.webhooks.targets import AllowedTargets

log = logging.getLogger(__name__)


class WebhookService:
    """All subscriptions of a fleet."""

    def __init__(
        self,
        fleet: Fleet,
        targets: AllowedTargets,
        *,
        environment: Environment | None = None,
    ) -> None:
        self._fleet = fleet
        self._environment = environment or Environment()
        self._targets = targets
        self._sender = HttpSender(targets, self._environment)
        self._builder = MessageBuilder(fleet.store)
        self._cursors = Cursors(fleet)
        self._deliveries: dict[str, Delivery] = {}  # by resource id
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lock = asyncio.Lock()
        self._rescanner: asyncio.Task[None] | None = None
        self._problem = ""  # why some subscription is not followed

    async def start(self) -> None:
        """Resume every subscription at its cursor; if that fails, try again later."""
        self._fleet.publisher.readers.append(self._wake)
        await self._rescan()
        self._rescanner = asyncio.create_task(self._rescan_periodically(), name="webhooks")

    async def stop(self) -> None:
        """Stop all deliveries; they resume after the next start."""
        with suppress(ValueError):
            self._fleet.publisher.readers.remove(self._wake)
        if self._rescanner:
            self._rescanner.cancel()
            await asyncio.wait([self._rescanner])
        for name in list(self._deliveries):
            await self._remove_delivery(name)
        self._sender.close()

    def _wake(self) -> None:
        for delivery in self._deliveries.values():
            delivery.wake()

    async def _rescan_periodically(self) -> None:
        """Follow subscriptions of other processes, and take over from processes that ended."""
        while self._fleet.store.shared or self._problem:
            await asyncio.sleep(limits.RESCAN_SECONDS)
            await self._rescan()

    async def _rescan(self) -> None:
        """Make the deliveries match the stored subscriptions; one that fails stops no other."""
        problems: list[str] = []
        async with self._lock:
            with _noting(problems, "the subscriptions"):
                stored = await self._stored()
                for name in set(self._deliveries) - {resource.id for resource in stored}:
                    await self._remove_delivery(name)
                for resource in stored:
                    with _noting(problems, resource.name):
                        await self._add_delivery(read(resource))
        problem = "; ".join(problems)
        if problem and not self._problem:
            log.warning("webhooks are not followed, retrying: %s", problem)
        self._problem = problem

    async def _stored(self) -> list[Resource]:
        return await self._fleet.reader.resources(WEBHOOKS, WEBHOOKS, limits.SUBSCRIPTIONS)

    async def _add_delivery(self, subscription: Subscription) -> None:
        """Start a delivery, if this process has the duty for it."""
        name = subscription.id
        known = self._deliveries.get(name)
        if known is not None and known.subscription != subscription:
            await self._remove_delivery(name)  # it was removed and created again
        if name not in self._deliveries:
            self._deliveries[name] = Delivery(
                subscription,
                self._cursors,
                self._builder,
                self._sender,
                self._environment,
            )
        await self._follow_duty(self._deliveries[name])

    async def _follow_duty(self, delivery: Delivery) -> None:
        """Run a delivery while this process has its duty.

        A duty is claimed only while the delivery is not running, so that it starts at the cursor
        that the last holder of the duty has stored.
        """
        name, store = delivery.subscription.id, self._fleet.store
        if name in self._tasks and (self._tasks[name].done() or not await store.has_duty(name)):
            await self._stop_delivery(name)
        if name not in self._tasks:
            if await store.claim_duty(name):
                self._tasks[name] = asyncio.create_task(
                    delivery.run(), name=f"webhook {delivery.subscription.name}"
                )
        elif delivery.saved_state is SubscriptionState.STOPPED:
            stored = await self._cursors.read(delivery.subscription)
            if stored.state is not SubscriptionState.STOPPED:  # another process has tested it
                delivery.resume()

    async def _stop_delivery(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _remove_delivery(self, name: str) -> None:
        del self._deliveries[name]
        await self._stop_delivery(name)

    # --- Operator commands ---

    async def create(
        self,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        actor: str = "operator",
    ) -> Subscription:
        """Subscribe a receiver to new events."""
        check_name(name)
        if secret is None:
            secret = secrets.token_urlsafe(limits.SECRET_BYTES)
        check_secret(secret)
        subscription = Subscription(
            name=name,
            url=url,
            secret=secret,
            creation=secrets.token_hex(limits.CREATION_BYTES),
        )
        self._targets.check(url)
        # The caller may be cancelled here; a stored subscription must get its delivery anyway.
        await asyncio.shield(asyncio.create_task(self._store(subscription, actor)))
        return subscription

    async def _store(self, subscription: Subscription, actor: str) -> None:
        write = Write(
            resource=subscription.id,
            name=subscription.name,
            body=subscription.body(),
            at=0,
            actor=actor,
        )
        async with self._lock:
            stored = await self._stored()
            if any(resource.id == subscription.id for resource in stored):
                raise _exists(subscription.name)
            if len(stored) >= limits.SUBSCRIPTIONS:
                text = f"there are already {limits.SUBSCRIPTIONS} webhooks, which is the limit"
                raise Conflict("TooManyWebhooks", f"{text}; remove one first")
            try:
                await self._fleet.submit(write)
            except Conflict:
                raise _exists(subscription.name) from None
            await self._add_delivery(subscription)

    async def remove(self, name: str, *, actor: str = "operator") -> None:
        """Remove a subscription; abort a delivery in progress."""
        check_name(name)
        await asyncio.shield(asyncio.create_task(self._delete(name, actor)))

    async def _delete(self, name: str, actor: str) -> None:
        resource = resource_id(name)
        operation = f"remove webhook {secrets.token_hex(8)}"
        async with self._lock:
            try:
                await self._fleet.submit(
                    Remove(resource=resource, operation=operation, actor=actor)
                )
            except NotFound:
                raise _unknown(name) from None
            if resource in self._deliveries:
                await self._remove_delivery(resource)

    async def test(self, name: str) -> int:
        """Send a test message and return the status of the response.

        A success resumes a stopped subscription.
        """
        resource = await self._fleet.reader.read(Resource, resource_id(name))
        if resource is None:
            raise _unknown(name)
        try:
            subscription = read(resource)
        except msgspec.DecodeError:
            raise Conflict("Unreadable", f"webhook {name!r} cannot be decoded; remove it") from None
        ping = WebhookMessage(
            id=f"ping-{secrets.token_hex(8)}",
            type=f"{TYPES}ping",
            scope="",
            subject=subscription.name,
            at=self._fleet.clock.now(),
            data={"Webhook": subscription.name},
        )
        try:
            response = await self._sender.post(subscription, ping)
        except WebhookSendFailed as failure:
            raise Refused("NoAnswer", f"webhook {name!r} did not answer: {failure}") from None
        if not describe_failure(response):
            await self._cursors.resume(subscription)
            if subscription.id in self._deliveries:
                self._deliveries[subscription.id].resume()
        return response.status

    def metrics(self) -> list[Metric]:
        """The metrics of the deliveries, by subscription."""
        return delivery_metrics(self._deliveries.values())

    def health(self) -> PartHealth:
        """Whether the subscriptions are followed, and the receivers of this process answer."""
        running = [self._deliveries[name] for name in self._tasks if name in self._deliveries]
        problem = self._problem or describe_failing(running, len(self._deliveries))
        return PartHealth(name="webhooks", problem=problem)

    async def list(self) -> list[SubscriptionStatus]:
        """All subscriptions, by name; without their secrets and the paths of their URLs."""
        statuses = []
        for resource in await self._stored():
            with suppress(msgspec.DecodeError):  # `health` reports it
                statuses.append(await self._status(read(resource)))
        return statuses

    async def _status(self, subscription: Subscription) -> SubscriptionStatus:
        """The status here, or as stored by the process that delivers."""
        if subscription.id in self._tasks:
            return subscription_status(subscription, self._deliveries[subscription.id])
        return subscription_status(subscription, await self._cursors.read(subscription))


@contextmanager
def _noting(problems: list[str], name: str) -> Iterator[None]:
    """Go on after a failure, and note it."""
    try:
        yield
    except msgspec.DecodeError:
        problems.append(f"{name}: cannot be decoded; remove it")
    except FairwarningError as error:
        problems.append(f"{name}: {error.message}")
    except Exception as error:
        log.exception("webhooks: internal error; retrying")
        problems.append(f"{name}: internal error: {printable(str(error))}")


def _exists(name: str) -> Conflict:
    return Conflict(
        "WebhookExists", f"a webhook {name!r} already exists; remove it, or choose another name"
    )


def _unknown(name: str) -> NotFound:
    return NotFound(
        "UnknownWebhook", f"there is no webhook {name[:60]!r}; list the webhooks to see their names"
    )
