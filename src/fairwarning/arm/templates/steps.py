"""The steps of a template: its resources with copies and nested ones, after their dependencies."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import Any

from fairwarning.arm.templates.evaluation import (
    CopyLoop,
    Evaluation,
    FunctionCall,
    Loops,
    Node,
    ValueBudget,
    check_count,
)
from fairwarning.arm.templates.expressions import parse, parse_at
from fairwarning.arm.templates.names import (
    DeploymentScope,
    ResourceNames,
    TemplateStep,
    complete_id,
    group_path,
    resource_id,
)
from fairwarning.arm.templates.values import (
    DEPTH,
    LISTED,
    TemplateError,
    Value,
    at,
    boolean,
    kind_of,
    quote,
    section,
)
from fairwarning.arm.turns import pause
from fairwarning.core.record import changed

DEPLOYMENT = "microsoft.resources/deployments"

_NOT_PART_OF_A_BODY = {
    "type", "name", "apiVersion", "dependsOn", "condition", "resources", "comments", "metadata",
    "copy", "existing", "scope", "resourceGroup", "subscriptionId",
}  # fmt: skip
_CHARACTERS = 1000  # of a type or a name
_UNSUPPORTED = ("import", "extension")
_SHOWN = 10_000  # dependencies: more would make documents that are too long to store
Resolve = Callable[[str], Sequence[str] | None]
"""Returns ids, in lower case, for an id, the end of an id, or a name; None for another text."""


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


RESOURCES = 800  # of one template: Azure's own limit

_ID_CHARACTERS = 4000  # with that of the resource that it extends
_VERSION = re.compile(r"\d{4}-\d\d-\d\d(-[a-zA-Z]+)?", re.ASCII)


class StepBuilder:
    """Builds steps, within the limit of resources that nested templates share."""

    def __init__(self, scope: DeploymentScope, early: Evaluation, names: ResourceNames) -> None:
        self.steps: list[TemplateStep] = []
        self._scope = scope
        self._early = early
        self._names = names

    def build(self, template: Mapping[str, Any]) -> None:
        """Add the steps of the section `resources`: an array, or an object of symbolic names."""
        resources = template.get("resources")
        version = template.get("languageVersion")
        symbolic = isinstance(version, str) and version.startswith(("2.", "1.9", "1.10"))
        if isinstance(resources, dict) and not symbolic:
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
                declaration = ResourceDeclaration(raw, where, symbol, parent, self._early)
                steps = [*self._steps(declaration)]
                nested = section(declaration.raw, "resources", list)
            for step in steps:
                self._add(nested, f"{where}.resources", step, depth + 1)

    def _check_limits(self, depth: int) -> None:
        if len(self.steps) >= RESOURCES or depth > DEPTH:
            raise TemplateError(f"a template may have {RESOURCES} resources, {DEPTH} levels deep")

    def _steps(self, declaration: ResourceDeclaration) -> Iterator[TemplateStep]:
        """Yield the step of a resource, or one for each copy, and remember their names."""
        outer = declaration.parent.loops if declaration.parent else self._early.loops
        loop = declaration.loop(outer)
        if loop is None:
            yield self._remember(declaration, self._step(declaration, outer), None)
            return
        name, count = loop
        self._names.add_loop(name, declaration.symbol)
        for number in range(count):
            self._check_limits(1)
            loops = {**outer, name.lower(): number, "": number}
            yield self._remember(declaration, self._step(declaration, loops), name)

    def _remember(
        self, declaration: ResourceDeclaration, step: TemplateStep, loop: str | None
    ) -> TemplateStep:
        self.steps.append(step)
        self._names.add(step, declaration.symbol, loop)
        if declaration.parent and step.id:  # a nested resource may be named without its parent
            self._names.add_alias(step.name.rpartition("/")[2], step)
        return step

    def _step(self, declaration: ResourceDeclaration, loops: Loops) -> TemplateStep:
        """Return a step. If its condition is false, only its id is evaluated, and may be wrong."""
        enabled = declaration.flag("condition", loops, default=True)
        try:
            step = self._disabled_step(declaration, loops)
        except TemplateError:
            if enabled:
                raise
            return _step_of(declaration, loops)
        if not enabled:
            return step
        version = declaration.string("apiVersion", loops)
        if not _VERSION.fullmatch(version):
            raise TemplateError("apiVersion must be a date such as 2024-11-01")
        existing = declaration.flag("existing", loops, default=False)
        depends_on = declaration.dependencies(loops)
        if declaration.parent and declaration.parent.enabled:
            depends_on.append((declaration.parent.label, declaration.parent.id))
        is_nested = step.type.lower() == DEPLOYMENT and not existing
        return changed(
            step,
            version=version,
            body=declaration.body,
            enabled=not existing,
            depends_on=tuple(depends_on),
            after=tuple(declaration.referenced(loops)),
            template=declaration.nested_template(loops) if is_nested else None,
        )

    def _disabled_step(self, declaration: ResourceDeclaration, loops: Loops) -> TemplateStep:
        kind, name = (declaration.string(key, loops) for key in ("type", "name"))
        kind = kind.strip("/")  # Azure accepts a slash at the end
        parent = declaration.parent
        is_full = "." in kind.partition("/")[0] and "/" in kind  # with a namespace
        if parent and not is_full:
            if not parent.id:
                raise TemplateError("its parent has no name: its condition is false")
            kind, name = f"{parent.type}/{kind}", f"{parent.name}/{name}"
        if not all(name.split("/")):
            raise TemplateError("a name may not have an empty part")
        path = resource_id(self._scope_of(declaration, loops, kind), kind, name)
        if len(path) > _ID_CHARACTERS:
            raise TemplateError(f"its id may have {_ID_CHARACTERS} characters")
        return changed(_step_of(declaration, loops), id=path, type=kind, name=name)

    def _scope_of(self, declaration: ResourceDeclaration, loops: Loops, kind: str) -> str:
        """Return the id of the group, or of the resource that an extension resource extends."""
        group = declaration.value("resourceGroup", loops, self._scope.group)
        subscription = declaration.value("subscriptionId", loops, self._scope.subscription)
        path = group_path(subscription, group)
        existing = declaration.flag("existing", loops, default=False)
        if path.lower() != self._scope.group_id.lower() and not existing:
            raise TemplateError("a resource can be deployed only to the group of the deployment")
        text = declaration.value("scope", loops)
        if text is None:
            return path
        scope = text if str(text).startswith("/") else complete_id(self._scope.group_id, str(text))
        if not isinstance(text, str) or scope in {None, "/"} or kind.lower() == DEPLOYMENT:
            raise TemplateError("scope must be the id of a resource or group in this subscription")
        return str(scope).rstrip("/")


def _step_of(declaration: ResourceDeclaration, loops: Loops) -> TemplateStep:
    label = f"{declaration.place} ({quote(declaration.raw.get('name'))})"
    return TemplateStep(place=declaration.place, label=label, loops=loops)


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


class StepOrder:
    """Steps after their dependencies, and otherwise in the template's order."""

    def __init__(
        self, steps: Sequence[TemplateStep], resolve: Resolve, budget: ValueBudget
    ) -> None:
        self._budget = budget
        self._numbers: dict[str, int | None] = dict.fromkeys(step.key for step in steps)
        self._enabled = {number: step for number, step in enumerate(steps) if step.enabled}
        self._resolve = resolve
        for number, step in self._enabled.items():
            other = self._numbers[step.key]
            if other is not None:
                label = self._enabled[other].label
                raise TemplateError(f"this is the same resource as {label}", step.place)
            self._numbers[step.key] = number
        self._before = {n: self._dependencies(step) for n, step in self._enabled.items()}

    def dependencies(self) -> Mapping[str, tuple[TemplateStep, ...]]:
        """Return the enabled steps before each step that has some, by the step's key.

        Of a template with very many dependencies, in which loops depend on loops, none are shown.
        """
        if sum(map(len, self._before.values())) > _SHOWN:
            return {}
        return {
            self._enabled[number].key: tuple(self._enabled[n] for n in sorted(before))
            for number, before in self._before.items()
            if before
        }

    def sorted(self) -> Iterator[TemplateStep]:
        """Yield the enabled steps in their order."""
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for number, before in self._before.items():
            pause()
            sorter.add(number, *before)
        try:
            sorter.prepare()
        except CycleError as error:
            labels = [self._enabled[number].label for number in error.args[1][1:]]
            more = f" and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
            cycle = f"{', '.join(labels[:LISTED])}{more}"
            raise TemplateError(f"these resources have circular dependencies: {cycle}") from None
        ready = sorted(sorter.get_ready())
        while ready:
            pause()
            first = heappop(ready)
            yield self._enabled[first]
            sorter.done(first)
            for number in sorter.get_ready():
                heappush(ready, number)

    def _dependencies(self, step: TemplateStep) -> set[int]:
        """Return the numbers of the steps before this one; a disabled step has no number."""
        targets: list[str] = []
        with at(f"{step.place}.dependsOn"):
            for text, name in step.depends_on:
                resolved = self._resolve(name)
                if resolved is None or not all(map(self._numbers.__contains__, resolved)):
                    raise TemplateError(
                        f"{text} is not a resource of this template, or the name of several"
                    )
                self._budget.spend(len(resolved))
                targets += resolved
        for name in step.after:
            resolved = self._resolve(name) or ()
            self._budget.spend(len(resolved))
            targets += [target for target in resolved if target != step.key]
        numbers = (self._numbers.get(target) for target in targets)
        return {number for number in numbers if number is not None}
