"""Pages of instances of a scale set, and the query options that Azure documents for them (C6)."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairwarning.arm.http.context import PAGE, ArmContext, invalid_skip_token
from fairwarning.arm.http.errors import invalid_value
from fairwarning.arm.http.request import ArmRequest, Body
from fairwarning.arm.resources import targets, views
from fairwarning.arm.resources.targets import ActionTarget
from fairwarning.core.model import ScaleSet

Predicate = Callable[[ActionTarget], bool]

_LATEST = re.compile(r"properties/latestModelApplied\s+eq\s+(true|false)", re.IGNORECASE)
_STATUS = re.compile(
    r"startswith\(\s*instanceView/statuses/code\s*,\s*'([^']*)'\s*\)(?:\s+eq\s+(true|false))?",
    re.IGNORECASE,
)
_ANY_STATUS = re.compile(
    r"instanceView/statuses/any\(\s*(\w+)\s*:\s*\1/code\s+eq\s+'([^']*)'\s*\)", re.IGNORECASE
)
_SELECTIONS = {"": (), "instanceview": ("instanceView",), "instanceview/statuses": ("statuses",)}
_KEPT = ("name", "id", "type", "location", "instanceId")
"""The members of an instance that a selection keeps."""


@dataclass(frozen=True)
class InstanceQuery:
    """The options of a listing of instances."""

    matches: Predicate | None  # None: `$filter` is one that every list has, or there is none
    selected: tuple[str, ...] = ()

    def select(self, document: Body) -> Body:
        """Return the selected members of an instance; all without a selection."""
        if not self.selected:
            return document
        view = document["properties"]["instanceView"]
        if self.selected == ("statuses",):
            view = {"statuses": view["statuses"]}
        kept = {name: document[name] for name in _KEPT}
        return {**kept, "properties": {"instanceView": view}}


def parse_query(request: ArmRequest, scale_set: ScaleSet) -> InstanceQuery:
    """Return the options of a listing that only instances have."""
    select = request.query("$select")
    if select.lower() not in _SELECTIONS:
        raise invalid_value("$select", select, "instanceView or instanceView/statuses")
    matches = _predicate(request.query("$filter").strip(), scale_set)
    return InstanceQuery(matches, _SELECTIONS[select.lower()])


def _predicate(text: str, scale_set: ScaleSet) -> Predicate | None:
    if match := _LATEST.fullmatch(text):
        latest = match[1].lower() == "true"
        return lambda target: (target.machine.model in {0, scale_set.model}) is latest
    if match := _STATUS.fullmatch(text):
        prefix, wanted = match[1].lower(), (match[2] or "true").lower() == "true"
        return lambda target: any(code.startswith(prefix) for code in _codes(target)) is wanted
    if match := _ANY_STATUS.fullmatch(text):
        exact = match[2].lower()
        return lambda target: exact in _codes(target)
    return None


def _codes(target: ActionTarget) -> Sequence[str]:
    view = views.instance_view(target.scope, target.machine, 0)
    return [status["code"].lower() for status in view["statuses"]]


async def list_instances(
    context: ArmContext, request: ArmRequest, scale_set: ScaleSet, matches: Predicate | None = None
) -> tuple[list[ActionTarget], str]:
    """Return a page of the instances in the order of their ids, and the token of the next page."""
    after = _after(request.query("$skiptoken"))
    instances = [
        ActionTarget(scope, machine, scale_set)
        for scope in await targets.placement_groups(context, scale_set)
        for machine in scope.machines.values()
        if machine.instance > after
    ]
    later = [target for target in instances if matches is None or matches(target)]
    later.sort(key=lambda target: target.machine.instance)
    token = str(later[PAGE - 1].machine.instance) if len(later) > PAGE else ""
    return later[:PAGE], token


def _after(token: str) -> int:
    if not token:
        return -1
    if not token.isascii() or not token.isdigit() or len(token) > len(str(10**9)):
        raise invalid_skip_token()
    return int(token)
