"""Errors: whose fault, in the words of HTTP; and what they say."""

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
