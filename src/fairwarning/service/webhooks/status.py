"""The status, the health and the metrics of subscriptions."""

from collections.abc import Iterable, Mapping

from fairwarning.core.record import record
from fairwarning.service.metrics import Metric, counters
from fairwarning.service.webhooks.cursors import StoredProgress
from fairwarning.service.webhooks.delivery import Delivery
from fairwarning.service.webhooks.subscription import Subscription, SubscriptionState

_COUNTED = (
    ("delivered", "Messages that arrived."),
    ("failed", "Attempts that failed."),
    ("given_up", "Messages given up."),
)


@record
class SubscriptionStatus:
    """The status of a subscription.

    Counters are those of this process: zero when it starts, and while another process delivers.
    """

    name: str
    url: str  # its origin: a path or query may contain a key
    state: SubscriptionState
    cursor: int  # the last journal line it has handled
    last_error: str  # empty after a successful delivery
    delivered: int
    given_up: int


def subscription_status(
    subscription: Subscription, progress: StoredProgress | Delivery
) -> SubscriptionStatus:
    """The status of a subscription that this process delivers, or as another has stored it."""
    return SubscriptionStatus(
        name=subscription.name,
        url=subscription.origin,
        state=progress.state,
        cursor=progress.cursor,
        last_error=progress.last_error,
        delivered=progress.delivered,
        given_up=progress.given_up,
    )


def describe_failing(deliveries: Iterable[Delivery], count: int) -> str:
    """Say which of these deliveries fail, and why, of all; empty if none does."""
    failing = [each for each in deliveries if each.state is not SubscriptionState.FOLLOWING]
    if not failing:
        return ""
    reasons = "; ".join(f"{each.subscription.name}: {each.last_error}" for each in failing)
    verb = "is" if len(failing) == 1 else "are"
    return f"{len(failing)} of {count} {verb} failing: {reasons}"


def delivery_metrics(deliveries: Iterable[Delivery]) -> list[Metric]:
    """The metrics of deliveries, by subscription."""
    by_name = {delivery.subscription.name: delivery for delivery in deliveries}
    waiting = Metric(
        name="fairwarning_webhook_waiting",
        help="Messages that wait, among the next 1000 journal lines.",
        gauge=True,
        label="webhook",
        values={name: delivery.waiting for name, delivery in by_name.items()},
    )
    return [*(_counters(by_name, *counted) for counted in _COUNTED), waiting]


def _counters(deliveries: Mapping[str, Delivery], attribute: str, about: str) -> Metric:
    values = {name: getattr(delivery, attribute) for name, delivery in deliveries.items()}
    return counters(f"fairwarning_webhook_{attribute}", about, "webhook", values)
