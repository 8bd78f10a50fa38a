"""The terminal session in the README is what the commands print today."""

import re
from pathlib import Path

from tests.docs.recording import (
    COLUMNS,
    COMMANDS,
    PICTURE,
    REGENERATE,
    SERVICE,
    picture,
    read,
    spans,
)
from tests.docs.terminal import Terminal
from tests.fixtures.requirements import needs_curl, needs_linux

RECORDED = read()
TEXT = PICTURE.read_text("utf-8")


def plain(output: str) -> str:
    """Return output without colours."""
    return "".join(span.text for span in spans(output))


# --- The recording --------------------------------------------------------------------------------


@needs_curl
@needs_linux
def test_the_commands_print_what_the_recording_shows(tmp_path: Path) -> None:
    """Ids and times vary; everything else is equal."""
    with Terminal(tmp_path) as terminal:
        terminal.begin(SERVICE, "")
        for typed, output in RECORDED:
            terminal.type(typed, plain(output))


def test_the_recording_has_the_commands_of_the_session() -> None:
    """A change of the session needs a new recording."""
    assert [typed for typed, _ in RECORDED] == list(COMMANDS), REGENERATE
    assert all(len(typed) < COLUMNS for typed in COMMANDS)


# --- The picture ----------------------------------------------------------------------------------


def test_the_picture_is_up_to_date() -> None:
    """It is drawn from the recording, and from nothing else."""
    assert picture(RECORDED) == TEXT, REGENERATE


def test_the_picture_is_small_and_stands_alone() -> None:
    """No script, no font, no other file; under 100 KB."""
    assert len(TEXT.encode()) < 100_000
    assert re.findall(r"<script|<image|@import|url\((?!#)|href=|font-face", TEXT) == []
