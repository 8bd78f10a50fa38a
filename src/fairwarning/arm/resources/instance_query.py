"""Pages of instances of a scale set, and the query options that Azure documents for them (C6)."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from fairwarning.arm.http.context import PAGE, ArmContext, invalid_skip_token
from fairwarning.arm.http.errors import ArmError
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
_FILTERS = (
    "properties/latestModelApplied eq true (or false), "
    "startswith(instanceView/statuses/code, 'PowerState/running') eq true, or "
    "instanceView/statuses/any(s: s/code eq 'PowerState/running')"
)
_SELECTIONS = {"": (), "instanceview": ("instanceView",), "instanceview/statuses": ("statuses",)}
_KEPT = ("name", "id", "type", "location", "instanceId")
"""The members of an instance that a selection keeps."""


@dataclass(frozen=True)
class InstanceQuery:
    """The options of a listing of instances."""

    matches: Predicate
    view: bool = False
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


def refuse_options(request: ArmRequest, allowed: Collection[str] = ()) -> None:
    """Refuse query options that this URL does not have: they would change the answer."""
    for name in request.http.query_params:
        if name.startswith("$") and name.lower() not in {"$skiptoken", *allowed}:
            others = ", ".join(sorted(allowed)) or "none"
            text = f"The query option '{name[:40]}' is not supported here; allowed: {others}."
            raise ArmError("InvalidParameter", text)


def expands_view(request: ArmRequest) -> bool:
    """Return whether the request asks for the instance view; refuse another `$expand`."""
    expand = request.query("$expand")
    words = {word.strip().lower() for word in expand.split(",")} - {""}
    if not words <= {"instanceview", "userdata"}:  # user data is never stored, so there is none
        text = f"The value '{expand[:60]}' of $expand is invalid: use instanceView or userData."
        raise ArmError("InvalidParameter", text)
    return "instanceview" in words


def parse_query(request: ArmRequest, scale_set: ScaleSet) -> InstanceQuery:
    """Return the options of a listing; refuse those that Azure does not have."""
    refuse_options(request, {"$expand", "$filter", "$select"})
    select = request.query("$select")
    if select.lower() not in _SELECTIONS:
        text = "use instanceView or instanceView/statuses"
        raise ArmError("InvalidParameter", f"The $select '{select[:60]}' is invalid: {text}.")
    selected = _SELECTIONS[select.lower()]
    view = expands_view(request) or bool(selected)
    return InstanceQuery(_predicate(request.query("$filter"), scale_set), view, selected)


def _predicate(text: str, scale_set: ScaleSet) -> Predicate:
    text = text.strip()
    if not text:
        return lambda _target: True
    if match := _LATEST.fullmatch(text):
        latest = match[1].lower() == "true"
        return lambda target: (target.machine.model in {0, scale_set.model}) is latest
    if match := _STATUS.fullmatch(text):
        prefix, wanted = match[1].lower(), (match[2] or "true").lower() == "true"
        return lambda target: any(code.startswith(prefix) for code in _codes(target)) is wanted
    if match := _ANY_STATUS.fullmatch(text):
        exact = match[2].lower()
        return lambda target: exact in _codes(target)
    raise ArmError("InvalidParameter", f"The $filter '{text[:100]}' is invalid: use {_FILTERS}.")


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
