"""A rolling reboot: each machine in turn is told, prepares, goes down, and comes back."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from fairwarning.testing import Cloud, MachineHandle
from tests.examples.copies import AGENT
from tests.fixtures.http import free_port
from tests.fixtures.programs import BackgroundProgram, start_program
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until


class Backend:
    """A web server on a fixed port, which answers its name; a reboot breaks its connections.

    The path /slow waits for `release`.
    """

    def __init__(self, name: str, release: threading.Event | None = None) -> None:
        self.name = name
        self._release = release
        self.port = free_port()
        self._stop: Callable[[], None] = lambda: None

    def start(self) -> None:
        name, release = self.name.encode(), self._release

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if release and self.path == "/slow":
                    assert release.wait(LIMIT_SECONDS)
                self.send_response(200)
                self.send_header("Content-Length", str(len(name)))
                self.end_headers()
                self.wfile.write(name)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()

        def stop() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        self._stop = stop

    def stop(self) -> None:
        stop, self._stop = self._stop, lambda: None
        stop()


class Client(threading.Thread):
    """Sends requests one after the other; records the answers, and those that failed."""

    def __init__(self, request: Callable[[int], str]) -> None:
        super().__init__()
        self._request = request
        self._ended = threading.Event()
        self.answers: list[str] = []
        self.lost: list[str] = []
        self.longest_seconds = 0.0

    def run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self.answers.append(self._request(len(self.answers)))
            except Exception as error:  # noqa: BLE001  (whatever a client sees is a loss)
                self.lost.append(repr(error))
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)

    def wait_for(self, count: int, *answers: str) -> None:
        """Wait until the last answers are exactly these."""
        wait_until(lambda: set(self.answers[-count:]) == set(answers), lambda: repr(self.lost))

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def report(self, recipe: str) -> None:
        """Print the figures of the documentation."""
        figures = f"{len(self.answers)} requests, {len(self.lost)} lost"
        print(f"{recipe}: {figures}, the longest took {self.longest_seconds:.1f} s")  # noqa: T201  (pytest -rP shows it)


@contextmanager
def agents(
    machines: Sequence[MachineHandle], folders: Sequence[Path], **more: str
) -> Iterator[list[BackgroundProgram]]:
    """An agent for each machine, each with its copy of an example."""
    with ExitStack() as stack:
        programs = [
            stack.enter_context(start_program(*AGENT, folder=folder, env=machine.env | more))
            for machine, folder in zip(machines, folders, strict=True)
        ]
        for machine, program in zip(machines, programs, strict=True):
            program.wait_for(f"watching for {machine.name}")
        yield programs


def reboot_in_turn(
    cloud: Cloud,
    machines: Sequence[MachineHandle],
    programs: Sequence[BackgroundProgram],
    reboot: Callable[[int], None],
) -> None:
    """Reboot each machine when it has approved; go on when it is back."""
    for number, (machine, program) in enumerate(zip(machines, programs, strict=True)):
        machine.restart()
        wait_until(lambda m=machine: m.history == ["reboot"], lambda p=program: p.output)  # type: ignore[misc]
        reboot(number)
        cloud.settle()
        wait_until(lambda p=program: "over) is done" in p.output, lambda p=program: p.output)  # type: ignore[misc]
