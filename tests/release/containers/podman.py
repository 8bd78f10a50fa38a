"""Podman inside a sandbox, and the containers that it runs.

The sandbox has namespaces of its own: pids, mounts and a network with only loopback. All processes,
mounts, bridges and firewall rules inside end with it.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

SCRIPT = Path(__file__).with_name("sandbox.sh")
_NAMESPACES = ("--mount", "--net", "--pid", "--cgroup")
_NEW = ("unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc")


class SandboxRefused(Exception):
    """The system does not allow the namespaces or mounts."""


class Sandbox:
    """A process that holds the namespaces."""

    def __init__(self, scratch: Path) -> None:
        # If the tests are killed, the kernel kills the sandbox.
        command = ["setpriv", "--pdeathsig", "KILL", *_NEW, "sh", str(SCRIPT), str(scratch)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            _, errors = self._process.communicate()
            raise SandboxRefused(errors.strip())

    def command(self, words: Iterable[str], folder: Path, *, outside: bool = False) -> list[str]:
        """Return a command that runs inside the sandbox, optionally on the system's network."""
        namespaces = [name for name in _NAMESPACES if not (outside and name == "--net")]
        inside = ["nsenter", f"--target={self._first_process()}", *namespaces]
        return [*inside, "--", "env", f"--chdir={folder}", *words]

    def _first_process(self) -> int:
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def close(self) -> None:
        """Kill all processes inside."""
        # The parent only exits when every process of the namespace has ended.
        os.kill(self._first_process(), signal.SIGKILL)
        self._process.communicate()


@contextmanager
def sandbox(scratch: Path) -> Iterator[Sandbox]:
    """Provide a new sandbox with an empty folder on which it may mount a tmpfs."""
    inside = Sandbox(scratch)
    try:
        yield inside
    finally:
        inside.close()


DOWNLOAD_SECONDS = 1200.0  # for a command that downloads packages
# Podman relies on systemd to run the health checks of an image. The sandbox has no systemd.
_HEALTH_CHECKS = """
while sleep 1; do
    for id in $(podman ps --quiet); do podman healthcheck run "$id"; done
done
"""
_DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


class Podman:
    """Runs commands inside the sandbox, with separate settings."""

    def __init__(self, sandbox: Sandbox, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._sandbox = sandbox
        self._environment = environment

    def attempt(
        self,
        *words: str | Path,
        folder: Path | None = None,
        outside: bool = False,
        seconds: float = LIMIT_SECONDS,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command, which may fail; with `outside`, on the network of the system."""
        command = self._sandbox.command(map(str, words), folder or self.folder, outside=outside)
        return subprocess.run(
            command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def run(self, *words: str | Path, **options: Any) -> str:  # noqa: ANN401  (those of `attempt`)
        """Run a command that must succeed and return its stdout."""
        done = self.attempt(*words, **options)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def inspect(self, container: str) -> Any:  # noqa: ANN401  (JSON)
        """Return Podman's description of a container."""
        (description,) = json.loads(self.run("podman", "container", "inspect", container))
        return description

    def logs(self, container: str) -> str:
        """Return stdout and stderr of a container."""
        done = self.attempt("podman", "logs", container)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def wait_until_healthy(self, container: str) -> None:
        """Run the image's health check until it succeeds."""

        def is_healthy() -> bool:
            self.attempt("podman", "healthcheck", "run", container)
            return bool(self.inspect(container)["State"]["Health"]["Status"] == "healthy")

        wait_until(is_healthy, lambda: f"{container} is healthy\n{self.logs(container)}")

    @contextmanager
    def health_checks(self) -> Iterator[None]:
        """Run the health checks of all containers in the background, as systemd would."""
        process = subprocess.Popen(
            self._sandbox.command((*_DIE_WITH_PARENT, "sh", "-c", _HEALTH_CHECKS), self.folder),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def removing_all(self) -> Iterator[None]:
        """Remove all containers, volumes and networks afterwards."""
        try:
            yield
        finally:
            for words in (
                ("pod", "rm", "--all", "--force", "--time", "0"),
                ("rm", "--all", "--force", "--time", "0"),
                ("volume", "rm", "--all", "--force"),
                ("network", "prune", "--force"),
            ):
                self.attempt("podman", *words)
