"""The service's metrics in Prometheus text format."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from fairwarning.service import metrics

MetricSource = Callable[[], Iterable[metrics.Metric]]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class _MetricCollector(Collector):
    """Reads the metrics on each scrape, so that the service pays nothing between scrapes."""

    def __init__(self, source: MetricSource) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """Yield each metric as a Prometheus metric family."""
        for metric in self._source():
            family_type = GaugeMetricFamily if metric.gauge else CounterMetricFamily
            labels = [metric.label] if metric.label else []
            family = family_type(metric.name, metric.help, labels=labels)
            for label, value in metric.values.items():
                family.add_metric([label] if metric.label else [], value)
            yield family


def exposition(source: MetricSource) -> Callable[[], bytes]:
    """Return a function that renders the metrics, and those of the process, for /metrics."""
    registry = CollectorRegistry()
    registry.register(_MetricCollector(source))
    ProcessCollector(registry=registry)
    return lambda: generate_latest(registry)
