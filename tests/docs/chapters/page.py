"""Building blocks of the generated pages."""

from collections.abc import Iterable, Sequence

NOTE = "<!-- Written by `python -m tests.docs.reference --write`; do not edit by hand. -->"


def page(title: str, *parts: str) -> str:
    """Return a page with these paragraphs."""
    return "\n\n".join([f"# {title}", NOTE, *parts]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([text.replace("|", "\\|").replace("\n", " ") for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def code(*words: object) -> str:
    """Return the words as code, separated by commas."""
    return ", ".join(f"`{word}`" for word in words)


def seconds(number: float) -> str:
    """Return a duration in the largest unit that divides it."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if number >= size and number % size == 0:
            count = int(number // size)
            return f"{count} {unit}" + ("s" if count > 1 else "")
    return f"{number:g} second" + ("s" if number != 1 else "")
