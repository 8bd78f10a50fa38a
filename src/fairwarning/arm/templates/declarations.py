"""A resource as a template declares it: its members, which may depend on the number of a loop."""

from collections.abc import Iterator, Mapping
from typing import Any

from fairwarning.arm.templates.evaluation import (
    CopyLoop,
    Evaluation,
    FunctionCall,
    Loops,
    Node,
    check_count,
)
from fairwarning.arm.templates.expressions import parse, parse_at
from fairwarning.arm.templates.steps import TemplateStep
from fairwarning.arm.templates.values import (
    TemplateError,
    Value,
    at,
    boolean,
    kind_of,
    quote,
    section,
)

DEPLOYMENT = "microsoft.resources/deployments"

_NOT_PART_OF_A_BODY = {
    "type", "name", "apiVersion", "dependsOn", "condition", "resources", "comments", "metadata",
    "copy", "existing", "scope", "resourceGroup", "subscriptionId",
}  # fmt: skip
_CHARACTERS = 1000  # of a type or a name
_UNSUPPORTED = ("import", "extension")


class ResourceDeclaration:
    """A declared resource, whose expressions have been parsed."""

    def __init__(
        self, raw: object, place: str, symbol: str, parent: TemplateStep | None, early: Evaluation
    ) -> None:
        if not isinstance(raw, dict):
            raise TemplateError(f"a resource must be an object, not {kind_of(raw)}")
        for key in _UNSUPPORTED:
            if key in raw:
                raise TemplateError(f"{key} is not supported: remove the extension")
        self.raw: Mapping[str, Any] = raw
        self.place = place
        self.symbol = symbol
        self.parent = parent
        self._early = early  # evaluates what must be known before a resource is deployed
        if parent and parent.loops:  # it is parsed again in each repetition
            early.budget.spend_on(_body(raw))
        self.body: Node = parse(_body(raw), early.functions)
        self._nodes: dict[str, Node] = {}  # other members, parsed
        self._referenced = tuple(_referenced(self.body))

    def value(self, key: str, loops: Loops, default: object = None) -> Value:
        """Return the value of a member."""
        return self._evaluate(self.raw, key, loops, default)

    def string(self, key: str, loops: Loops) -> str:
        """Return the value of a member that must be a non-empty string."""
        value = self.value(key, loops)
        if not isinstance(value, str) or not 0 < len(value) <= _CHARACTERS:
            raise TemplateError(f"a resource needs a {key}, of 1 to {_CHARACTERS} characters")
        return value

    def flag(self, key: str, loops: Loops, *, default: bool) -> bool:
        """Return the value of a member that must be a boolean."""
        return boolean(self.value(key, loops, default), key)

    def dependencies(self, loops: Loops) -> list[tuple[str, str]]:
        """Return the texts of `dependsOn`, and their ids or names."""
        texts = section(self.raw, "dependsOn", list)
        names = self._evaluate({"dependsOn": texts}, "dependsOn", loops)
        self._early.budget.spend_on(names)
        for name in names:
            if not isinstance(name, str):
                raise TemplateError(f"dependsOn must hold ids and names, not {kind_of(name)}")
        return [*zip(map(quote, texts), names, strict=True)]

    def referenced(self, loops: Loops) -> Iterator[str]:
        """Yield the names in references: a resource of the template comes before this one."""
        for node in self._referenced:
            try:
                name = self._early.in_loops(loops).value(node)
            except TemplateError:  # a name that is known only when the resource is deployed
                continue
            if isinstance(name, str) and "/" not in name:
                yield name

    def loop(self, outer: Loops) -> tuple[str, int] | None:
        """Return the name and the count of the resource's copy loop; None if it is not repeated.

        `mode` and `batchSize` change nothing: resources are deployed one after the other.
        """
        raw = self.raw.get("copy")
        if raw is None:
            return None
        with at("copy"):
            if not isinstance(raw, dict) or "count" not in raw:
                raise TemplateError("the copy of a resource needs a name and a count")
            name = raw.get("name", self.symbol)
            if not isinstance(name, str) or not name:
                raise TemplateError("name must be a non-empty string")
            return name, check_count(self._evaluate(raw, "count", outer))

    def nested_template(self, loops: Loops) -> object:
        """Return the template of a nested deployment; an expression may be a variable with it."""
        properties = self.raw.get("properties")
        if not isinstance(properties, dict):
            raise TemplateError("a nested deployment needs properties: mode and template")
        check_not_linked(properties)
        template = properties.get("template")
        is_expression = isinstance(template, str)
        if is_expression:
            with at("properties"):
                template = self._evaluate(properties, "template", loops)
        if is_expression or loops:  # else it is a part of a text that has been counted
            self._early.budget.spend_on(template)
        return template

    def _evaluate(
        self, raw: Mapping[str, Any], key: str, loops: Loops, default: object = None
    ) -> Value:
        value = raw.get(key, default)
        if value is default or isinstance(value, bool):
            return value
        if key not in self._nodes:
            self._nodes[key] = parse_at(key, value, self._early.functions)
        with at(key):
            return self._early.in_loops(loops).value(self._nodes[key])


def check_not_linked(properties: Mapping[str, Any]) -> None:
    """Refuse the properties of a deployment whose template or parameters are at a URL."""
    for key, instead in (("templateLink", "template"), ("parametersLink", "parameters")):
        if properties.get(key) is not None:
            raise TemplateError(
                f"{key} is not supported, for nothing is downloaded: send {instead} instead, with "
                f"the content of the linked file"
            )


def _body(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is sent when the resource is deployed; a nested template is evaluated later."""
    body = {key: raw[key] for key in raw if key not in _NOT_PART_OF_A_BODY}
    properties = body.get("properties")
    if str(raw.get("type")).strip("/").lower() == DEPLOYMENT and isinstance(properties, dict):
        body["properties"] = {key: properties[key] for key in properties if key != "template"}
    return body


def _referenced(node: Node) -> Iterator[Node]:
    """Yield the first argument of each function in a parsed value that reads a resource."""
    if isinstance(node, FunctionCall):
        if node.name.lower().startswith(("reference", "list")) and node.arguments:
            yield node.arguments[0]
        for part in (*node.arguments, *node.path):
            yield from _referenced(part)
    elif isinstance(node, CopyLoop):
        yield from _referenced(node.count)
        yield from _referenced(node.item)
    elif isinstance(node, list | dict):
        for part in node.values() if isinstance(node, dict) else node:
            yield from _referenced(part)
