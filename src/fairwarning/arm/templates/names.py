"""How expressions name the resources of a template: by id, name, symbol or loop."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from fairwarning.arm.templates.calls import Functions, TemplateFunction
from fairwarning.arm.templates.ids import id_of_end
from fairwarning.arm.templates.steps import TemplateStep
from fairwarning.arm.templates.values import TemplateError, Value

KnownResources = Mapping[str, Mapping[str, Any]]
"""The documents of resources, by id in lower case."""


class ReferenceNeeded(Exception):
    """An expression needs a resource: read it (its id is in lower case), and evaluate again."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.id = resource


class ResourceNames:
    """The names of a template's resources. A nested template also knows those around it."""

    def __init__(self, group: str, outer: "ResourceNames | None" = None) -> None:
        self._group = group
        self._outer = outer
        self._names: dict[str, set[str]] = {}
        self._loops: dict[str, list[str]] = {}
        self._steps: dict[str, TemplateStep] = {}

    def add(self, step: TemplateStep, symbol: str = "", loop: str | None = None) -> None:
        """Add a resource, which may have a symbolic name and be one of a loop."""
        self._steps.setdefault(step.key, step)
        if symbol and loop is None:
            self._loops[symbol.lower()] = [step.key]
        if not symbol:
            self._names.setdefault(step.name.lower(), set()).add(step.key)
        for name in {symbol.lower(), (loop or "").lower()} - {""}:
            if loop is not None:
                self._names[f"{name}[{len(self._loops[name])}]"] = {step.key}
                self._loops[name].append(step.key)

    def add_alias(self, name: str, step: TemplateStep) -> None:
        """Add another name of a resource."""
        self._names.setdefault(name.lower(), set()).add(step.key)

    def add_loop(self, *names: str) -> None:
        """Add the names of a loop before its resources; it may have none."""
        for name in names:
            if name:
                self._loops.setdefault(name.lower(), [])

    def resolve(self, text: str) -> Sequence[str] | None:
        """Return the ids, in lower case, for an id, the end of an id, or a name; else None."""
        name = text.strip("/").lower()
        if text.startswith("/"):
            return [f"/{name}"]
        if name in self._loops:
            return self._loops[name]
        if len(ids := self._names.get(name, set())) == 1:
            return [*ids]
        if self._outer and not ids and (outer := self._outer.resolve(text)) is not None:
            return outer
        path = id_of_end(self._group, name)
        return [path.lower()] if path else None

    # --- Functions

    def functions(self, known: KnownResources | None) -> Functions:
        """Return the functions that read resources; without known ones they are not allowed."""

        def reference(name: str, version: str = "", full: str = "") -> Value:
            del version  # documents are the same in all versions
            return self._reference(known, self._one(name), full)

        def references(name: str, full: str = "") -> Value:
            if name.lower() not in self._loops:
                raise TemplateError("takes the name of a copy loop of this template")
            return [self._reference(known, key, full) for key in self._loops[name.lower()]]

        three = ("string", "string", "string")
        if known is None:
            return {
                "reference": TemplateFunction(_forbid, three, minimum=1),
                "references": TemplateFunction(_forbid, three[:2], minimum=1),
                "resourceinfo": TemplateFunction(_forbid, three[:1]),
            }
        return {
            "reference": TemplateFunction(reference, three, minimum=1),
            "references": TemplateFunction(references, three[:2], minimum=1),
            "resourceinfo": TemplateFunction(self._info, three[:1]),
        }

    def _one(self, name: str) -> str:
        targets = self.resolve(name)
        if targets is None or len(targets) != 1:
            raise TemplateError(
                "takes a resource id, or a name that only one resource of this template has"
            )
        return targets[0]

    def _reference(self, known: KnownResources | None, target: str, full: str) -> Value:
        if full and full.lower() != "full":
            raise TemplateError("takes 'Full' or nothing as its last argument")
        if known is None or target not in known:
            raise ReferenceNeeded(target)
        document = dict(known[target])
        return document if full else document.get("properties", {})

    def _info(self, name: str) -> Value:
        step = self._steps.get(self._one(name))
        if step is None:
            raise TemplateError("takes the symbolic name of a resource of this template")
        return {
            "id": step.id, "name": step.name, "type": step.type, "apiVersion": step.version
        }  # fmt: skip


def _forbid(*_: str) -> NoReturn:
    raise TemplateError("is allowed only in the properties of resources and in outputs")
