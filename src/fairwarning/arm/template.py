"""A deployment's template: which resources it asks for, in which order, and what they look like.

It is worked out here and nothing is deployed: whoever deploys asks for one resource after the
other, and looks up what an expression needs to know about resources that are there already.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import Any, NoReturn, TypeVar

from fairwarning.arm.expressions import (
    DEPTH,
    FUNCTIONS,
    MANY,
    Evaluation,
    Function,
    Functions,
    Node,
    Value,
    Wrong,
    at,
    canonical,
    kind_of,
    read,
    read_at,
    shown,
)
from fairwarning.core.record import record

RESOURCES = 800  # of one template: Azure's own limit

_KEYS = {
    "$schema", "contentVersion", "apiProfile", "metadata",
    "parameters", "variables", "functions", "resources", "outputs",
}  # fmt: skip
_KINDS = {  # what a type of a parameter or output admits
    "string": "string",
    "securestring": "string",
    "int": "int",
    "bool": "bool",
    "object": "object",
    "secureobject": "object",
    "array": "array",
}
_LISTED = 10  # how many things a refusal names
_LISTED_CHARACTERS = 500
_SECURE = {"securestring", "secureobject"}
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

S = TypeVar("S", list[Any], dict[str, Any])

Found = Mapping[str, Mapping[str, Any]]
"""Whole resources, by their ids in lower case."""


@record
class Home:
    """Where a deployment takes place; the location is the resource group's."""

    subscription: str
    group: str
    location: str
    name: str


