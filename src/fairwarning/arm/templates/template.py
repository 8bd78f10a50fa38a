"""A deployment's template: which resources it asks for, in which order, and what they look like.

It is worked out here and nothing is deployed: whoever deploys asks for one resource after the
other, and looks up what an expression needs to know about resources that are there already.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from fairwarning.arm.templates.expressions import Evaluation, read, read_at
from fairwarning.arm.templates.functions import FUNCTIONS, MANY, Functions, Node, TemplateFunction
from fairwarning.arm.templates.parameters import (
    KINDS,
    LISTED_CHARACTERS,
    SECURE,
    LazyValues,
    must_be,
    parameter,
    section,
    type_of,
)
from fairwarning.arm.templates.steps import TemplateStep, ordered
from fairwarning.arm.templates.values import DEPTH, TemplateError, Value, at, kind_of, shown
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
    "copy": "write out what it would repeat",
    "existing": "use reference() with the resource's id",
    "scope": "deploy to the resource's own group",
}
_VERSION = re.compile(r"\d{4}-\d\d-\d\d(-[a-zA-Z]+)?", re.ASCII)
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

Found = Mapping[str, Mapping[str, Any]]
"""Whole resources, by their ids in lower case."""


@record
class DeploymentScope:
    """Where a deployment takes place; the location is the resource group's."""

    subscription: str
    group: str
    location: str
    name: str


