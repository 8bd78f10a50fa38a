"""Checks of a nested template whose parameters are known only when it is deployed."""

from collections.abc import Mapping
from typing import Any

from fairwarning.arm.templates import user_functions
from fairwarning.arm.templates.calls import Functions
from fairwarning.arm.templates.expressions import parse_at
from fairwarning.arm.templates.types import Definitions
from fairwarning.arm.templates.values import DEPTH, section


def check_functions(template: Mapping[str, Any], functions: Functions) -> None:
    """Refuse unknown functions and expressions that cannot be parsed."""
    own = {**functions}
    definitions = Definitions(section(template, "definitions", dict))
    user_functions.declare(template.get("functions") or [], own, definitions)
    for key in ("variables", "resources", "outputs"):
        parse_at(key, _without_comments(template.get(key)), own)


def _without_comments(value: Any, depth: int = 0) -> Any:  # noqa: ANN401  (any JSON)
    """Return the value without comments and metadata, which are never expressions."""
    if depth > DEPTH:  # the parser refuses it
        return value
    if isinstance(value, list):
        return [_without_comments(part, depth + 1) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {key: part for key, part in value.items() if key not in {"comments", "metadata"}}
    return {key: _without_comments(part, depth + 1) for key, part in kept.items()}