class Needs(Exception):
    """The caller must look this resource up (its id is in lower case) and ask again."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.id = resource


@record
class Step:
    """A resource to deploy; its id, type and name are spelled as in the template."""

    id: str
    type: str
    name: str
    version: str
    place: str
    label: str  # what a refusal calls it
    body: Node
    wanted: bool
    after: tuple[tuple[str, str], ...]  # as the template puts it, and the id or name that it gives

    @property
    def key(self) -> str:
        """What it is found by."""
        return self.id.lower()


class Template:
    """A sound template. Whatever is wrong with it is refused as InvalidTemplate, saying where."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        home: Home,
        versions: Callable[[str, str], Sequence[str]],
    ) -> None:
        template = _template(properties)
        self._home = home
        self._versions = versions
        self._parameters = _Named("parameters")
        self._variables = _Named("variables")
        self._functions = self._known(_forbidden_reference)
        self._early = Evaluation(self._functions)
        self._declare(template, _section(properties, "parameters", dict))
        self._steps: list[Step] = []
        self._names: dict[str, set[str]] = {}
        self._collect(_section(template, "resources", list), "resources")
        self.resources = tuple(self._ordered())
        self._outputs = self._read_outputs(_section(template, "outputs", dict))

    def resource(self, step: Step, found: Found) -> dict[str, Any]:
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
                    _must_be(output["type"], value)
            secure = output["type"].lower() in _SECURE
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
            "deployment": Function(lambda: {"name": home.name}),
            "parameters": Function(self._parameters.value, ("string",)),
            "providers": Function(self._provider, ("string", "string")),
            "reference": Function(reference, ("string", "string", "string"), least=1),
            "resourcegroup": Function(lambda: group),
            "resourceid": Function(self._resource_id, ("string",), least=2, most=MANY),
            "subscription": Function(lambda: account),
            "variables": Function(self._variables.value, ("string",)),
        }

    def _provider(self, namespace: str, kind: str) -> Value:
        versions = list(self._versions(namespace, kind))
        if not versions:
            raise Wrong("names a type of resource that does not exist here")
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
            raise Wrong("takes each part of a name by itself, without a '/'")
        return _id(subscription, group, kind, "/".join(names))

    def _reference(self, found: Found, name: str, version: str = "", full: str = "") -> Value:
        del version  # documents are kept in one shape
        if full and full.lower() != "full":
            raise Wrong("takes 'Full' or nothing as its argument 3")
        wanted = self._resolved(name)
        if wanted is None:
            raise Wrong("takes a resource id, or the name of just one resource of this template")
        if wanted not in found:
            raise Needs(wanted)
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
        for name, rules in _section(template, "parameters", dict).items():
            value = values.pop(name.lower(), None)
            self._parameters.declare(name, partial(self._parameter, rules, value))
        if values:
            unknown = ", ".join(values)[:_LISTED_CHARACTERS]
            raise Wrong(f"the template declares no parameters of these names: {unknown}")
        with at("variables"):
            variables = read(_section(template, "variables", dict), self._functions)
        for name, node in variables.items():
            self._variables.declare(name, partial(self._early.value, node))
        self._parameters.make_all()
        self._variables.make_all()

    def _parameter(self, rules: object, given: object) -> Value:
        rules = self._early.copied(rules)
        if not isinstance(rules, dict) or _type(rules) not in _KINDS:
            raise Wrong(f"a parameter needs a type, which is one of {', '.join(_KINDS)}")
        if isinstance(given, dict) and "reference" in given:
            raise Wrong("secrets from a key vault are not supported: send the value itself")
        if given is not None and not isinstance(given, dict):
            raise Wrong('the value must be given as {"value": ...}')
        value = (given or {}).get("value")
        if value is None:
            value = self._default(rules)
        value = self._early.copied(value)
        _must_be(rules["type"], value)
        _check_parameter(rules, value)
        return value

    def _default(self, rules: Mapping[str, Any]) -> Value:
        if rules.get("defaultValue") is None:
            raise Wrong("it has no default value, so a value must be given")
        try:
            return self._early.value(read(rules["defaultValue"], self._functions))
        except Wrong:
            if _type(rules) in _SECURE:
                raise Wrong("its default value cannot be worked out (and is not shown)") from None
            raise

    def _read_outputs(self, declared: dict[str, Any]) -> dict[str, dict[str, Node]]:
        outputs = {}
        for name, raw in declared.items():
            with at(f"outputs.{name[:60]}"):
                if not isinstance(raw, dict) or _type(raw) not in _KINDS or "value" not in raw:
                    raise Wrong(f"an output needs a value, and a type of {', '.join(_KINDS)}")
                parts = {key: raw[key] for key in ("type", "value", "condition") if key in raw}
                outputs[name] = {k: read_at(k, v, self._functions) for k, v in parts.items()}
        return outputs

    # --- Resources

    def _collect(
        self, resources: list[Any], place: str, above: Step | None = None, depth: int = 1
    ) -> None:
        """The resources, each followed by those that stand within it."""
        for number, raw in enumerate(resources):
            where = f"{place}[{number}]"
            with at(where, whole=True):
                if len(self._steps) >= RESOURCES or depth > DEPTH:
                    raise Wrong(f"a template may have {RESOURCES} resources, {DEPTH} levels deep")
                step = self._step(_resource(raw), where, above)
                within = _section(raw, "resources", list)
            self._steps.append(step)
            self._names.setdefault(step.name.lower(), set()).add(step.key)
            self._collect(within, f"{where}.resources", step, depth + 1)

    def _step(self, raw: Mapping[str, Any], place: str, above: Step | None) -> Step:
        kind, name, version = (self._text(raw, key) for key in ("type", "name", "apiVersion"))
        if kind.lower() == "microsoft.resources/deployments":
            raise Wrong("nested deployments are not supported: list their resources here")
        if not _VERSION.fullmatch(version):
            raise Wrong("apiVersion must be a date such as 2024-11-01")
        after = self._after(raw)
        if above is not None:
            kind, name = f"{above.type}/{kind}", f"{above.name}/{name}"
            after.append((above.label, above.id))
        body = {key: raw[key] for key in raw if key not in _NOT_PART_OF_A_BODY}
        return Step(
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
        given = _section(raw, "dependsOn", list)
        names = self._worked_out({"dependsOn": given}, "dependsOn")
        for name in names:
            if not isinstance(name, str):
                raise Wrong(f"dependsOn holds ids and names, not {kind_of(name)}")
        return [*zip(map(shown, given), names, strict=True)]

    def _worked_out(self, raw: Mapping[str, Any], key: str, *, default: object = None) -> Value:
        with at(key):
            return self._early.value(read(raw.get(key, default), self._functions))

    def _text(self, raw: Mapping[str, Any], key: str) -> str:
        value = self._worked_out(raw, key)
        if not isinstance(value, str) or not value:
            raise Wrong(f"a resource needs a {key}, which must be a string that is not empty")
        return value

    def _ordered(self) -> Iterator[Step]:
        """In the template's order, as far as everything comes after what it depends on."""
        numbers: dict[str | None, int | None] = dict.fromkeys(step.key for step in self._steps)
        wanted = {number: step for number, step in enumerate(self._steps) if step.wanted}
        for number, step in wanted.items():
            other = numbers[step.key]
            if other is not None:
                raise Wrong(f"this is the same resource as {wanted[other].label}", step.place)
            numbers[step.key] = number
        sorter = TopologicalSorter({n: self._before(wanted[n], numbers) for n in wanted})
        try:
            sorter.prepare()
        except CycleError as error:
            labels = [wanted[number].label for number in error.args[1][1:]]
            more = f" and {len(labels) - _LISTED} more" if len(labels) > _LISTED else ""
            circle = f"{', '.join(labels[:_LISTED])}{more}"
            raise Wrong(f"these resources depend on each other in a circle: {circle}") from None
        ready = sorted(sorter.get_ready())
        while ready:
            first = heappop(ready)
            yield wanted[first]
            sorter.done(first)
            for number in sorter.get_ready():
                heappush(ready, number)

    def _before(self, step: Step, numbers: Mapping[str | None, int | None]) -> set[int]:
        """What this step comes after; what is left out has no number and does not count."""
        before = set()
        for text, name in step.after:
            with at(f"{step.place}.dependsOn"):
                target = self._resolved(name)
                if target not in numbers:
                    raise Wrong(f"{text} is no resource of this template, or the name of several")
            if (number := numbers[target]) is not None:
                before.add(number)
        return before


class _Named:
    """Parameters or variables: each is made when it is first asked for, from others perhaps."""

    def __init__(self, section: str) -> None:
        self._section = section
        self._makers: dict[str, tuple[str, Callable[[], Value]]] = {}
        self._values: dict[str, Value] = {}
        self._busy: set[str] = set()

    def declare(self, name: str, make: Callable[[], Value]) -> None:
        self._makers[name.lower()] = (name, make)

    def make_all(self) -> None:
        for name in self._makers:
            self.value(name)

    def value(self, name: str) -> Value:
        key = name.lower()
        if key not in self._makers:
            known = ", ".join(name for name, _ in self._makers.values()) or "none"
            raise Wrong(f"is not declared; declared are: {known[:_LISTED_CHARACTERS]}")
        if key not in self._values:
            self._values[key] = self._made(key)
        return self._values[key]

    def _made(self, key: str) -> Value:
        name, make = self._makers[key]
        with at(f"{self._section}.{name[:60]}", whole=True):
            if key in self._busy:
                raise Wrong("this is made of itself")
            self._busy.add(key)
            return make()


# --- The parts of a template --------------------------------------------------------------------


def _template(properties: object) -> Mapping[str, Any]:
    if not isinstance(properties, Mapping):
        raise Wrong("a deployment needs properties: mode, template and parameters")
    for key in ("templateLink", "parametersLink"):
        if properties.get(key) is not None:
            raise Wrong(f"{key} is not supported: send the {key[:-4]} itself")
    mode = properties.get("mode")
    if not isinstance(mode, str) or mode.lower() != "incremental":
        raise Wrong("mode must be 'Incremental'; others are not supported")
    template = properties.get("template")
    if not isinstance(template, dict):
        raise Wrong(f"template must be an object, not {kind_of(template)}")
    for key in template:
        if key not in _KEYS:
            raise Wrong(f"{shown(key)} is not supported; supported are {', '.join(sorted(_KEYS))}")
    if template.get("functions"):
        raise Wrong("user functions are not supported: put their expressions where they are used")
    return template


def _resource(raw: object) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise Wrong(f"a resource must be an object, not {kind_of(raw)}")
    for key, instead in _UNSUPPORTED.items():
        if key in raw:
            raise Wrong(f"{key} is not supported: {instead}")
    return raw


def _forbidden_reference(*_: str) -> NoReturn:
    raise Wrong("may stand only in the properties of resources and in outputs")


def _section(raw: Mapping[str, Any], key: str, kind: type[S]) -> S:
    """The part of this name, which may be missing."""
    value = raw.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise Wrong(f"{key} must be {kind_of(kind())}, not {kind_of(value)}")
    return value


def _id(subscription: str, group: str, kind: str, name: str) -> str:
    """A full id: the parts of the type alternate with the parts of the name."""
    namespace, *kinds = kind.split("/")
    names = name.split("/")
    if not kinds or len(kinds) != len(names) or not all((namespace, *kinds, *names)):
        raise Wrong(
            "a type such as Microsoft.Network/loadBalancers/inboundNatRules needs a name with as "
            "many parts as follow the namespace, none of them empty"
        )
    pairs = "/".join(f"{kind}/{name}" for kind, name in zip(kinds, names, strict=True))
    return f"/subscriptions/{subscription}/resourceGroups/{group}/providers/{namespace}/{pairs}"


def _flag(value: Value) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"condition must be true or false, not {kind_of(value)}")
    return value


