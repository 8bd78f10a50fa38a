"""What the agent inside a machine takes while nothing happens: memory, and a share of a core."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median

from tests.bench.figures import Result, Target
from tests.bench.processes import Process, cpu_seconds
from tests.bench.stage import Stage

_AGENT = "the agent at rest"
_PYTHON = "Python asleep"
_MEMORY = "resident MiB"
_SHARE = "% of a core"
_AT_MOST = {_MEMORY: 25.0, _SHARE: 0.2}
_DOCUMENT = b'{"DocumentIncarnation":1,"Events":[]}'
_ASLEEP = "import time\nprint('up', flush=True)\ntime.sleep(3600)"
_FIRST = 2  # readings after which it is at rest
_READINGS = 10  # a second's each, for a second of the effort
_LONGEST_SECONDS = 60.0


def run(stage: Stage) -> Result:
    """Measure."""
    with _endpoint() as (port, readings):
        runs = {_AGENT: partial(_agent, stage, port, readings), _PYTHON: partial(_python, stage)}
        stage.expect(len(runs) * stage.effort.rounds)
        taken = stage.in_turn(runs)
    rows = {
        name: {column: median(one[column] for one in found) for column in found[0]}
        for name, found in taken.items()
    }
    return Result(
        name="agent",
        title="The agent at rest",
        about="`fairwarning agent run` with two hooks, its own server and nothing to do, against "
        "an endpoint that holds no request and knows no ETag, so that it asks once a second and "
        "reads the whole document: what is resident, and the CPU time of all its threads from one "
        f"reading to another. Beside it: {_PYTHON}, which has imported nothing.",
        rows=rows,
        targets=tuple(
            Target(f"{_AGENT}: {column}", rows[_AGENT][column], bound, at_least=False)
            for column, bound in _AT_MOST.items()
        ),
    )


class _Readings:
    """How often the document was read, and a way to wait for that."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def add(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def more(self, count: int) -> None:
        """Return after so many more."""
        with self._changed:
            goal = self._count + count
            assert self._changed.wait_for(lambda: self._count >= goal, _LONGEST_SECONDS)


@contextmanager
def _endpoint() -> Iterator[tuple[int, _Readings]]:
    """An endpoint as plain as they come; its port."""
    readings = _Readings()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(_DOCUMENT)))
            self.end_headers()
            self.wfile.write(_DOCUMENT)
            readings.add()

        def log_message(self, *_: object) -> None:
            """A line for each would be measured as well."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], readings
    finally:
        server.shutdown()
        server.server_close()


def _agent(stage: Stage, port: int, readings: _Readings) -> dict[str, float]:
    folder = stage.folder / "agent"
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
        readings.more(_FIRST)
        return _at_rest(process, lambda: readings.more(1 + int(stage.effort.seconds * _READINGS)))


def _python(stage: Stage) -> dict[str, float]:
    with Process([sys.executable, "-c", _ASLEEP], stage.folder / "log", _bare()) as process:
        process.line()
        return {_MEMORY: process.resident() / (1 << 20)}


def _bare() -> dict[str, str]:
    """Without what measures coverage."""
    return {name: "" for name in os.environ if "COVERAGE" in name}


def _at_rest(process: Process, rest: Callable[[], None]) -> dict[str, float]:
    began, used = time.perf_counter(), cpu_seconds(process.pids())
    rest()
    share = (cpu_seconds(process.pids()) - used) / (time.perf_counter() - began)
    return {_MEMORY: process.resident() / (1 << 20), _SHARE: share * 100}
