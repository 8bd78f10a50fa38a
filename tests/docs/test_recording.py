"""The terminal session in the README is what the commands print today."""

import re
from pathlib import Path

from tests.docs.recording import (
    CAST,
    COLUMNS,
    COMMANDS,
    PICTURE,
    REGENERATE,
    SERVICE,
    picture,
    read_cast,
)
from tests.docs.session_picture import spans
from tests.docs.terminal import Terminal
from tests.fixtures.requirements import needs_curl, needs_linux

RECORDED = read_cast(CAST.read_text("utf-8"))
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
        for command in RECORDED:
            terminal.type(command.typed, plain(command.output))


def test_the_recording_has_the_commands_of_the_session() -> None:
    """A change of the session needs a new recording."""
    assert [command.typed for command in RECORDED] == list(COMMANDS), REGENERATE
    assert all(len(command.typed) < COLUMNS for command in RECORDED)


# --- The picture ----------------------------------------------------------------------------------


def test_the_picture_is_up_to_date() -> None:
    """It is drawn from the recording, and from nothing else."""
    assert picture(RECORDED) == TEXT, REGENERATE


def test_the_picture_is_small_and_stands_alone() -> None:
    """No script, no font, no other file; under 100 KB."""
    assert len(TEXT.encode()) < 100_000
    assert re.findall(r"<script|<image|@import|url\((?!#)|href=|font-face", TEXT) == []


def test_the_picture_begins_and_ends_soon() -> None:
    """The first frame has a command and its answer; the last change is within ten seconds."""
    first = re.sub(r"<[^>]+>", "", "".join(re.findall(r'<text class="t" .*', TEXT)))
    assert RECORDED[0].typed in first
    assert plain(RECORDED[0].output) in first
    delays = [float(seconds) for seconds in re.findall(r"animation-delay: ([\d.]+)s", TEXT)]
    assert max(delays) < 10
