"""Builds the steps of a template from its resources: copies, nested resources, symbolic names."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fairwarning.arm.templates.calls import CopyLoop, FunctionCall, Functions, Node
from fairwarning.arm.templates.evaluation import Evaluation, Loops, check_count
from fairwarning.arm.templates.expressions import parse, parse_at
from fairwarning.arm.templates.ids import group_path, id_of_end, resource_id
from fairwarning.arm.templates.names import ResourceNames
from fairwarning.arm.templates.parameters import section
from fairwarning.arm.templates.scope import DeploymentScope
from fairwarning.arm.templates.steps import TemplateStep
from fairwarning.arm.templates.values import DEPTH, TemplateError, Value, at, kind_of, quote
from fairwarning.core.record import changed, record

RESOURCES = 800  # of one template: Azure's own limit
DEPLOYMENT = "microsoft.resources/deployments"

_NOT_PART_OF_A_BODY = {
    "type", "name", "apiVersion", "dependsOn", "condition", "resources", "comments", "metadata",
    "copy", "existing", "scope", "resourceGroup", "subscriptionId",
}  # fmt: skip
_UNSUPPORTED = {
    "import": "remove the extension",
    "extension": "remove the extension",
}
_VERSION = re.compile(r"\d{4}-\d\d-\d\d(-[a-zA-Z]+)?", re.ASCII)


@record
class _Declaration:
    """A resource as the template declares it, and what its parts have been parsed to."""

    raw: Mapping[str, Any]
    place: str
    symbol: str
    parent: TemplateStep | None
    body: Node
    references: tuple[Node, ...]  # the first arguments of reference() in the body


@record
class _ResourceCopy:
    """The loop of a resource: `copy` with a name, a count, and the size of serial batches."""

    name: str
    count: int
    batch: int  # 0 if the copies do not wait for each other


class StepBuilder:
    """Builds steps, within the limit of resources that nested templates share."""

    def __init__(
        self,
        scope: DeploymentScope,
        functions: Functions,
        early: Evaluation,
        names: ResourceNames,
    ) -> None:
        self.steps: list[TemplateStep] = []
        self._scope = scope
        self._functions = functions
        self._early = early
        self._names = names

    def build(self, template: Mapping[str, Any]) -> None:
        """Add the steps of the section `resources`: an array, or an object of symbolic names."""
        resources = template.get("resources")
        if isinstance(resources, dict) and not _has_symbolic_names(template):
            raise TemplateError(
                "resources must be array, not object; symbolic names need languageVersion 2.0"
            )
        if not isinstance(resources, dict):
            resources = section(template, "resources", list)
        self._add(resources, "resources", None, 1)

    def _add(
        self,
        resources: list[Any] | dict[str, Any],
        place: str,
        parent: TemplateStep | None,
        depth: int,
    ) -> None:
        for where, symbol, raw in _entries(resources, place):
            with at(where, complete=True):
                self._check_limits(depth)
                declaration = self._declaration(raw, where, symbol, parent)
                steps = [*self._steps(declaration)]
                nested = section(declaration.raw, "resources", list)
            for step in steps:
                self._add(nested, f"{where}.resources", step, depth + 1)

    def _check_limits(self, depth: int) -> None:
        if len(self.steps) >= RESOURCES or depth > DEPTH:
            raise TemplateError(f"a template may have {RESOURCES} resources, {DEPTH} levels deep")

    def _declaration(
        self, raw: object, place: str, symbol: str, parent: TemplateStep | None
    ) -> _Declaration:
        if not isinstance(raw, dict):
            raise TemplateError(f"a resource must be an object, not {kind_of(raw)}")
        for key, instead in _UNSUPPORTED.items():
            if key in raw:
                raise TemplateError(f"{key} is not supported: {instead}")
        body = {key: raw[key] for key in raw if key not in _NOT_PART_OF_A_BODY}
        properties = body.get("properties")
        if _is_deployment(raw) and isinstance(properties, dict):  # has expressions of its own
            rest = {key: properties[key] for key in properties if key != "template"}
            body["properties"] = rest
        node = parse(body, self._functions)
        references = tuple(_references(node))
        return _Declaration(
            raw=raw, place=place, symbol=symbol, parent=parent, body=node, references=references
        )

    # --- Copies

    def _steps(self, declaration: _Declaration) -> Iterator[TemplateStep]:
        """Yield the step of a resource, or one for each copy, and remember their names."""
        outer = declaration.parent.loops if declaration.parent else self._early.loops
        copy = self._copy(declaration, outer)
        if copy is None:
            yield self._remember(declaration, self._step(declaration, outer), None)
            return
        self._names.add_loop(copy.name, declaration.symbol)
        copies: list[TemplateStep] = []
        for number in range(copy.count):
            self._check_limits(1)
            own = {copy.name.lower(): number} if copy.name else {}
            step = self._step(declaration, {**outer, **own, "": number})
            if copy.batch and number >= copy.batch:  # after all copies of the batch before
                first = (number // copy.batch - 1) * copy.batch
                before = [(other.label, other.id) for other in copies[first : first + copy.batch]]
                step = changed(step, depends_on=(*step.depends_on, *before))
            copies.append(step)
            yield self._remember(declaration, step, copy.name)

    def _copy(self, declaration: _Declaration, outer: Loops) -> _ResourceCopy | None:
        raw = declaration.raw.get("copy")
        if raw is None:
            return None
        with at("copy"):
            if not isinstance(raw, dict) or "count" not in raw:
                raise TemplateError("the copy of a resource needs a name and a count")
            name = raw.get("name", declaration.symbol)
            if not isinstance(name, str) or not name:
                raise TemplateError("name must be a non-empty string")
            count = check_count(self._evaluate(raw, "count", outer))
            mode = self._evaluate(raw, "mode", outer, default="Parallel")
            if str(mode).lower() not in {"serial", "parallel"}:
                raise TemplateError("mode must be 'Serial' or 'Parallel'")
            batch = self._evaluate(raw, "batchSize", outer, default=1)
            if kind_of(batch) != "int" or batch < 1:
                raise TemplateError("batchSize must be an int of at least 1")
        serial = str(mode).lower() == "serial"
        return _ResourceCopy(name=name, count=count, batch=batch if serial else 0)

    def _remember(
        self, declaration: _Declaration, step: TemplateStep, loop: str | None
    ) -> TemplateStep:
        self.steps.append(step)
        self._names.add(step, declaration.symbol, loop)
        if declaration.parent:  # a nested resource may be named without its parent
            self._names.add_alias(step.name.rpartition("/")[2], step)
        return step

    # --- Steps

    def _step(self, declaration: _Declaration, loops: Loops) -> TemplateStep:
        raw, parent, place = declaration.raw, declaration.parent, declaration.place
        kind, name, version = (
            self._string(raw, key, loops) for key in ("type", "name", "apiVersion")
        )
        if not _VERSION.fullmatch(version):
            raise TemplateError("apiVersion must be a date such as 2024-11-01")
        depends_on = self._dependencies(raw, loops)
        if parent is not None:
            if not _is_full_type(kind):
                kind, name = f"{parent.type}/{kind}", f"{parent.name}/{name}"
            depends_on.append((parent.label, parent.id))
        condition = self._evaluate(raw, "condition", loops, default=True)
        existing = self._evaluate(raw, "existing", loops, default=False)
        return TemplateStep(
            id=resource_id(self._scope_of(raw, loops, kind, existing=existing), kind, name),
            type=kind,
            name=name,
            version=version,
            place=place,
            label=f"{place} ({quote(raw['name'])})",
            body=declaration.body,
            enabled=boolean(condition, "condition") and not boolean(existing, "existing"),
            depends_on=tuple(depends_on),
            loops=loops,
            after=tuple(self._referred(declaration, loops)),
            template=_nested_template(raw) if kind.lower() == DEPLOYMENT else None,
        )

    def _scope_of(self, raw: Mapping[str, Any], loops: Loops, kind: str, *, existing: bool) -> str:
        """Return the id of the group, or of the resource that an extension resource extends."""
        group = self._evaluate(raw, "resourceGroup", loops, default=self._scope.group)
        own = self._evaluate(raw, "subscriptionId", loops, default=self._scope.subscription)
        same = (str(group).lower(), str(own).lower()) == (
            self._scope.group.lower(),
            self._scope.subscription.lower(),
        )
        if not same and not existing:
            raise TemplateError("a resource can be deployed only to the group of the deployment")
        text = self._evaluate(raw, "scope", loops)
        if text is None:
            return group_path(own, group)
        path = text if str(text).startswith("/") else id_of_end(self._scope.group_id, str(text))
        if not isinstance(text, str) or path in {None, "/"} or kind.lower() == DEPLOYMENT:
            raise TemplateError("scope must be the id of a resource or group in this subscription")
        return str(path).rstrip("/")

    def _referred(self, declaration: _Declaration, loops: Loops) -> Iterator[str]:
        """Yield the names in references: a resource of the template comes before this one."""
        for node in declaration.references:
            try:
                name = self._early.in_loops(loops).value(node)
            except TemplateError:  # a name that is known only when the resource is deployed
                continue
            if isinstance(name, str) and "/" not in name:
                yield name

    def _dependencies(self, raw: Mapping[str, Any], loops: Loops) -> list[tuple[str, str]]:
        raw_names = section(raw, "dependsOn", list)
        names = self._evaluate({"dependsOn": raw_names}, "dependsOn", loops)
        for name in names:
            if not isinstance(name, str):
                raise TemplateError(f"dependsOn must hold ids and names, not {kind_of(name)}")
        return [*zip(map(quote, raw_names), names, strict=True)]

    def _evaluate(
        self, raw: Mapping[str, Any], key: str, loops: Loops, *, default: object = None
    ) -> Value:
        value = raw.get(key, default)
        if value is default or isinstance(value, bool):
            return value
        node = parse_at(key, value, self._functions)
        with at(key):
            return self._early.in_loops(loops).value(node)

    def _string(self, raw: Mapping[str, Any], key: str, loops: Loops) -> str:
        value = self._evaluate(raw, key, loops)
        if not isinstance(value, str) or not value:
            raise TemplateError(f"a resource needs a {key}, which must be a non-empty string")
        return value


def boolean(value: Value, key: str) -> bool:
    """Return the value; raise unless it is a boolean."""
    if not isinstance(value, bool):
        raise TemplateError(f"{key} must be true or false, not {kind_of(value)}")
    return value


def _has_symbolic_names(template: Mapping[str, Any]) -> bool:
    version = template.get("languageVersion", "1.0")
    return isinstance(version, str) and version.startswith(("2.", "1.9", "1.10"))


def _entries(
    resources: list[Any] | dict[str, Any], place: str
) -> Iterator[tuple[str, str, object]]:
    """Yield the place, the symbolic name and the declaration of each resource."""
    if isinstance(resources, dict):
        for symbol, raw in resources.items():
            yield f"{place}.{symbol[:60]}", symbol, raw
        return
    for number, raw in enumerate(resources):
        yield f"{place}[{number}]", "", raw


def _is_full_type(kind: str) -> bool:
    """Return whether the type of a nested resource has a namespace, so that its name is whole."""
    namespace, slash, _ = kind.partition("/")
    return "." in namespace and bool(slash)


def _is_deployment(raw: Mapping[str, Any]) -> bool:
    return isinstance(raw.get("type"), str) and raw["type"].lower() == DEPLOYMENT


def _nested_template(raw: Mapping[str, Any]) -> object:
    properties = raw.get("properties")
    if not isinstance(properties, dict):
        raise TemplateError("a nested deployment needs properties: mode and template")
    if properties.get("templateLink") is not None:
        raise TemplateError("templateLink is not supported: write the linked template as template")
    return properties.get("template")


def _references(node: Node) -> Iterator[Node]:
    """Yield the first argument of each reference() and references() in a parsed value."""
    if isinstance(node, FunctionCall):
        if node.name.lower() in {"reference", "references"}:
            yield node.arguments[0]
        for part in (*node.arguments, *node.path):
            yield from _references(part)
    elif isinstance(node, CopyLoop):
        yield from _references(node.count)
        yield from _references(node.item)
    elif isinstance(node, list | dict):
        for part in node.values() if isinstance(node, dict) else node:
            yield from _references(part)
