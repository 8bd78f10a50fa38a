"""A deployment template: its resources, their order, their bodies, and its outputs.

This module only evaluates. The caller deploys the resources in order, and reads the existing
resources that expressions refer to.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from fairwarning.arm.templates.expressions import Evaluation, parse, parse_at
from fairwarning.arm.templates.functions import (
    FUNCTIONS,
    UNLIMITED,
    Functions,
    Node,
    TemplateFunction,
)
from fairwarning.arm.templates.parameters import (
    KINDS,
    LISTED_CHARACTERS,
    SECURE,
    LazyValues,
    check_type,
    parameter,
    section,
    type_of,
)
from fairwarning.arm.templates.steps import TemplateStep, sort_steps
from fairwarning.arm.templates.values import DEPTH, TemplateError, Value, at, kind_of, quote
from fairwarning.core.record import record

RESOURCES = 800  # of one template: Azure's own limit

_KEYS = {
    "$schema", "contentVersion", "apiProfile", "metadata",
    "parameters", "variables", "functions", "resources", "outputs",
}  # fmt: skip
_NOT_PART_OF_A_BODY = {
    "type", "name", "apiVersion", "dependsOn", "condition", "resources", "comments", "metadata",
}  # fmt: skip
_UNSUPPORTED = {
    "copy": "write out each repetition",
    "existing": "use reference() with the resource's id",
    "scope": "deploy to the resource's own group",
}
_VERSION = re.compile(r"\d{4}-\d\d-\d\d(-[a-zA-Z]+)?", re.ASCII)
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

KnownResources = Mapping[str, Mapping[str, Any]]
"""The documents of resources, by id in lower case."""


@record
class DeploymentScope:
    """The resource group and the name of a deployment; the location is the group's."""

    subscription: str
    group: str
    location: str
    name: str


