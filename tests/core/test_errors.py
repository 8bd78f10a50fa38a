"""Errors: whose fault, in the words of HTTP; what they say, and how text of others is shown."""

import pytest

from fairwarning.core.errors import (
    AddressTaken,
    Bug,
    Conflict,
    FairwarningError,
    NotFound,
    Refused,
    StoreDamaged,
    Unavailable,
    reason_of,
)
from fairwarning.core.printable import printable


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused("BadName", "a name"), 400),
        (NotFound("NoMachine", "no machine"), 404),
        (Conflict("Stale", "changed"), 409),
        (AddressTaken("10.0.0.4"), 409),
        (Bug("a bug"), 500),
        (StoreDamaged("StoreCorrupt", "damaged"), 500),
        (Unavailable("StoreBusy", "busy"), 503),
    ],
)
def test_the_status_of_each_error(error: FairwarningError, status: int) -> None:
    """The fault of a caller is 4xx, what can be tried again 503; the text has code and message."""
    assert error.status == status
    assert str(error) == f"{error.code}: {error.message}"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file", "/secret"), "No such file"),
        (OSError("timed out"), "timed out"),
        (OverflowError("port must be 0-65535"), "port must be 0-65535"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "it is not UTF-8 text"),
    ],
)
def test_reasons(error: OSError | UnicodeError | OverflowError, reason: str) -> None:
    """Without the number of the error, and without the name of the file."""
    assert reason_of(error) == reason


@pytest.mark.parametrize(
    ("text", "options", "shown"),
    [
        ("plain text", {}, "plain text"),
        ("größer", {}, "größer"),
        ("a\x00\x1b[2J\u202e", {}, r"a\x00\x1b[2J\u202e"),
        ("a\nb\tc", {"keep": "\n"}, "a\nb\\tc"),
        ("abcdef", {"most": 4}, "abcd"),
        ("ab\x00cd", {"most": 4}, r"ab\x"),
    ],
)
def test_what_is_not_printable_is_escaped(
    text: str, options: dict[str, object], shown: str
) -> None:
    """No control character reaches a terminal, and the result is as short as was asked for."""
    assert printable(text, **options) == shown  # type: ignore[arg-type]
