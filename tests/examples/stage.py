"""Examples on trial: a copy of each, run as its README says, beside a cloud in this process."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
AGENT = (sys.executable, "-m", "fairwarning", "agent", "run", "--config", "agent.toml")
LONGEST_SECONDS = 30.0
_LOOK_SECONDS = 0.01


def copy(name: str, folder: Path) -> Path:
    """The example's folder, for this test alone."""
    return Path(shutil.copytree(EXAMPLES / name, folder / name))


def fill_in(path: Path, **values: object) -> None:
    """Change what an example's file says; what is replaced has to be there."""
    text = path.read_text()
    for old, new in values.items():
        assert old in text, f"{path.name} has no {old}"
        text = text.replace(old, str(new))
    path.write_text(text)


def until(condition: Callable[[], object], what: str) -> None:
    """Return once it is so, which it will be soon."""
    ends = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < ends, f"never happened: {what}"
        time.sleep(_LOOK_SECONDS)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def get(port: int, path: str = "/") -> tuple[int, str]:
    """Status and body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=LONGEST_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def answers(port: int) -> bool:
    """Whether anybody listens."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


class Program:
    """A program that runs, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def said(self) -> str:
        return self._output.read_text()

    def wait_for(self, text: str) -> None:
        """Until it has said so."""
        until(lambda: text in self.said or self.process.poll() is not None, f"{text!r} is said")
        assert text in self.said, self.said


@contextmanager
def running(*command: str, folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """A program in a folder, with this Python and its programs first on the path."""
    bin_ = str(Path(sys.executable).parent)
    environment = dict(os.environ if env is None else env)
    environment["PATH"] = os.pathsep.join([bin_, environment.get("PATH", os.defpath)])
    number = len(list(folder.glob("*.output")))
    output = folder / f"{number}.output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Program(process, output)
    except BaseException:
        sys.stderr.write(f"--- {' '.join(command)}\n{output.read_text()}\n")
        raise
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program, and whatever it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
