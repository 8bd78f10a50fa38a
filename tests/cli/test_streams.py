"""Every command, where its output, its arguments or the service are not what it expects.

The error is a sentence, never a traceback. Text of others is printable wherever it is shown.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import IO

import click
import pytest

from fairwarning.cli.command_list import SUMMARIES
from fairwarning.core.printable import printable
from tests.campaigns import each_step
from tests.fixtures.forked import ForkedProgram
from tests.fixtures.programs import run_program, run_python
from tests.fixtures.receiver import Receiver, ReceiverResponse
from tests.fixtures.service import PROGRAM, ServiceProcess, run_command
from tests.fixtures.waiting import LIMIT_SECONDS

SAMPLES = {
    "id_": "00000000", "ids": "00000000", "capacity": "1", "duration": "1s", "rate": "1",
    "kind": "404", "shell": "bash", "address": "10.0.0.1", "instances": "0", "url": "http://x",
    "role": "reader", "program": "true", "machine": "web_0", "machines": "web_0", "names": "reboot",
}  # fmt: skip
LOCAL = {"scenario", "context", "completion", "version"}
"""They use no service."""
OWN_TESTS = {"up", "agent", "certify", "az", "exec"}
"""They start other programs, or run until they are stopped."""


def leaves() -> Iterator[list[str]]:
    """Return each command with an argument for all that it requires."""
    for name in SUMMARIES.keys() - OWN_TESTS:
        top: click.Command = import_module(f"fairwarning.cli.commands.{name}").command
        below = top.commands if isinstance(top, click.Group) else {"": top}
        for verb, command in below.items():
            if verb not in {"watch", "run"}:
                form = ["-o", "csv"] if verb == "list" else []  # prints headings at least
                yield [name, *([verb] if verb else []), *form, *_required(command)]


def _required(command: click.Command) -> list[str]:
    words = []
    for parameter in command.params:
        sample = SAMPLES.get(parameter.name or "", "web")
        if isinstance(parameter, click.Argument):
            words += [sample] if parameter.required else []
        elif parameter.required or parameter.name == "yes":
            words += [parameter.opts[0], *([] if parameter.name == "yes" else [sample])]
    return words


COMMANDS = sorted(leaves())
each_command = pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[pytest.mark.campaign] if number % 5 else [], id=" ".join(words))
        for number, words in enumerate(COMMANDS)
    ],
)


def run(words: list[str], stdout: IO[bytes] | None = None) -> tuple[int, str]:
    """Run a command; return its exit code and stderr, which has no traceback."""
    program = ForkedProgram(["fairwarning", *words], stdout=stdout)
    _, errors = program.communicate(LIMIT_SECONDS)
    for word in ("Traceback", "Exception ignored", "Errno"):
        assert word not in errors, (words, errors)
    return program.wait(), errors


def on(shared_service: ServiceProcess, words: list[str]) -> list[str]:
    """Return the command for this service, if it is for a service."""
    return words if words[0] in LOCAL else [*words, "--data", str(shared_service.data)]


@contextmanager
def full_disk() -> Iterator[IO[bytes]]:
    """Yield a file that has no room."""
    with Path("/dev/full").open("wb") as file:
        yield file


@contextmanager
def ended_reader() -> Iterator[IO[bytes]]:
    """Yield a pipe that nobody reads, as that of `| head`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as file:
        yield file


@each_command
def test_output_that_cannot_be_written(shared_service: ServiceProcess, words: list[str]) -> None:
    """A full disk is reported; a reader that has ended is not."""
    with full_disk() as file:
        code, errors = run(on(shared_service, words), file)
    assert code, (words, errors)
    assert errors.startswith(("Error: ", "Usage: ", "Connected ", "Created ")), (words, errors)
    with ended_reader() as file:
        run(on(shared_service, words), file)


NO_DESCRIPTOR = """
import os, resource
from fairwarning.cli import main
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
main._run(os.pipe)
"""


def test_too_many_open_files_are_no_error_of_the_output() -> None:
    """The error says what to raise."""
    done = run_python(NO_DESCRIPTOR)
    expected = "Error: too many open files; raise the limit (ulimit -n)\n"
    assert (done.returncode, done.stderr) == (1, expected)


INTERRUPTED = """
import signal
from fairwarning.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the caller has set
main.import_module = lambda _: signal.raise_signal(signal.SIGINT)
main.main()
"""


def test_ctrl_c_during_the_imports_shows_no_traceback() -> None:
    """The exit code is that of a program that the signal ends."""
    done = run_python(INTERRUPTED)
    assert (done.returncode, done.stderr) == (130, "")


