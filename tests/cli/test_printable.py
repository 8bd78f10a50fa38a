"""Text of others is printable wherever it is shown: it moves no cursor and begins no line."""

import json

import pytest

from fairwarning.core.printable import printable
from tests.fixtures.programs import run_python
from tests.fixtures.receiver import Receiver, ReceiverResponse
from tests.fixtures.service import run_command

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
