"""Health, and the metrics in Prometheus text format: endpoints that need no token (O10)."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairwarning.console.api.section import ConsoleParts
from fairwarning.console.api.service import read_health
from fairwarning.service.metrics import Metric as ServiceMetric


class _MetricCollector(Collector):
    """Reads the metrics on each scrape, so that the service pays nothing between scrapes."""

    def __init__(self, source: Callable[[], Iterable[ServiceMetric]]) -> None:
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


class Scrapes:
    """Renders the metrics once for all requests that wait: anybody may ask, any number of times."""

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render
        self._waiting: list[asyncio.Future[bytes]] = []
        self._rendering: asyncio.Task[None] | None = None

    async def render(self) -> bytes:
        """Return the metrics as they are now, or in a moment."""
        scrape = asyncio.get_running_loop().create_future()
        self._waiting.append(scrape)
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.create_task(self._answer())
        body: bytes = await scrape
        return body

    async def _answer(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                body = self._render()
            except Exception as error:  # noqa: BLE001  (of every request that waits)
                for scrape in waiting:
                    if not scrape.done():
                        scrape.set_exception(error)
                continue
            for scrape in waiting:
                if not scrape.done():  # else its client has gone
                    scrape.set_result(body)
                    await asyncio.sleep(0)  # one in a turn of the event loop


def health_routes(parts: ConsoleParts) -> list[Route]:
    """Return the routes of health and metrics."""
    registry = CollectorRegistry()
    registry.register(_MetricCollector(parts.metrics))
    ProcessCollector(registry=registry)
    scrapes = Scrapes(partial(generate_latest, registry))

    async def healthz(_: Request) -> Response:
        """Report that the process is alive."""
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        """Report whether the service accepts commands, and the problem of each part (IB5)."""
        health = await read_health(parts.fleet, parts.health)
        error = {"error": health.problem} if health.problem else {}
        listed = [{"name": part.name, "problem": part.problem} for part in health.parts]
        answer = {"status": health.status, **error, "parts": listed}
        return JSONResponse(answer, 503 if health.problem else 200)

    async def metrics(_: Request) -> Response:
        return Response(await scrapes.render(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
