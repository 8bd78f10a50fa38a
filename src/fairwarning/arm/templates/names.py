"""What a template knows of its deployment: where it is deployed, and how resources are named."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn
from uuid import uuid4

from fairwarning.arm.catalogue import api_versions, document
from fairwarning.arm.templates.evaluation import (
    LIST_FUNCTIONS,
    UNLIMITED,
    Functions,
    Loops,
    Node,
    TemplateFunction,
)
from fairwarning.arm.templates.functions.scalars import UTC_NOW_FORMAT, format_time
from fairwarning.arm.templates.values import TemplateError, Value, canonical
from fairwarning.core.record import changed, record

_PARTS = ("string or int",)  # a name may be a number
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def group_path(subscription: str, group: str) -> str:
    """Return the id of a resource group."""
    return f"/subscriptions/{subscription}/resourceGroups/{group}"


def resource_id(scope: str, kind: str, name: str) -> str:
    """Return an id below a scope, in which the parts of the type and of the name alternate.

    Parts of a name may be empty, as in a variable that is not used.
    """
    namespace, *kinds = kind.strip("/").split("/")  # Azure accepts a slash at the end
    names = name.split("/")
    if not kinds or len(kinds) != len(names) or not all((namespace, *kinds)):
        raise TemplateError(
            "a name must have a part for each part of the type after the namespace: "
            "Microsoft.Network/loadBalancers/inboundNatRules needs two, such as lb/rule"
        )
    pairs = "/".join(f"{kind}/{name}" for kind, name in zip(kinds, names, strict=True))
    return f"{scope}/providers/{namespace}/{pairs}"


def complete_id(scope: str, text: str) -> str | None:
    """Return the id below a scope for the end of an id, `Microsoft.Network/virtualNetworks/net`."""
    namespace, *rest = text.strip("/").split("/")
    if "." not in namespace or not rest or len(rest) % 2:
        return None
    return resource_id(scope, "/".join([namespace, *rest[::2]]), "/".join(rest[1::2]))


def id_functions(subscription: str, group: str) -> Functions:
    """Return the functions that compose ids, for a deployment to this group."""

    def in_group(*parts: str | int) -> str:
        """Return an id: [subscription,] [group,] type and names are the arguments."""
        prefix, kind, names = _split(parts, 3)
        own, own_group = subscription, group
        if len(prefix) == 1 and _GUID.fullmatch(prefix[0]):
            own = prefix[0]
        elif prefix:
            own, own_group = (own, *prefix)[-2:]
        return resource_id(group_path(own, own_group), kind, names)

    def in_subscription(*parts: str | int) -> str:
        prefix, kind, names = _split(parts, 2)
        return resource_id(f"/subscriptions/{(subscription, *prefix)[-1]}", kind, names)

    def below(scope: str | int, *parts: str | int) -> str:
        _, kind, names = _split(parts, 1)
        return resource_id(str(scope).rstrip("/"), kind, names)

    return {
        "extensionresourceid": TemplateFunction(below, _PARTS, 3, UNLIMITED),
        "resourceid": TemplateFunction(in_group, _PARTS, 2, UNLIMITED),
        "subscriptionresourceid": TemplateFunction(in_subscription, _PARTS, 2, UNLIMITED),
        "tenantresourceid": TemplateFunction(partial(below, ""), _PARTS, 2, UNLIMITED),
    }


def _split(arguments: tuple[str | int, ...], most: int) -> tuple[tuple[str, ...], str, str]:
    """Return the arguments before the type, the type, and the names joined by slashes."""
    parts = tuple(map(str, arguments))
    number = next((n for n, part in enumerate(parts[:most]) if "/" in part), 0)
    names = parts[number + 1 :]
    if any("/" in name for name in names):
        raise TemplateError("takes each part of a name as an argument, without a '/'")
    return parts[:number], parts[number], "/".join(names)


KnownResources = Mapping[str, Mapping[str, Any]]
"""The documents of resources and the results of their list actions, by `ReferenceNeeded.key`."""


class ReferenceNeeded(Exception):
    """An expression needs a resource, or the result of an action such as `listKeys`.

    The caller reads the resource, or posts the body to the action, and evaluates again.
    """

    def __init__(self, resource: str, action: str = "", body: Value = None) -> None:
        super().__init__(resource)
        self.id = resource  # in lower case
        self.action = action  # "" for the resource itself
        self.body = body
        self.key = f"{resource}/{action.lower()}?{canonical(body)}" if action else resource


@record
class TemplateStep:
    """A resource to deploy; its id, type and name are spelled as in the template."""

    place: str
    label: str  # its name in an error
    loops: Loops
    id: str = ""  # "" if its condition is false and its name cannot be evaluated
    type: str = ""
    name: str = ""
    version: str = ""
    body: Node = None
    enabled: bool = False  # the value of its condition; false for an existing resource
    depends_on: tuple[tuple[str, str], ...] = ()  # the text in the template, and its id or name
    after: tuple[str, ...] = ()  # names in references: they come first if the template has them
    template: object = None  # of a nested deployment

    @property
    def key(self) -> str:
        """The id in lower case."""
        return self.id.lower()


class ResourceNames:
    """The ids, names, symbols and loops of a template, and of those around a nested one."""

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
        if not symbol and step.id:
            self._names.setdefault(step.name.lower(), set()).add(step.key)
        for name in {symbol.lower(), (loop or "").lower()} - {""}:
            if loop is not None:
                self._names[f"{name}[{len(self._loops[name])}]"] = {step.key}
                self._loops[name].append(step.key)

    def add_alias(self, name: str, step: TemplateStep) -> None:
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
        path = complete_id(self._group, name)
        return [path.lower()] if path else None

    def functions(self, known: KnownResources | None) -> Functions:
        """Return the functions that read resources; without known ones they are not allowed."""

        def read(needed: ReferenceNeeded) -> Mapping[str, Any]:
            if known is None or needed.key not in known:
                raise needed
            return known[needed.key]

        def properties(target: str, full: str) -> Value:
            if full and full.lower() != "full":
                raise TemplateError("takes 'Full' or nothing as its last argument")
            document = read(ReferenceNeeded(target))
            return document if full else document.get("properties", {})

        def reference(name: str, _version: str = "", full: str = "") -> Value:
            return properties(self._target(name), full)  # documents are the same in all versions

        def references(name: str, full: str = "") -> Value:
            if name.lower() not in self._loops:
                raise TemplateError("takes the name of a copy loop of this template")
            return [properties(target, full) for target in self._loops[name.lower()]]

        def list_values(action: str, name: str, _version: str, body: Value = None) -> Value:
            return read(ReferenceNeeded(self._target(name), action, body))

        texts = ("string", "string", "string")
        functions = {
            LIST_FUNCTIONS: TemplateFunction(list_values, (*texts[:2], "object"), minimum=2),
            "reference": TemplateFunction(reference, texts, minimum=1),
            "references": TemplateFunction(references, texts[:2], minimum=1),
            "resourceinfo": TemplateFunction(self._info, texts[:1]),
        }
        if known is not None:
            return functions
        return {name: changed(function, call=_forbid) for name, function in functions.items()}

    def _target(self, name: str) -> str:
        targets = self.resolve(name)
        if targets is None or len(targets) != 1:
            raise TemplateError(
                "takes an id, or a name that only one resource of this template has"
            )
        if not targets[0]:
            raise TemplateError("names a resource whose condition is false")
        return targets[0]

    def _info(self, name: str) -> Value:
        step = self._steps.get(self._target(name))
        if step is None:
            raise TemplateError("takes the symbolic name of a resource of this template")
        return {
            "id": step.id, "name": step.name, "type": step.type, "apiVersion": step.version
        }  # fmt: skip


def _forbid(*_: str) -> NoReturn:
    raise TemplateError("is allowed only in the properties of resources and in outputs")


ZONES = ("1", "2", "3")


@record
class DeploymentScope:
    """The resource group and the name of a deployment; the location is the group's."""

    subscription: str
    group: str
    location: str
    name: str
    tenant: str = ""
    endpoint: str = ""  # the URL of the control plane
    now: float = 0.0
    tags: Mapping[str, str] = field(default_factory=dict)  # of the group

    @property
    def group_id(self) -> str:
        return group_path(self.subscription, self.group)


