"""The real program: `fairwarning up` as a process, and other commands beside it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

LONGEST_SECONDS = 30.0
PROGRAM = (sys.executable, "-m", "fairwarning")
QUERY = "/metadata/scheduledevents?api-version=2020-07-01"


class Up:
    """A service that runs."""

    def __init__(self, process: subprocess.Popen[str], data: Path, ready: dict[str, Any]) -> None:
        self.process = process
        self.data = data
        self.ready = ready

    def get(self, base: str, path: str) -> tuple[int, bytes]:
        """Status and body; metadata's header is sent along."""
        return self.get_from("", base, path)

    def get_from(self, source: str, base: str, path: str) -> tuple[int, bytes]:
        """The same, from an address of the caller's choice."""
        where = urlsplit(base)
        connection = HTTPConnection(
            where.hostname or "", where.port, LONGEST_SECONDS, source_address=(source, 0)
        )
        try:
            connection.request("GET", path, headers={"Metadata": "true"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def post(
        self,
        base: str,
        path: str,
        token: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> tuple[int, bytes]:
        """Status and body."""
        where = urlsplit(base)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=LONGEST_SECONDS)
        try:
            sent = {"Authorization": f"Bearer {token}", **(headers or {})}
            connection.request("POST", path, body, sent)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def poll(self, machine: str) -> Any:  # noqa: ANN401  (a document)
        """What a machine reads."""
        status, body = self.get(self.ready["machines"][machine], QUERY)
        assert status == 200, body
        return json.loads(body)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Another command, on the same folder."""
        own = 1 + (words[0] not in {"exec", "az", "token", "healthcheck"})  # a noun, mostly a verb
        return run(*words[:own], "--data", str(self.data), *words[own:])

    def json(self, *words: str) -> Any:  # noqa: ANN401
        """What a command that succeeds tells scripts."""
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refuses(self, words: tuple[str, ...], code: int, says: str) -> None:
        """This command ends with that exit code and a sentence, not with a traceback."""
        done = self.run(*words)
        assert done.returncode == code, (words, done.stderr)
        assert says in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr

    def starting(self, *words: str) -> "Running":
        """The same as `run`, without waiting for its end."""
        return Running([*PROGRAM, *words[:2], "--data", str(self.data), *words[2:]])

    def stop(self) -> tuple[int, str]:
        """Ctrl-C; the exit code, and what it said on stderr."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=LONGEST_SECONDS)
        return self.process.returncode, said


class Running:
    """A command that has not ended yet: one that watches, or waits."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._late = threading.Timer(3 * LONGEST_SECONDS, self.process.kill)  # others run beside it
        self._late.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._late.cancel()
        self.process.kill()
        self.process.communicate()

    def follows(self) -> Self:
        """Once it has said on stderr that it misses nothing from now on."""
        assert self.process.stderr is not None
        assert "Following" in self.process.stderr.readline()
        return self

    def until(self, word: str) -> list[str]:
        """Its lines up to the first that has this word."""
        assert self.process.stdout is not None
        found = []
        for line in self.process.stdout:
            found.append(line.rstrip("\n"))
            if word in line:
                return found
        raise AssertionError(f"no {word!r} in {found}")

    def interrupt(self) -> tuple[int, str, str]:
        """Ctrl-C; the exit code, and what it said since."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> tuple[int, str, str]:
        """The exit code, and what it said since, once it has ended by itself."""
        said, told = self.process.communicate(timeout=LONGEST_SECONDS)
        return self.process.returncode, said, told


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401
    """A command, to its end."""
    return subprocess.run(
        [*PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
        **options,
    )


@contextmanager
def up(
    data: Path,
    *words: str,
    fleet: str = "",
    metadata: str = "127.0.0.1:0",
    database: str = "",
) -> Iterator[Up]:
    """`fairwarning up --json` on ports that are free, with a fleet file of this text."""
    if fleet:
        path = data.with_suffix(".toml")
        path.write_text(fleet)
        words = (str(path), *words)
    where = ["--data", database, "--run", str(data)] if database else ["--data", str(data)]
    command = [*PROGRAM, "up", "--json", *where, *words]
    command += ["--metadata", metadata, "--console", "127.0.0.1:0", "--arm", "127.0.0.1:0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield Up(process, data, json.loads(line))
    finally:
        process.kill()
        process.communicate()
