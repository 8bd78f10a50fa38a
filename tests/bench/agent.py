"""The agent at rest inside a machine: memory and CPU."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Semaphore, Thread

from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.processes import Process, cpu_seconds

_AGENT = "the agent at rest"
_PYTHON = "Python asleep"
_MEMORY = "resident MiB"
_SHARE = "% of a core"
_AT_MOST = {_MEMORY: 25.0, _SHARE: 0.2}
_DOCUMENT = b'{"DocumentIncarnation":1,"Events":[]}'
_ASLEEP = "import time\nprint('up', flush=True)\ntime.sleep(3600)"
_FIRST = 2  # polls until it is at rest
_READINGS = 10  # one-second polls per second of effort
_LONGEST_SECONDS = 60.0


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    with _endpoint() as (port, reads):
        runs = {
            _AGENT: partial(_agent, context, port, reads),
            _PYTHON: partial(_python, context),
        }
        rows = context.medians(runs)
    return Result(
        *described("agent", python=_PYTHON),
        rows=rows,
        targets=tuple(
            Target(f"{_AGENT}: {column}", rows[_AGENT][column], bound, at_least=False)
            for column, bound in _AT_MOST.items()
        ),
    )


@contextmanager
def _endpoint() -> Iterator[tuple[int, Semaphore]]:
    """Run a minimal endpoint; yield its port and its reads."""
    reads = Semaphore(0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(_DOCUMENT)))
            self.end_headers()
            self.wfile.write(_DOCUMENT)
            reads.release()

        def log_message(self, *_: object) -> None:
            """Log nothing: the log would be measured as well."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], reads
    finally:
        server.shutdown()
        server.server_close()


def _agent(context: BenchmarkContext, port: int, reads: Semaphore) -> dict[str, float]:
    folder = context.folder / "agent"
    folder.mkdir(exist_ok=True)
    config = folder / "agent.toml"
    config.write_text(
        f'endpoint = "http://127.0.0.1:{port}"\nname = "vm-1"\nstate = "{folder}/state"\n'
        'listen = "127.0.0.1:0"\n'
        '[[hook]]\nname = "drain"\nphase = "scheduled"\ncommand = ["true"]\n'
        '[[hook]]\nname = "back"\nphase = "over"\nurl = "http://127.0.0.1:1/"\n',
        encoding="utf-8",
    )
    words = ("-m", "fairwarning", "agent", "run", "--config", str(config))
    with Process([sys.executable, *words], folder / "log", _bare()) as process:
        _wait(reads, _FIRST)
        began, used = time.perf_counter(), cpu_seconds(process.pids())
        _wait(reads, 1 + int(context.effort.seconds * _READINGS))
        share = (cpu_seconds(process.pids()) - used) / (time.perf_counter() - began)
        return {_MEMORY: process.resident() / (1 << 20), _SHARE: share * 100}


def _wait(reads: Semaphore, count: int) -> None:
    for _ in range(count):
        assert reads.acquire(timeout=_LONGEST_SECONDS)


def _python(context: BenchmarkContext) -> dict[str, float]:
    with Process([sys.executable, "-c", _ASLEEP], context.folder / "log", _bare()) as process:
        process.line()
        return {_MEMORY: process.resident() / (1 << 20)}


def _bare() -> dict[str, str]:
    """The environment without coverage measurement."""
    return {name: "" for name in os.environ if "COVERAGE" in name}
