"""How the parts of the service are, for `/readyz`, metrics and the page."""

from collections.abc import Callable, Iterable

from fairwarning.core.record import record
from fairwarning.service.metrics import Metric


@record
class PartHealth:
    """How one part of the service is; `problem` is empty while it works."""

    name: str
    problem: str = ""
    stops_writes: bool = False  # /readyz is then 503; any other problem is 200 with "degraded"


HealthSource = Callable[[], Iterable[PartHealth]]


def health_metric(parts: Iterable[PartHealth]) -> Metric:
    """Return the health of each part as a gauge."""
    return Metric(
        name="fairwarning_part_healthy",
        help="1 while a part of the service works.",
        gauge=True,
        label="part",
        values={part.name: float(not part.problem) for part in parts},
    )
