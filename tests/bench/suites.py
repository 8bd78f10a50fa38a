"""The pytest plugin: what it costs a suite that does not use it, and what a cloud costs."""

import asyncio
import os
import resource
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

from fairwarning.testing.cloud import Cloud
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.measure import Sample, repeat

_WITHOUT = "pytest, an empty suite"
_EMPTY = "the same, with an empty plugin"
_WITH = "the same, with our plugin"
_THREAD = "a thread that runs an event loop"
_CLOUD = "a cloud"
_MACHINE = "a cloud with one machine"
_MORE_AT_MOST = 1.02
_CLOUD_MS_AT_MOST = 1.0
_RUNS = 5  # of pytest, per round; the one that took the least CPU counts
_CLOUDS = 20  # at once


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    empty = context.folder / "empty"
    empty.mkdir(exist_ok=True)
    (empty / "empty_plugin.py").write_text("import pytest\n", "utf-8")
    taken = context.samples(
        {
            _WITHOUT: partial(_pytest, context, empty),
            _EMPTY: partial(_pytest, context, empty, "-p", "empty_plugin"),
            _WITH: partial(_pytest, context, empty, "-p", "fairwarning.pytest_plugin"),
            _THREAD: partial(repeat, _run_thread, context.effort.seconds, _CLOUDS),
            _CLOUD: partial(repeat, _run_cloud, context.effort.seconds, _CLOUDS),
            _MACHINE: partial(repeat, _run_machine, context.effort.seconds, _CLOUDS),
        }
    )
    more = taken[_WITH].cpu / taken[_EMPTY].cpu
    return Result(
        *described("suites"),
        rows={
            name: {"CPU ms": sample.cpu * 1e3, "wall ms": sample.wall * 1e3}
            for name, sample in taken.items()
        },
        targets=(
            Target(
                "CPU, an empty suite: our plugin ÷ an empty one",
                more,
                _MORE_AT_MOST,
                at_least=False,
            ),
            Target("CPU ms, a cloud", taken[_CLOUD].cpu * 1e3, _CLOUD_MS_AT_MOST, at_least=False),
        ),
    )


def _pytest(context: BenchmarkContext, folder: Path, *words: str) -> Sample:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-pno:cacheprovider", *words]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    samples = []
    for _ in range(_RUNS if context.effort.apart else 1):
        before, began = _cpu_of_children(), time.perf_counter()
        subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
        cpu = _cpu_of_children() - before
        samples.append(Sample(1, cpu, cpu, time.perf_counter() - began))
    return min(samples, key=lambda sample: sample.cpu)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _run_thread() -> None:
    thread = threading.Thread(target=lambda: asyncio.run(asyncio.sleep(0)))
    thread.start()
    thread.join()


def _run_cloud() -> None:
    Cloud("").close()


def _run_machine() -> None:
    cloud = Cloud("")
    cloud.machine("web")
    cloud.close()
