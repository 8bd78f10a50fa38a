"""What every generated page is made of."""

from collections.abc import Iterable, Sequence

NOTE = "<!-- Written by `python -m tests.docs.reference --write`; do not edit by hand. -->"


def page(title: str, *parts: str) -> str:
    """A page of these paragraphs."""
    return "\n\n".join([f"# {title}", NOTE, *parts]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar in a cell would end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(one) for one in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def code(*words: object) -> str:
    """Each as code, with commas between them."""
    return ", ".join(f"`{word}`" for word in words)


def seconds(number: float) -> str:
    """As people say it."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if number >= size and number % size == 0:
            count = int(number // size)
            return f"{count} {unit}" + ("s" if count > 1 else "")
    return f"{number:g} second" + ("s" if number != 1 else "")