@each_command
def test_arguments_that_are_not_utf8(shared_service: ServiceProcess, words: list[str]) -> None:
    """Nothing is named so; the error shows the bytes."""
    code, errors = run(on(shared_service, [*words[:-1], f"{words[-1]}\udcff"]))
    assert code, (words, errors)


ANSWERS = [
    (200, b"{}"), (200, b"[]"), (200, b'"x"'), (200, b"\xff"), (200, b""), (204, b""), (400, b""),
    (400, b'{"error": "Bad request"}'), (404, b'{"error": {}}'), (500, b'{"error": {"code": 1}}'),
    (401, b"\xff\xff"), (403, b"<html>"), (302, b"{}"), (404, b'{"error": "no such path"}'),
]  # fmt: skip


@each_step
def test_answers_of_another_server(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The error says that the URL is not that of a console, whatever the answer.

    The metadata endpoint answers with a text as `error`.
    """
    monkeypatch.setenv("FAIRWARNING_TOKEN", "x")
    replies = cycle(ReceiverResponse(status, body=body) for status, body in ANSWERS)
    commands = [words for words in COMMANDS if words[0] not in LOCAL]
    with Receiver(lambda _: next(replies)) as other:
        url = other.url.partition("/hook")[0]
        for words in [["machine", "list"]] * len(ANSWERS) + commands[::step]:
            code, errors = run([*words, "--server", url])
            assert code in {1, 2}, (words, errors)
            assert "Error: " in errors, (words, errors)


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"PYTHONIOENCODING": "latin-1"}, "\\u2603"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "\N{SNOWMAN}"),
    ],
    ids=str,
)
def test_a_terminal_that_lacks_characters(
    shared_service: ServiceProcess, variables: dict[str, str], shown: str
) -> None:
    """They are shown as escapes; where only ASCII is known, as UTF-8."""
    shared_service.api("POST", "/api/machines", {"name": "\N{SNOWMAN}"})
    command = [*PROGRAM, *on(shared_service, ["machine", "list"])]
    done = run_program(*command, env=os.environ | variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert shown in done.stdout


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(shared_service: ServiceProcess, closed: str) -> None:
    """The command runs, and nothing else gets their descriptors."""
    command = [*PROGRAM, *on(shared_service, ["machine", "list"])]
    done = run_program("sh", "-c", f'exec "$@" {closed}', "sh", *command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- Text of others -----------------------------------------------------------------------------


HOSTILE = "a\x00b\x1b[2J\u202ec\ud800\r\n\x85d\u00e4"
SHOWN = r"a\x00b\x1b[2J\u202ec\ud800\r\n\x85dä"
LOG = f"""
import logging
from fairwarning.cli.output import up_text
up_text.log_to_stderr(as_json=False)
try:
    raise ValueError({HOSTILE!r})
except ValueError:
    logging.getLogger("x").exception("reason: %s", {HOSTILE!r})
"""


def test_what_is_not_printable_is_escaped() -> None:
    """Everything else stays; what is kept, and how much, is up to the caller."""
    assert printable(HOSTILE) == SHOWN
    assert printable(HOSTILE, keep="\n") == SHOWN.replace(r"\n", "\n")
    assert printable("\x00" * 9, 6) == r"\x00\x"
    assert printable("plain text", 5) == "plain"


def test_a_text_log_has_one_line_for_each_message() -> None:
    """Tracebacks keep their lines."""
    log = run_python(LOG).stderr
    first, second, *_, last = log.split("\n")[:-1]
    assert first.endswith(f"ERROR reason: {SHOWN}")
    assert second == "Traceback (most recent call last):"
    assert last == SHOWN.partition(r"\n")[2]
    assert all(line.isprintable() for line in log.split("\n"))


@pytest.mark.parametrize("error", [{"code": "X", "message": HOSTILE}, HOSTILE, None, [1]])
def test_the_error_of_a_service_is_printed_escaped(
    error: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is."""
    body = json.dumps({"error": error}).encode()
    with Receiver(lambda _: ReceiverResponse(400, body=body)) as receiver:
        monkeypatch.setenv("FAIRWARNING_URL", f"http://127.0.0.1:{receiver.port}")
        monkeypatch.setenv("FAIRWARNING_TOKEN", "x")
        done = run_command("clock", "show")
    is_ours = isinstance(error, dict)
    expected = f"Error: {printable(HOSTILE, keep=chr(10))}" if is_ours else "not as a console"
    assert expected in done.stderr
    assert done.returncode
