"""The terminal session in the README is what the commands print today."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.docs.recording import (
    CAST,
    COLUMNS,
    COMMANDS,
    PICTURE,
    REGENERATE,
    SERVICE,
    RecordedCommand,
    picture,
    read_cast,
    record,
    to_cast,
)
from tests.docs.session_picture import Span, draw, lines, spans
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


@needs_curl
@needs_linux
def test_a_new_recording_has_the_same_commands(tmp_path: Path) -> None:
    """It is made on a real terminal, and can be drawn."""
    recorded = record(tmp_path)
    assert [command.typed for command in recorded] == list(COMMANDS)
    assert [plain(command.output) != "" for command in recorded] == [True] * len(COMMANDS)
    assert "\x1b[1m" in recorded[-1].output
    days = set(re.findall(r"\d{4}-\d\d-\d\d", recorded[-1].output))
    if len(days) == 1:  # across midnight, times include a date, and one line wraps
        assert picture(recorded).count("<text") == TEXT.count("<text")


def test_the_recording_has_the_commands_of_the_session() -> None:
    """A change of the session needs a new recording."""
    assert [command.typed for command in RECORDED] == list(COMMANDS), REGENERATE
    assert all(len(command.typed) < COLUMNS for command in RECORDED)


def test_a_recording_can_be_read_again() -> None:
    """With the times of its commands."""
    session = [RecordedCommand("date", "noon\r\n", 0.25), RecordedCommand("true", "", 0.5)]
    assert read_cast(to_cast(session)) == session


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


def test_colours_become_styles() -> None:
    """A style lasts until the next sequence."""
    parts = [span for span in spans("a\x1b[1;33mb\x1b[0mc") if span.text]
    assert parts == [Span("a", ""), Span("b", "b amber"), Span("c", "")]


def test_long_lines_are_wrapped_as_by_a_terminal() -> None:
    """At the last column; spaces at the end are dropped, empty lines are kept."""
    texts = ["".join(span.text for span in row) for row in lines("abcdef\r\n\r\ngh  \r\n", 4)]
    assert texts == ["abcd", "ef", "", "gh"]


@pytest.mark.parametrize("output", ["\x1b[2Jx", "a\x07", "a\rb", "\x1b[95mx\x1b[0m"])
def test_what_cannot_be_drawn_is_an_error(output: str) -> None:
    """Rather than a picture that shows something else than the terminal."""
    with pytest.raises((AssertionError, KeyError)):
        draw([("$ ", "x", output, 0.1)], title="", columns=80, rows=10)


def test_a_session_must_fit() -> None:
    """The terminal does not scroll."""
    with pytest.raises(AssertionError, match="has 4 lines"):
        draw([("$ ", "x", "1\r\n2\r\n3\r\n", 0.1)], title="", columns=80, rows=3)