def scope_functions(scope: DeploymentScope) -> Functions:
    """Return the functions that depend on where and as what a template is deployed."""

    def provider(namespace: str, kind: str) -> Value:
        versions = [*api_versions(namespace)]
        return {"resourceType": kind, "locations": [scope.location], "apiVersions": versions}

    values = document(
        "templateScope",
        subscription=scope.subscription,
        tenant=scope.tenant,
        group=scope.group,
        group_id=scope.group_id,
        location=scope.location,
        tags=scope.tags,
        name=scope.name,
        url=f"{scope.endpoint}/",
    )
    documents = {
        name: TemplateFunction(lambda document=document: document)
        for name, document in values.items()
    }
    return {
        **id_functions(scope.subscription, scope.group),
        **documents,
        "newguid": TemplateFunction(_only_in_defaults),
        "pickzones": TemplateFunction(
            _pick_zones, ("string", "string", "string", "int", "int"), minimum=3
        ),
        "providers": TemplateFunction(provider, ("string", "string")),
        "utcnow": TemplateFunction(_only_in_defaults, ("string",), 0, 1),
    }


def default_functions(scope: DeploymentScope) -> Functions:
    """Return the functions that only the default values of parameters may use."""

    def utc_now(form: str = UTC_NOW_FORMAT) -> str:
        return format_time(datetime.fromtimestamp(scope.now, UTC), form)

    return {
        "newguid": TemplateFunction(lambda: str(uuid4())),
        "utcnow": TemplateFunction(utc_now, ("string",), 0, 1),
    }


def _only_in_defaults(*_: str) -> NoReturn:
    raise TemplateError("is allowed only in the default value of a parameter")


def _pick_zones(
    _namespace: str, _kind: str, _location: str, count: int = 1, offset: int = 0
) -> Value:
    if not (1 <= count <= len(ZONES) and 0 <= offset <= len(ZONES) - count):
        raise TemplateError(f"takes a number of zones from 1 to {len(ZONES)}, and an offset")
    return list(ZONES[offset : offset + count])
