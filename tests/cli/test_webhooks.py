"""`fairwarning webhook`, as it is typed, with a receiver that is really there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.fixtures.service import ServiceProcess


class Receiver(BaseHTTPRequestHandler):
    status = 200
    taken: list[bytes]

    def do_OPTIONS(self) -> None:
        """Agrees to be told."""
        self.send_response(200)
        self.send_header("WebHook-Allowed-Origin", "*")
        self.end_headers()

    def do_POST(self) -> None:
        """Takes a message."""
        self.taken.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quietly."""


@contextmanager
def receiver() -> Iterator[tuple[type[Receiver], int]]:
    """A target on this machine, and its port."""
    kind = type("Own", (Receiver,), {"taken": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield kind, server.server_port
        finally:
            server.shutdown()
            thread.join()


FLEET = '[console]\nwebhook_hosts = ["127.0.0.1"]\n[[machine]]\nname = "vm"\n'


def test_a_webhook_from_its_making_to_its_end(tmp_path: Path) -> None:
    """Made, listed, tried, and removed; a secret is told once, or is the caller's own."""
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery staple correct horse\n")
    with (
        receiver() as (target, port),
        ServiceProcess(tmp_path / "data", "--memory", fleet=FLEET) as it,
    ):
        url = f"http://127.0.0.1:{port}/in"
        made = it.run("webhook", "create", "pager", url)
        assert made.returncode == 0, made.stderr
        assert "Secret, shown this once: " in made.stdout
        own = it.json("webhook", "create", "own", url, "--secret-file", str(secret))
        assert own["name"] == "own"
        assert {one["name"] for one in it.json("webhook", "list")} == {"pager", "own"}
        assert url in it.run("webhook", "list").stdout
        assert it.json("webhook", "test", "pager") == {"status": 200}
        target.status = 500
        failed = it.run("webhook", "test", "pager")
        assert (failed.returncode, failed.stdout) == (1, "pager: answered 500\n")
        assert it.run("webhook", "remove", "pager").stdout == "pager: removed\n"
        assert [one["name"] for one in it.json("webhook", "list")] == ["own"]
        assert target.taken


WRONG = [
    (("webhook", "create", "x", "http://elsewhere.example/in"), 4, "webhook_hosts"),
    (("webhook", "create", "x", "http://127.0.0.1/", "--form", "xml"), 2, "eventgrid"),
    (("webhook", "create", "x", "u", "--secret-file", "/nowhere"), 2, "/nowhere"),
    (("webhook", "remove", "nothing"), 3, "nothing"),
    (("webhook", "test", "nothing"), 3, "nothing"),
]


def test_wrong_words(tmp_path: Path) -> None:
    """A sentence that says what is allowed, and an exit code for scripts."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        for words, code, says in WRONG:
            it.assert_refused(words, code, says)
