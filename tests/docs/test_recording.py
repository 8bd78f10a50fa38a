"""The terminal session in the README is what the commands print today."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

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
SVG = "{http://www.w3.org/2000/svg}"


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


def test_the_picture_stands_still_for_readers_who_want_that() -> None:
    """Nothing moves forever, and nothing at all if the reader prefers so."""
    assert "prefers-reduced-motion: reduce" in TEXT
    assert "infinite" not in TEXT


def test_the_picture_shows_every_line_inside_the_window() -> None:
    """In the order of the session, each later than the one above it."""
    root = ET.fromstring(TEXT)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    _, *texts = root.iter(f"{SVG}text")  # without the title
    for text in texts:
        assert float(text.attrib["x"]) + float(text.attrib["textLength"]) < width
        assert float(text.attrib["y"]) < height
    delays = [float(text.attrib["style"].split()[1].removesuffix("s")) for text in texts]
    assert delays == sorted(delays)
    shown = "".join("".join(text.itertext()) for text in texts)
    for command in RECORDED:
        assert command.typed in shown


# --- Drawing --------------------------------------------------------------------------------------