class ReferenceNeeded(Exception):
    """An expression needs a resource: read it (its id is in lower case), and evaluate again."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.id = resource


class Template:
    """A valid template; an invalid one raises InvalidTemplate with the place of the error."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        scope: DeploymentScope,
        versions: Callable[[str, str], Sequence[str]],
    ) -> None:
        template = _template(properties)
        self._scope = scope
        self._versions = versions
        self._parameters = LazyValues("parameters")
        self._variables = LazyValues("variables")
        self._functions = self._all_functions(_forbid_reference)
        self._early = Evaluation(self._functions)
        self._declare_values(template, section(properties, "parameters", dict))
        self._steps: list[TemplateStep] = []
        self._names: dict[str, set[str]] = {}
        self._add_steps(section(template, "resources", list), "resources")
        self.resources = tuple(sort_steps(self._steps, self._resolve))
        self._outputs = self._parse_outputs(section(template, "outputs", dict))

    def resource(self, step: TemplateStep, known: KnownResources) -> dict[str, Any]:
        """Return the body of a resource: all but its type, name, version and dependencies."""
        evaluation = Evaluation(self._all_functions(partial(self._reference, known)))
        with at(step.place, complete=True):
            body: dict[str, Any] = evaluation.copy(evaluation.value(step.body))
        return body

    def outputs(self, known: KnownResources) -> dict[str, Any]:
        """Return the type and value of each output; secure outputs have no value."""
        evaluation = Evaluation(self._all_functions(partial(self._reference, known)))
        outputs: dict[str, Any] = {}
        for name, output in self._outputs.items():
            with at(f"outputs.{name[:60]}", complete=True):
                if not _boolean(evaluation.value(output.get("condition", True))):
                    continue
                with at("value"):
                    value = evaluation.copy(evaluation.value(output["value"]))
                    check_type(output["type"], value)
            secure = output["type"].lower() in SECURE
            outputs[name] = {"type": output["type"]} | ({} if secure else {"value": value})
        return outputs

    # --- Functions that depend on the deployment

    def _all_functions(self, reference: Callable[..., Value]) -> Functions:
        scope = self._scope
        subscription = f"/subscriptions/{scope.subscription}"
        group = {
            "id": f"{subscription}/resourceGroups/{scope.group}",
            "name": scope.group,
            "type": "Microsoft.Resources/resourceGroups",
            "location": scope.location,
        }
        account = {
            "id": subscription,
            "subscriptionId": scope.subscription,
            "displayName": scope.subscription,
        }
        return {
            **FUNCTIONS,
            "deployment": TemplateFunction(lambda: {"name": scope.name}),
            "parameters": TemplateFunction(self._parameters.value, ("string",)),
            "providers": TemplateFunction(self._provider, ("string", "string")),
            "reference": TemplateFunction(reference, ("string", "string", "string"), minimum=1),
            "resourcegroup": TemplateFunction(lambda: group),
            "resourceid": TemplateFunction(
                self._resource_id, ("string",), minimum=2, maximum=UNLIMITED
            ),
            "subscription": TemplateFunction(lambda: account),
            "variables": TemplateFunction(self._variables.value, ("string",)),
        }

    def _provider(self, namespace: str, kind: str) -> Value:
        versions = list(self._versions(namespace, kind))
        if not versions:
            raise TemplateError("names an unknown resource type")
        return {"resourceType": kind, "locations": [self._scope.location], "apiVersions": versions}

    def _resource_id(self, *parts: str) -> str:
        """Return an id: [subscription,] [group,] type and names are the arguments."""
        number = next((n for n, part in enumerate(parts[:3]) if "/" in part), 0)
        prefix, kind, names = parts[:number], parts[number], parts[number + 1 :]
        subscription, group = self._scope.subscription, self._scope.group
        if len(prefix) == 1 and _GUID.fullmatch(prefix[0]):
            subscription = prefix[0]
        elif prefix:
            subscription, group = (subscription, *prefix)[-2:]
        if any("/" in name for name in names):
            raise TemplateError("takes each part of a name as an argument, without a '/'")
        return _id(subscription, group, kind, "/".join(names))

    def _reference(
        self, known: KnownResources, name: str, version: str = "", full: str = ""
    ) -> Value:
        del version  # documents are the same in all versions
        if full and full.lower() != "full":
            raise TemplateError("takes 'Full' or nothing as its argument 3")
        target = self._resolve(name)
        if target is None:
            raise TemplateError(
                "takes a resource id, or a name that only one resource of this template has"
            )
        if target not in known:
            raise ReferenceNeeded(target)
        document = dict(known[target])
        return document if full else document.get("properties", {})

    def _resolve(self, text: str) -> str | None:
        """Return the id, in lower case, for an id, the end of an id, or a name."""
        name = text.strip("/").lower()
        if text.startswith("/"):
            return f"/{name}"
        if len(ids := self._names.get(name, set())) == 1:
            return next(iter(ids))
        namespace, *rest = name.split("/")
        if "." not in namespace or not rest or len(rest) % 2:
            return None
        kind = "/".join([namespace, *rest[::2]])
        return _id(self._scope.subscription, self._scope.group, kind, "/".join(rest[1::2])).lower()

    # --- Parameters and variables

    def _declare_values(self, template: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
        values = {name.lower(): value for name, value in sent.items()}
        for name, rules in section(template, "parameters", dict).items():
            value = values.pop(name.lower(), None)
            self._parameters.declare(
                name, partial(parameter, rules, value, self._early, self._functions)
            )
        if values:
            unknown = ", ".join(values)[:LISTED_CHARACTERS]
            raise TemplateError(f"the template does not declare these parameters: {unknown}")
        with at("variables"):
            variables = parse(section(template, "variables", dict), self._functions)
        for name, node in variables.items():
            self._variables.declare(name, partial(self._early.value, node))
        self._parameters.evaluate_all()
        self._variables.evaluate_all()

    def _parse_outputs(self, declared: dict[str, Any]) -> dict[str, dict[str, Node]]:
        outputs = {}
        for name, raw in declared.items():
            with at(f"outputs.{name[:60]}"):
                if not isinstance(raw, dict) or type_of(raw) not in KINDS or "value" not in raw:
                    raise TemplateError(
                        f"an output needs a value, and one of the types {', '.join(KINDS)}"
                    )
                parts = {key: raw[key] for key in ("type", "value", "condition") if key in raw}
                outputs[name] = {k: parse_at(k, v, self._functions) for k, v in parts.items()}
        return outputs

    # --- Resources

    def _add_steps(
        self, resources: list[Any], place: str, parent: TemplateStep | None = None, depth: int = 1
    ) -> None:
        """Add the steps of the resources, each followed by its nested resources."""
        for number, raw in enumerate(resources):
            where = f"{place}[{number}]"
            with at(where, complete=True):
                if len(self._steps) >= RESOURCES or depth > DEPTH:
                    raise TemplateError(
                        f"a template may have {RESOURCES} resources, {DEPTH} levels deep"
                    )
                step = self._step(_resource(raw), where, parent)
                nested = section(raw, "resources", list)
            self._steps.append(step)
            self._names.setdefault(step.name.lower(), set()).add(step.key)
            self._add_steps(nested, f"{where}.resources", step, depth + 1)

    def _step(
        self, raw: Mapping[str, Any], place: str, parent: TemplateStep | None
    ) -> TemplateStep:
        kind, name, version = (self._string(raw, key) for key in ("type", "name", "apiVersion"))
        if kind.lower() == "microsoft.resources/deployments":
            raise TemplateError("nested deployments are not supported: list their resources here")
        if not _VERSION.fullmatch(version):
            raise TemplateError("apiVersion must be a date such as 2024-11-01")
        depends_on = self._dependencies(raw)
        if parent is not None:
            kind, name = f"{parent.type}/{kind}", f"{parent.name}/{name}"
            depends_on.append((parent.label, parent.id))
        body = {key: raw[key] for key in raw if key not in _NOT_PART_OF_A_BODY}
        return TemplateStep(
            id=_id(self._scope.subscription, self._scope.group, kind, name),
            type=kind,
            name=name,
            version=version,
            place=place,
            label=f"{place} ({quote(raw['name'])})",
            body=parse(body, self._functions),
            enabled=_boolean(self._evaluate(raw, "condition", default=True)),
            depends_on=tuple(depends_on),
        )

    def _dependencies(self, raw: Mapping[str, Any]) -> list[tuple[str, str]]:
        raw_names = section(raw, "dependsOn", list)
        names = self._evaluate({"dependsOn": raw_names}, "dependsOn")
        for name in names:
            if not isinstance(name, str):
                raise TemplateError(f"dependsOn must hold ids and names, not {kind_of(name)}")
        return [*zip(map(quote, raw_names), names, strict=True)]

    def _evaluate(self, raw: Mapping[str, Any], key: str, *, default: object = None) -> Value:
        with at(key):
            return self._early.value(parse(raw.get(key, default), self._functions))

    def _string(self, raw: Mapping[str, Any], key: str) -> str:
        value = self._evaluate(raw, key)
        if not isinstance(value, str) or not value:
            raise TemplateError(f"a resource needs a {key}, which must be a non-empty string")
        return value


# --- The parts of a template --------------------------------------------------------------------


def _template(properties: object) -> Mapping[str, Any]:
    if not isinstance(properties, Mapping):
        raise TemplateError("a deployment needs properties: mode, template and parameters")
    for key in ("templateLink", "parametersLink"):
        if properties.get(key) is not None:
            raise TemplateError(f"{key} is not supported: send {key[:-4]} instead")
    mode = properties.get("mode")
    if not isinstance(mode, str) or mode.lower() != "incremental":
        raise TemplateError("mode must be 'Incremental'; other modes are not supported")
    template = properties.get("template")
    if not isinstance(template, dict):
        raise TemplateError(f"template must be an object, not {kind_of(template)}")
    for key in template:
        if key not in _KEYS:
            raise TemplateError(
                f"{quote(key)} is not supported; supported are {', '.join(sorted(_KEYS))}"
            )
    if template.get("functions"):
        raise TemplateError(
            "user functions are not supported: replace their calls by their expressions"
        )
    return template


def _resource(raw: object) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise TemplateError(f"a resource must be an object, not {kind_of(raw)}")
    for key, instead in _UNSUPPORTED.items():
        if key in raw:
            raise TemplateError(f"{key} is not supported: {instead}")
    return raw


def _forbid_reference(*_: str) -> NoReturn:
    raise TemplateError("is allowed only in the properties of resources and in outputs")


def _id(subscription: str, group: str, kind: str, name: str) -> str:
    """Return a full id, in which the parts of the type and of the name alternate."""
    namespace, *kinds = kind.split("/")
    names = name.split("/")
    if not kinds or len(kinds) != len(names) or not all((namespace, *kinds, *names)):
        raise TemplateError(
            "a name must have a non-empty part for each part of the type after the namespace: "
            "Microsoft.Network/loadBalancers/inboundNatRules needs two, such as lb/rule"
        )
    pairs = "/".join(f"{kind}/{name}" for kind, name in zip(kinds, names, strict=True))
    return f"/subscriptions/{subscription}/resourceGroups/{group}/providers/{namespace}/{pairs}"


def _boolean(value: Value) -> bool:
    if not isinstance(value, bool):
        raise TemplateError(f"condition must be true or false, not {kind_of(value)}")
    return value