class ReferenceNeeded(Exception):
    """The caller must look this resource up (its id is in lower case) and ask again."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.id = resource


class Template:
    """A sound template. Whatever is wrong with it is refused as InvalidTemplate, saying where."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        home: DeploymentScope,
        versions: Callable[[str, str], Sequence[str]],
    ) -> None:
        template = _template(properties)
        self._home = home
        self._versions = versions
        self._parameters = LazyValues("parameters")
        self._variables = LazyValues("variables")
        self._functions = self._known(_forbidden_reference)
        self._early = Evaluation(self._functions)
        self._declare(template, section(properties, "parameters", dict))
        self._steps: list[TemplateStep] = []
        self._names: dict[str, set[str]] = {}
        self._collect(section(template, "resources", list), "resources")
        self.resources = tuple(ordered(self._steps, self._resolved))
        self._outputs = self._read_outputs(section(template, "outputs", dict))

    def resource(self, step: TemplateStep, found: Found) -> dict[str, Any]:
        """The resource's body: everything but its type, name, version and dependencies."""
        evaluation = Evaluation(self._known(partial(self._reference, found)))
        with at(step.place, whole=True):
            body: dict[str, Any] = evaluation.copied(evaluation.value(step.body))
        return body

    def outputs(self, found: Found) -> dict[str, Any]:
        """Each output's type, as declared, and value; secure ones come without their value."""
        evaluation = Evaluation(self._known(partial(self._reference, found)))
        given: dict[str, Any] = {}
        for name, output in self._outputs.items():
            with at(f"outputs.{name[:60]}", whole=True):
                if not _flag(evaluation.value(output.get("condition", True))):
                    continue
                with at("value"):
                    value = evaluation.copied(evaluation.value(output["value"]))
                    must_be(output["type"], value)
            secure = output["type"].lower() in SECURE
            given[name] = {"type": output["type"]} | ({} if secure else {"value": value})
        return given

    # --- What the deployment knows

    def _known(self, reference: Callable[..., Value]) -> Functions:
        home = self._home
        subscription = f"/subscriptions/{home.subscription}"
        group = {
            "id": f"{subscription}/resourceGroups/{home.group}",
            "name": home.group,
            "type": "Microsoft.Resources/resourceGroups",
            "location": home.location,
        }
        account = {
            "id": subscription,
            "subscriptionId": home.subscription,
            "displayName": home.subscription,
        }
        return {
            **FUNCTIONS,
            "deployment": TemplateFunction(lambda: {"name": home.name}),
            "parameters": TemplateFunction(self._parameters.value, ("string",)),
            "providers": TemplateFunction(self._provider, ("string", "string")),
            "reference": TemplateFunction(reference, ("string", "string", "string"), least=1),
            "resourcegroup": TemplateFunction(lambda: group),
            "resourceid": TemplateFunction(self._resource_id, ("string",), least=2, most=MANY),
            "subscription": TemplateFunction(lambda: account),
            "variables": TemplateFunction(self._variables.value, ("string",)),
        }

    def _provider(self, namespace: str, kind: str) -> Value:
        versions = list(self._versions(namespace, kind))
        if not versions:
            raise TemplateError("names a type of resource that does not exist here")
        return {"resourceType": kind, "locations": [self._home.location], "apiVersions": versions}

    def _resource_id(self, *parts: str) -> str:
        """Of a type and names, after a group, or a subscription and a group, if need be."""
        number = next((n for n, part in enumerate(parts[:3]) if "/" in part), 0)
        where, kind, names = parts[:number], parts[number], parts[number + 1 :]
        subscription, group = self._home.subscription, self._home.group
        if len(where) == 1 and _GUID.fullmatch(where[0]):
            subscription = where[0]
        elif where:
            subscription, group = (subscription, *where)[-2:]
        if any("/" in name for name in names):
            raise TemplateError("takes each part of a name by itself, without a '/'")
        return _id(subscription, group, kind, "/".join(names))

    def _reference(self, found: Found, name: str, version: str = "", full: str = "") -> Value:
        del version  # documents are kept in one shape
        if full and full.lower() != "full":
            raise TemplateError("takes 'Full' or nothing as its argument 3")
        wanted = self._resolved(name)
        if wanted is None:
            raise TemplateError(
                "takes a resource id, or the name of just one resource of this template"
            )
        if wanted not in found:
            raise ReferenceNeeded(wanted)
        document = dict(found[wanted])
        return document if full else document.get("properties", {})

    def _resolved(self, text: str) -> str | None:
        """The id, in lower case, that is meant by an id, a part of one, or a name."""
        name = text.strip("/").lower()
        if text.startswith("/"):
            return f"/{name}"
        if len(ids := self._names.get(name, set())) == 1:
            return next(iter(ids))
        namespace, *rest = name.split("/")
        if "." not in namespace or not rest or len(rest) % 2:
            return None
        kind = "/".join([namespace, *rest[::2]])
        return _id(self._home.subscription, self._home.group, kind, "/".join(rest[1::2])).lower()

    # --- Parameters and variables

    def _declare(self, template: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        values = {name.lower(): value for name, value in given.items()}
        for name, rules in section(template, "parameters", dict).items():
            value = values.pop(name.lower(), None)
            self._parameters.declare(
                name, partial(parameter, rules, value, self._early, self._functions)
            )
        if values:
            unknown = ", ".join(values)[:LISTED_CHARACTERS]
            raise TemplateError(f"the template declares no parameters of these names: {unknown}")
        with at("variables"):
            variables = read(section(template, "variables", dict), self._functions)
        for name, node in variables.items():
            self._variables.declare(name, partial(self._early.value, node))
        self._parameters.make_all()
        self._variables.make_all()

    def _read_outputs(self, declared: dict[str, Any]) -> dict[str, dict[str, Node]]:
        outputs = {}
        for name, raw in declared.items():
            with at(f"outputs.{name[:60]}"):
                if not isinstance(raw, dict) or type_of(raw) not in KINDS or "value" not in raw:
                    raise TemplateError(
                        f"an output needs a value, and a type of {', '.join(KINDS)}"
                    )
                parts = {key: raw[key] for key in ("type", "value", "condition") if key in raw}
                outputs[name] = {k: read_at(k, v, self._functions) for k, v in parts.items()}
        return outputs

    # --- Resources

    def _collect(
        self, resources: list[Any], place: str, above: TemplateStep | None = None, depth: int = 1
    ) -> None:
        """The resources, each followed by those that stand within it."""
        for number, raw in enumerate(resources):
            where = f"{place}[{number}]"
            with at(where, whole=True):
                if len(self._steps) >= RESOURCES or depth > DEPTH:
                    raise TemplateError(
                        f"a template may have {RESOURCES} resources, {DEPTH} levels deep"
                    )
                step = self._step(_resource(raw), where, above)
                within = section(raw, "resources", list)
            self._steps.append(step)
            self._names.setdefault(step.name.lower(), set()).add(step.key)
            self._collect(within, f"{where}.resources", step, depth + 1)

    def _step(self, raw: Mapping[str, Any], place: str, above: TemplateStep | None) -> TemplateStep:
        kind, name, version = (self._text(raw, key) for key in ("type", "name", "apiVersion"))
        if kind.lower() == "microsoft.resources/deployments":
            raise TemplateError("nested deployments are not supported: list their resources here")
        if not _VERSION.fullmatch(version):
            raise TemplateError("apiVersion must be a date such as 2024-11-01")
        after = self._after(raw)
        if above is not None:
            kind, name = f"{above.type}/{kind}", f"{above.name}/{name}"
            after.append((above.label, above.id))
        body = {key: raw[key] for key in raw if key not in _NOT_PART_OF_A_BODY}
        return TemplateStep(
            id=_id(self._home.subscription, self._home.group, kind, name),
            type=kind,
            name=name,
            version=version,
            place=place,
            label=f"{place} ({shown(raw['name'])})",
            body=read(body, self._functions),
            wanted=_flag(self._worked_out(raw, "condition", default=True)),
            after=tuple(after),
        )

    def _after(self, raw: Mapping[str, Any]) -> list[tuple[str, str]]:
        given = section(raw, "dependsOn", list)
        names = self._worked_out({"dependsOn": given}, "dependsOn")
        for name in names:
            if not isinstance(name, str):
                raise TemplateError(f"dependsOn holds ids and names, not {kind_of(name)}")
        return [*zip(map(shown, given), names, strict=True)]

    def _worked_out(self, raw: Mapping[str, Any], key: str, *, default: object = None) -> Value:
        with at(key):
            return self._early.value(read(raw.get(key, default), self._functions))

    def _text(self, raw: Mapping[str, Any], key: str) -> str:
        value = self._worked_out(raw, key)
        if not isinstance(value, str) or not value:
            raise TemplateError(
                f"a resource needs a {key}, which must be a string that is not empty"
            )
        return value


# --- The parts of a template --------------------------------------------------------------------


def _template(properties: object) -> Mapping[str, Any]:
    if not isinstance(properties, Mapping):
        raise TemplateError("a deployment needs properties: mode, template and parameters")
    for key in ("templateLink", "parametersLink"):
        if properties.get(key) is not None:
            raise TemplateError(f"{key} is not supported: send the {key[:-4]} itself")
    mode = properties.get("mode")
    if not isinstance(mode, str) or mode.lower() != "incremental":
        raise TemplateError("mode must be 'Incremental'; others are not supported")
    template = properties.get("template")
    if not isinstance(template, dict):
        raise TemplateError(f"template must be an object, not {kind_of(template)}")
    for key in template:
        if key not in _KEYS:
            raise TemplateError(
                f"{shown(key)} is not supported; supported are {', '.join(sorted(_KEYS))}"
            )
    if template.get("functions"):
        raise TemplateError(
            "user functions are not supported: put their expressions where they are used"
        )
    return template


def _resource(raw: object) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise TemplateError(f"a resource must be an object, not {kind_of(raw)}")
    for key, instead in _UNSUPPORTED.items():
        if key in raw:
            raise TemplateError(f"{key} is not supported: {instead}")
    return raw


def _forbidden_reference(*_: str) -> NoReturn:
    raise TemplateError("may stand only in the properties of resources and in outputs")


def _id(subscription: str, group: str, kind: str, name: str) -> str:
    """A full id: the parts of the type alternate with the parts of the name."""
    namespace, *kinds = kind.split("/")
    names = name.split("/")
    if not kinds or len(kinds) != len(names) or not all((namespace, *kinds, *names)):
        raise TemplateError(
            "a type such as Microsoft.Network/loadBalancers/inboundNatRules needs a name with as "
            "many parts as follow the namespace, none of them empty"
        )
    pairs = "/".join(f"{kind}/{name}" for kind, name in zip(kinds, names, strict=True))
    return f"/subscriptions/{subscription}/resourceGroups/{group}/providers/{namespace}/{pairs}"


def _flag(value: Value) -> bool:
    if not isinstance(value, bool):
        raise TemplateError(f"condition must be true or false, not {kind_of(value)}")
    return value
