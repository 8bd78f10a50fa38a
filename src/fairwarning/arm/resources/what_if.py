"""What a deployment would change: a list of resources, and of the properties that differ."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from fairwarning.arm.http import internal
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body
from fairwarning.arm.resources import documents
from fairwarning.arm.resources.deployment_run import newest_version
from fairwarning.arm.templates.names import KnownResources, ReferenceNeeded
from fairwarning.arm.templates.step_builder import DEPLOYMENT
from fairwarning.arm.templates.steps import TemplateStep
from fairwarning.arm.templates.template import Template
from fairwarning.arm.templates.values import TemplateError

T = TypeVar("T")
_PAGES = 100  # of the resources that the template does not name


class WhatIf:
    """Compares the resources of a template with those that exist."""

    def __init__(self, request: ArmRequest, *, payloads: bool) -> None:
        self._request = request
        self._payloads = payloads
        self._known: dict[str, Body] = {}
        self._changes: dict[str, Body] = {}

    async def changes(self, template: Template) -> list[Body]:
        """Return the changes of a template, and the resources of the group that it ignores."""
        await self._add(template)
        async for entry in self._resources(template.scope.group_id):
            payload = {"before": entry} if self._payloads else {}
            change = {"resourceId": entry["id"], "changeType": "Ignore", **payload}
            self._changes.setdefault(entry["id"].lower(), change)
        return [*self._changes.values()]

    async def _add(self, template: Template) -> None:
        for step in template.resources:
            try:
                if step.type.lower() == DEPLOYMENT:
                    await self._add(await self._evaluate(partial(template.nested, step)))
                else:
                    self._changes[step.key] = await self._change(template, step)
            except (TemplateError, _NotPredictable) as error:
                self._changes[step.key] = {
                    "resourceId": step.id,
                    "changeType": "Unsupported",
                    "unsupportedReason": f"The result is known only after deployment: {error}",
                }

    async def _change(self, template: Template, step: TemplateStep) -> Body:
        before = await self._existing(step.id)
        sent = await self._evaluate(partial(template.resource, step))
        identity = {
            "id": step.id, "type": step.type, "name": step.name.rpartition("/")[2],
            "apiVersion": step.version,
        }  # fmt: skip
        after = {**documents.sanitize(sent), **identity}
        self._known[step.key] = before or after  # an existing one has computed members
        change: Body = {"resourceId": step.id}
        if before is None:
            return {
                **change,
                "changeType": "Create",
                **({"after": after} if self._payloads else {}),
            }
        if not self._payloads:
            return {**change, "changeType": "Deploy"}
        before = {**before, "apiVersion": step.version}
        delta = [*compare(before, after)]
        return {
            **change,
            "changeType": "Modify" if delta else "NoChange",
            "before": before,
            "after": documents.merge(before, after),
            "delta": delta,
        }

    async def _evaluate(self, evaluate: Callable[[KnownResources], T]) -> T:
        """Return the result of an evaluation, from the resources that exist or will exist."""
        while True:
            try:
                return evaluate(self._known)
            except ReferenceNeeded as reference:
                document = await self._existing(reference.id)
                if document is None:
                    raise _NotPredictable(reference.id) from reference
                self._known[reference.id] = document

    async def _existing(self, path: str) -> Body | None:
        status, document = await internal.call(self._request, "GET", path, newest_version(path))
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status >= HTTPStatus.BAD_REQUEST:
            raise ArmError(document["error"]["code"], document["error"]["message"], status)
        body: Body = document
        return body

    async def _resources(self, group: str) -> Any:  # noqa: ANN401  (an async generator of bodies)
        query: dict[str, str] = {}
        for _ in range(_PAGES):
            page = await internal.require(
                self._request, "GET", f"{group}/resources", self._request.version, **query
            )
            for entry in page["value"]:
                yield entry
            if "nextLink" not in page:
                return
            query = dict(parse_qsl(urlsplit(page["nextLink"]).query))
            query.pop("api-version", None)


class _NotPredictable(Exception):
    """An expression refers to a resource that does not exist yet."""

    def __init__(self, path: str) -> None:
        super().__init__(f"it refers to {path}, which does not exist yet.")


# --- Comparing ------------------------------------------------------------------------------------


def compare(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[Body]:
    """Yield the properties that differ. Those that only the existing resource has are defaults."""
    spellings = {key.lower(): key for key in before} if path != "tags" else {}
    for key, value in after.items():
        own = spellings.get(key.lower(), key)  # names of properties are case-insensitive
        place = f"{path}.{own}" if path else own
        if own not in before:
            yield {"path": place, "propertyChangeType": "Create", "after": value}
        else:
            yield from _compare_values(place, before[own], value)
    if path == "tags":
        for key in before.keys() - after.keys():
            place = f"{path}.{key}"
            yield {"path": place, "propertyChangeType": "Delete", "before": before[key]}


def _compare_values(path: str, before: Any, after: Any) -> Iterator[Body]:  # noqa: ANN401  (any JSON)
    if isinstance(before, dict) and isinstance(after, dict):
        yield from compare(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        children = [*_compare_items(before, after)]
        if children:
            change = {"before": before, "after": after, "children": children}
            yield {"path": path, "propertyChangeType": "Array", **change}
    elif not _is_equal(path, before, after):
        yield {"path": path, "propertyChangeType": "Modify", "before": before, "after": after}


def _compare_items(before: list[Any], after: list[Any]) -> Iterator[Body]:
    """Yield the changes of items, which belong together by name, or else by position."""
    names = {entry["name"].lower(): entry for entry in before if _has_name(entry)}
    matched = []
    for number, item in enumerate(after):
        other = names.get(item["name"].lower()) if _has_name(item) else None
        if other is None and not _has_name(item) and number < len(before):
            other = before[number]
        if other is None:
            yield {"path": str(number), "propertyChangeType": "Create", "after": item}
            continue
        matched.append(id(other))
        children = [*_compare_values("", other, item)]
        if children and isinstance(item, dict):
            change = {"before": other, "after": item, "children": children}
            yield {"path": str(number), "propertyChangeType": "Modify", **change}
        elif children:
            yield {**children[0], "path": str(number)}
    for number, item in enumerate(before):
        if id(item) not in matched:
            yield {"path": str(number), "propertyChangeType": "Delete", "before": item}


def _has_name(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _is_equal(path: str, before: object, after: object) -> bool:
    """Return whether two values mean the same: templates send booleans and numbers as strings."""
    if before == after or path.startswith("tags."):
        return before == after
    texts = [str(value).lower() for value in (before, after)]
    if path == "location":
        texts = [text.replace(" ", "") for text in texts]
    return texts[0] == texts[1]
