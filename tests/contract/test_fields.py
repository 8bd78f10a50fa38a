"""The fields of every record: `pytest tests/contract --rewrite` writes them; review the diff."""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core import checks, decision, document, messages, model, operation_rules
from fairwarning.core.commands import Command

FIELDS = Path(__file__).parent / "fields.txt"
RULES = Path(__file__).parent / "operation_rules.txt"
PARTS = {model.Machine: checks._MACHINE, model.Rules: checks.RULES}
MODULES = decision, document, messages, model, operation_rules


def _below(kind: type[Command]) -> Iterator[type[Command]]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)


def _records() -> dict[str, type[Any]]:
    """All commands, and what the modules define, by name."""
    known = (value for module in MODULES for value in vars(module).values())
    records: list[type[Any]] = [
        kind for kind in known if isinstance(kind, type) and is_dataclass(kind)
    ]
    return {kind.__name__: kind for kind in (*records, Command, *_below(Command))}


def _default(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f" = {_spelled(field.default)}"
    return "" if field.default_factory is MISSING else f" = {field.default_factory()!r}"


def _lines(kind: type[Any]) -> Iterator[str]:
    for field in fields(kind):
        check = field.metadata.get("check") or PARTS.get(kind, {}).get(field.name)
        default = _default(field)
        allowed = f": {check(object())}" if check else ""
        if (default or allowed) and field.name in kind.__annotations__:  # others are inherited
            yield f"{kind.__name__}.{field.name}{default}{allowed}"


def _spelled(value: object) -> str:
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(str, value)))}}}"
    return repr(value)


def _check(path: Path, lines: Iterator[str], request: pytest.FixtureRequest) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def test_what_is_allowed_and_what_is_left_out(request: pytest.FixtureRequest) -> None:
    """What a field may hold, in the words of the refusal, and its value if it is left out.

    The values of stored records must stay: rows of older versions are read with them.
    """
    kinds = _records()
    _check(FIELDS, (line for name in sorted(kinds) for line in _lines(kinds[name])), request)


@pytest.mark.spec("E1", "E3", "E5")
def test_what_each_operation_does(request: pytest.FixtureRequest) -> None:
    """The rules of an operation, without those that are as usual."""
    named = {
        " ".join(part.__name__ if isinstance(part, type) else part for part in key if part): rule
        for key, rule in operation_rules.OPERATION_RULES.items()
    }
    lines = (
        f"{name}.{field.name} = {_spelled(value)}"
        for name, rule in named.items()
        for field in fields(rule)
        if (value := getattr(rule, field.name)) != field.default
    )
    _check(RULES, lines, request)
