"""The status and the metrics of subscriptions."""

from collections.abc import Iterable

from fairwarning.core.record import changed, record
from fairwarning.service.metrics import Metric, counters
from fairwarning.service.webhooks.cursors import StoredProgress
from fairwarning.service.webhooks.delivery import DeadLetter, Delivery
from fairwarning.service.webhooks.subscription import (
    MessageFormat,
    Subscription,
    SubscriptionState,
)


@record
class SubscriptionStatus:
    """The status of a subscription.

    Counters are those of this process: zero when it starts, and while another process delivers.
    """

    name: str
    url: str
    form: MessageFormat
    state: SubscriptionState
    cursor: int  # the last journal line it has handled
    last_error: str  # empty after a successful delivery
    waiting: int = 0  # pending messages in the last page of at most 1000 journal lines
    delivered: int = 0
    failed: int = 0  # attempts
    given_up: int = 0
    dead: tuple[DeadLetter, ...] = ()  # the latest dropped messages


def running_status(delivery: Delivery) -> SubscriptionStatus:
    """The status of a subscription that this process delivers."""
    stored = StoredProgress(cursor=delivery.cursor, state=delivery.state, error=delivery.last_error)
    return changed(
        stored_status(delivery.subscription, stored),
        waiting=delivery.waiting,
        delivered=delivery.delivered,
        failed=delivery.failed,
        given_up=delivery.given_up,
        dead=tuple(delivery.dead),
    )


def stored_status(subscription: Subscription, stored: StoredProgress) -> SubscriptionStatus:
    """The status of a subscription that another process delivers."""
    return SubscriptionStatus(
        name=subscription.name,
        url=subscription.url,
        form=subscription.form,
        state=stored.state,
        cursor=stored.cursor,
        last_error=stored.error,
    )


def delivery_metrics(deliveries: Iterable[Delivery]) -> list[Metric]:
    """The metrics of deliveries, by subscription."""
    by_name = {delivery.subscription.name: delivery for delivery in deliveries}
    return [
        counters(
            "fairwarning_webhook_delivered", "Messages that arrived.", "webhook",
            {name: delivery.delivered for name, delivery in by_name.items()},
        ),
        counters(
            "fairwarning_webhook_failed", "Attempts that failed.", "webhook",
            {name: delivery.failed for name, delivery in by_name.items()},
        ),
        counters(
            "fairwarning_webhook_given_up", "Messages given up.", "webhook",
            {name: delivery.given_up for name, delivery in by_name.items()},
        ),
        Metric(
            name="fairwarning_webhook_waiting",
            help="Messages that wait, among the next 1000 journal lines.",
            gauge=True,
            label="webhook",
            values={name: delivery.waiting for name, delivery in by_name.items()},
        ),
    ]  # fmt: skip