def _type(rules: Mapping[str, Any]) -> str:
    declared = rules.get("type")
    return declared.lower() if isinstance(declared, str) else ""


def _must_be(declared: str, value: Value) -> None:
    kind = _KINDS[declared.lower()]
    if kind_of(value) != kind:
        raise Wrong(f"its type is {declared}, so it must be {kind}, not {kind_of(value)}")


def _check_parameter(rules: Mapping[str, Any], value: Value) -> None:
    allowed = _section(rules, "allowedValues", list)
    some = value if isinstance(value, list) else [value]
    if allowed and not set(map(canonical, some)) <= set(map(canonical, allowed)):
        listed = "" if _type(rules) in _SECURE else f": {', '.join(map(shown, allowed[:_LISTED]))}"
        raise Wrong(f"it must be one of its allowedValues{listed}")
    size = value if kind_of(value) == "int" else None
    length = len(value) if isinstance(value, str | list) else None
    for key, measure in (("Value", size), ("Length", length)):
        for end, sign in (("min", 1), ("max", -1)):
            bound = rules.get(end + key)
            if bound is None or measure is None:
                continue
            if kind_of(bound) != "int":
                raise Wrong(f"{end}{key} must be int, not {kind_of(bound)}")
            if sign * measure < sign * bound:
                raise Wrong(f"its {end}{key} is {bound}")
