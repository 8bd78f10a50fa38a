"""examples/drain: no request through the proxy is dropped, and the machine returns."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fairwarning.testing import Cloud
from tests.examples.copies import AGENT, copy, fill_in
from tests.fixtures.http import fetch, free_port, is_listening, local_url
from tests.fixtures.programs import start_program
from tests.fixtures.requirements import needs_children_in_proc, needs_nginx
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until


@contextmanager
def backend(name: str, release: threading.Event) -> Iterator[int]:
    """A web server that answers its name; /slow waits for `release`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/slow":
                waiting.set()
                assert release.wait(LIMIT_SECONDS)
            self.send_response(200)
            self.send_header("Content-Length", str(len(name)))
            self.end_headers()
            self.wfile.write(name.encode())

        def log_message(self, *_: object) -> None:
            pass

    waiting = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        release.set()
        server.shutdown()
        thread.join()
        server.server_close()


def visit(port: int, path: str) -> tuple[int, str]:
    """Send a request; return the status and the name of the machine."""
    response = fetch(local_url(port, path))
    return response.status, response.text


class Visitor(threading.Thread):
    """Sends requests in a loop, and records the answers."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._ended = threading.Event()
        self.answers: list[tuple[int, str]] = []

    def run(self) -> None:
        while not self._ended.is_set():
            self.answers.append(visit(self._port, "/"))

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def last(self, count: int) -> set[str]:
        """Return the machines that answered the last requests."""
        return {name for _, name in self.answers[-count:]}


@pytest.mark.spec("G4")
@needs_nginx
@needs_children_in_proc
def test_no_request_is_dropped(tmp_path: Path) -> None:
    """The event is approved after the last request is answered; no request fails."""
    folder, port, release = copy("drain", tmp_path), free_port(), threading.Event()
    slow: list[tuple[int, str]] = []
    with (
        Cloud() as cloud,
        backend("web_0", release) as first,
        backend("web_1", release) as second,
    ):
        fill_in(folder / "nginx.conf", **{"8080": port})
        fill_in(folder / "backends.conf", **{"8001": first, "8002": second})
        web = cloud.machines("web", 2)[0]
        proxy = ("nginx", "-p", ".", "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off;")
        with (
            start_program(*proxy, folder=folder),
            start_program(*AGENT, folder=folder, env=web.env) as agent,
        ):
            wait_until(lambda: is_listening(port), "nginx listens")
            agent.wait_for("watching for web_0")
            waiting = [
                threading.Thread(target=lambda: slow.append(visit(port, "/slow"))) for _ in range(4)
            ]
            for thread in waiting:
                thread.start()
            visitor = Visitor(port)
            visitor.start()
            wait_until(lambda: visitor.last(10) == {"web_0", "web_1"}, "answers from both")
            web.restart()
            wait_until(
                lambda: len(visitor.answers) > 50 and visitor.last(30) == {"web_1"}, "it is down"
            )
            assert web.history == []  # not approved while requests are in progress
            release.set()
            wait_until(lambda: web.history == ["reboot"], "it is approved")
            for thread in waiting:
                thread.join()
            cloud.settle()
            wait_until(lambda: visitor.last(10) == {"web_0", "web_1"}, "it is back")
            visitor.stop()
        assert {status for status, _ in visitor.answers + slow} == {200}
        assert {name for _, name in slow} == {"web_0", "web_1"}
