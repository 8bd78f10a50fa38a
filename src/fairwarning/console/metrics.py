"""Our figures as Prometheus reads them."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from fairwarning.service import metrics

Figures = Callable[[], Iterable[metrics.Metric]]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class _Figures(Collector):
    """Asked when somebody looks, so that counting costs the service nothing."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Each figure as a family."""
        for one in self._figures():
            family = GaugeMetricFamily if one.gauge else CounterMetricFamily
            shown = family(one.name, one.help, labels=[one.label] if one.label else [])
            for label, value in one.values.items():
                shown.add_metric([label] if one.label else [], value)
            yield shown


def exposition(figures: Figures) -> Callable[[], bytes]:
    """What /metrics answers, and the process's own figures with it."""
    registry = CollectorRegistry()
    registry.register(_Figures(figures))
    ProcessCollector(registry=registry)
    return lambda: generate_latest(registry)
