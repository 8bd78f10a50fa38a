"""Draw a terminal session as an animated SVG: no script, no font, nothing from elsewhere.

The first command and its output are there from the first frame. The animation takes less than ten
seconds, runs once and stands still at its end, where the whole session can be read. Where
animations are unsupported or unwanted (`prefers-reduced-motion`), the end is shown at once.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

Step = tuple[str, str, str, float]
"""A prompt, the text that is typed after it, the output, and the seconds that the command took."""

CHARACTER = 8.0  # the width of a column; texts are stretched to it, whatever the font
LINE = 18
FONT = 13.3
MARGIN = 16
BAR = 34  # the height of the title bar

TYPING_SECONDS = 0.015  # a character
READING_SECONDS = 1.2  # before the next command
LONGEST_WAIT_SECONDS = 0.4  # the machine that records may be busy

_SGR = re.compile(r"\x1b\[([\d;]*)m")
_CLASSES = {"1": "b", "2": "dim", "31": "red", "32": "green", "33": "amber", "36": "cyan"}
_RESETS = ("", "0")

TEMPLATE = Template(Path(__file__).with_name("session_picture.svg.template").read_text("utf-8"))


@dataclass(frozen=True)
class Span:
    """A piece of a line in one style."""

    text: str
    style: str


def spans(text: str) -> Iterator[Span]:
    """Split the output of a program by its colours; any other control sequence is an error."""
    style, end = "", 0
    for match in _SGR.finditer(text):
        yield Span(text[end : match.start()], style)
        codes = match[1].split(";")
        style = "" if match[1] in _RESETS else " ".join(_CLASSES[code] for code in codes)
        end = match.end()
    yield Span(text[end:], style)


def lines(text: str, columns: int) -> list[list[Span]]:
    """Break output into the lines that a terminal shows."""
    rows: list[list[Span]] = [[]]
    width = 0
    for span in spans(text.replace("\r\n", "\n").removesuffix("\n")):
        for piece in re.findall(r"\n|[^\n]", span.text):
            if piece == "\n" or width == columns:
                rows.append([])
                width = 0
            if piece != "\n":
                assert piece.isprintable(), f"cannot draw {piece!r}"
                rows[-1].append(Span(piece, span.style))
                width += 1
    return [_joined(row) for row in rows]


def _joined(row: Iterable[Span]) -> list[Span]:
    """Join characters of one style, without spaces at the end of the line."""
    joined: list[Span] = []
    for span in row:
        if joined and joined[-1].style == span.style:
            joined[-1] = Span(joined[-1].text + span.text, span.style)
        else:
            joined.append(span)
    while joined and not joined[-1].text.strip():
        joined.pop()
    if joined:
        joined[-1] = Span(joined[-1].text.rstrip(), joined[-1].style)
    return joined


class _Drawing:
    """The elements so far, the row they end at, and the time that they take."""

    def __init__(self, columns: int) -> None:
        self.elements: list[str] = []
        self.row = 0
        self._columns = columns
        self._seconds = 0.0  # what is drawn at 0 is there from the first frame

    def type(self, prompt: str, typed: str) -> None:
        """Draw a prompt, and a command below a cover that moves away character by character."""
        left = MARGIN + len(prompt) * CHARACTER
        self._text([Span(prompt, "prompt")])
        self._seconds += READING_SECONDS if self.row else 0.0
        self._text([Span(typed, "")], left)
        if self._seconds:
            self._cover(typed, left)
        self.row += 1

    def _cover(self, typed: str, left: float) -> None:
        top = self._baseline - FONT
        duration = len(typed) * TYPING_SECONDS
        style = (
            f"--way: {len(typed) * CHARACTER:g}px; {self._delay}; "
            f"animation-duration: {duration:.2f}s; animation-timing-function: steps({len(typed)})"
        )
        place = f'x="{left:g}" y="{top:g}" height="{LINE - 1}"'
        self.elements.append(
            f'<g class="type" style="{style}">'
            f'<rect class="cover" {place} width="{self._columns * CHARACTER:g}"/>'
            f'<rect class="cursor" {place} width="{CHARACTER:g}"/></g>'
        )
        self._seconds += duration

    def show(self, output: str, seconds: float) -> None:
        """Draw the output of a command, all at once."""
        self._seconds += min(seconds, LONGEST_WAIT_SECONDS) if self._seconds else 0.0
        for row in lines(output, self._columns):
            self._text(row)
            self.row += 1

    def _text(self, row: list[Span], left: float = MARGIN) -> None:
        if not row:
            return
        length = sum(len(span.text) for span in row) * CHARACTER
        place = f'x="{left:g}" y="{self._baseline:g}" textLength="{length:g}"'
        inside = "".join(map(_tspan, row))
        appears = f't show" style="{self._delay}' if self._seconds else "t"
        self.elements.append(
            f'<text class="{appears}" xml:space="preserve" {place}>{inside}</text>'
        )

    @property
    def _baseline(self) -> float:
        return BAR + MARGIN + FONT + self.row * LINE

    @property
    def _delay(self) -> str:
        return f"animation-delay: {self._seconds:.2f}s"


def _tspan(span: Span) -> str:
    text = escape(span.text, quote=False)
    return f'<tspan class="{span.style}">{text}</tspan>' if span.style else text


def draw(steps: list[Step], *, title: str, columns: int, rows: int) -> str:
    """Return the picture of a session."""
    drawing = _Drawing(columns)
    for prompt, typed, output, seconds in steps:
        drawing.type(prompt, typed)
        drawing.show(output, seconds)
    assert drawing.row <= rows, f"the session has {drawing.row} lines, and its terminal {rows}"
    width, height = columns * CHARACTER + 2 * MARGIN, BAR + 2 * MARGIN + rows * LINE
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    inner = f'x="1" y="1" width="{width - 2:g}"'
    heading = f"in another terminal: {escape(title)}"
    described = "; ".join(typed for _, typed, _, _ in steps)
    dots = "".join(f'<circle class="dot" cx="{x}" cy="17" r="5.5"/>' for x in (20, 38, 56))
    body = "\n  ".join(drawing.elements)
    return TEMPLATE.substitute(
        size=size,
        heading=heading,
        described=escape(described),
        inner=inner,
        inner_height=f"{height - 2:g}",
        dots=dots,
        middle=f"{width / 2:g}",
        body=body,
    )
