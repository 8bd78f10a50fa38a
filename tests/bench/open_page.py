"""What an open page of the web console costs while the fleet changes (O14)."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from statistics import median

from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.processes import cpu_seconds
from tests.fixtures.service import ServiceProcess

_MACHINES = 10_000
_SETS = 200
_CHANGES = 50  # a second
_PAGES = {"no page": "", "first page": "/", "events": "/events", "machines": "/machines"}
_AT_MOST_KB = 20.0
_AT_MOST_SHARE = 5.0  # percent of a core
_KB = 1000
_SETTLE_SECONDS = 0.5
_LOOK_SECONDS = 0.05


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    machines = min(context.effort.machines, _MACHINES)
    data = context.folder / "open-page"
    with ServiceProcess(data, "--memory", fleet=_fleet(machines), fork=False) as service:
        service.poll("set0_0")
        service.ok("POST", "/api/sets/set0/restart", {})
        with _changing(service):
            runs: dict[str, Callable[[], _Sample]] = {
                name: partial(_watch, service, path, max(context.effort.seconds * 5, 0.1))
                for name, path in _PAGES.items()
            }
            samples = context.in_turn(runs)
    rows = _rows(samples, samples.pop("no page"))
    return Result(
        *described("open-page", machines=machines, changes=_CHANGES),
        rows=rows,
        targets=(
            Target("KB a second, worst page", _worst(rows, "KB/s"), _AT_MOST_KB, at_least=False),
            Target("% of a core, worst page", _worst(rows, "CPU %"), _AT_MOST_SHARE,
                   at_least=False),
        ),
    )  # fmt: skip


def _fleet(machines: int) -> str:
    size = max(machines // _SETS, 1)
    return "".join(f'[[scale_set]]\nname = "set{n}"\ncapacity = {size}\n' for n in range(_SETS))


def _rows(
    samples: dict[str, list["_Sample"]], without: list["_Sample"]
) -> dict[str, dict[str, float]]:
    base = median(sample.cpu for sample in without)
    return {
        name: {
            "KB/s": median(sample.rate(sample.received / _KB) for sample in taken),
            "fetches/s": median(sample.rate(sample.fetches) for sample in taken),
            "CPU %": median(100 * (sample.cpu - base) for sample in taken),
        }
        for name, taken in samples.items()
    }


def _worst(rows: dict[str, dict[str, float]], column: str) -> float:
    return max(row[column] for row in rows.values())


@contextmanager
def _changing(service: ServiceProcess) -> Iterator[None]:
    """Stop and start machines of sets that nobody polls, at a steady rate."""
    ended = threading.Event()

    def change() -> None:
        began = time.monotonic()
        actions = cycle(("stop", "start"))
        for number in count():
            machine = f"set{1 + number // 2 % (_SETS - 1)}_0"
            service.api("POST", f"/api/machines/{machine}/{next(actions)}", {})
            if ended.wait(max(began + number / _CHANGES - time.monotonic(), 0)):
                return

    changer = threading.Thread(target=change)
    changer.start()
    try:
        yield
    finally:
        ended.set()
        changer.join()


@dataclass
class _Sample:
    seconds: float = 0.0
    received: int = 0  # bytes
    fetches: int = 0
    cpu: float = 0.0  # seconds of CPU time a second

    def rate(self, total: float) -> float:
        return total / self.seconds


def _watch(service: ServiceProcess, path: str, seconds: float) -> _Sample:
    """Keep a page open for a while; without a path, only wait."""
    sample = _Sample()
    ended, threads = threading.Event(), []
    if path:
        threads = [threading.Thread(target=_page, args=(service, path, sample, ended))]
        threads[0].start()
    time.sleep(_SETTLE_SECONDS)
    sample.received = sample.fetches = 0
    cpu, began = cpu_seconds([service.process.pid]), time.monotonic()
    ended.wait(seconds)
    while path and not sample.fetches:
        time.sleep(_LOOK_SECONDS)
    sample.seconds = time.monotonic() - began
    sample.cpu = (cpu_seconds([service.process.pid]) - cpu) / sample.seconds
    ended.set()
    for thread in threads:
        thread.join()
    return sample


def _page(service: ServiceProcess, path: str, sample: _Sample, ended: threading.Event) -> None:
    """Do what page.js does: fetch the page at each message, less often if it is slow."""
    host = service.ready["console"].removeprefix("http://")
    headers = {"Authorization": f"Bearer {service.ready['token']}", "Accept-Encoding": "gzip"}
    stream = http.client.HTTPConnection(host)
    stream.request("GET", "/api/stream?brief=true", headers=headers)
    messages = stream.getresponse()
    while not ended.is_set():
        line = messages.readline()
        sample.received += len(line)
        if not line.startswith(b"event:"):
            continue
        began = time.monotonic()
        page = http.client.HTTPConnection(host)
        page.request("GET", path, headers=headers | {"X-Page": path})
        sample.received += len(page.getresponse().read())
        sample.fetches += 1
        page.close()
        ended.wait(0.15 + 4 * (time.monotonic() - began))
    stream.close()
