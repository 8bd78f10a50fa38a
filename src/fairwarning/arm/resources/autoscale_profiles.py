"""The profiles of an autoscale setting, checked as Azure does and as the rules have them."""

import re
from collections.abc import Mapping
from typing import Any

from fairwarning.arm.http.errors import ArmError, invalid_value
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import autoscale_schedules
from fairwarning.arm.resources.documents import choice, typed_value
from fairwarning.core import limits, times
from fairwarning.core.errors import Refused
from fairwarning.core.model import CapacityChange, CapacityProfile, Comparison, ScaleRule

_NUMBER = re.compile("[0-9]{1,9}", re.ASCII)
_MINUTE, _HOUR, _DAY = 60, 3600, 24 * 3600
_STATISTICS = dict.fromkeys(("Average", "Min", "Max", "Sum", "Count"))
_AGGREGATIONS = dict.fromkeys(("Average", "Minimum", "Maximum", "Total", "Count", "Last"))
_OPERATORS = {operator.value: operator for operator in Comparison}
_CHANGES: Mapping[tuple[str, str], CapacityChange] = {
    ("Increase", "ChangeCount"): CapacityChange.INCREASE,
    ("Decrease", "ChangeCount"): CapacityChange.DECREASE,
    ("Increase", "PercentChangeCount"): CapacityChange.INCREASE_PERCENT,
    ("Decrease", "PercentChangeCount"): CapacityChange.DECREASE_PERCENT,
    ("Increase", "ExactCount"): CapacityChange.EXACT,
    ("Decrease", "ExactCount"): CapacityChange.EXACT,
}
_DIRECTIONS = {name: name for name in ("Increase", "Decrease")}
_TYPES = {name: name for name in ("ChangeCount", "PercentChangeCount", "ExactCount")}


def parse(body: Body) -> tuple[CapacityProfile, ...]:
    """Return the profiles of a setting's body; refuse what Azure refuses."""
    profiles = typed_value(body, "properties.profiles", list, [])
    if not 1 <= len(profiles) <= limits.CAPACITY_PROFILES:
        text = f"a list of 1 to {limits.CAPACITY_PROFILES} profiles"
        raise invalid_value("properties.profiles", f"{len(profiles)} profiles", text)
    for number, profile in enumerate(profiles):
        if not isinstance(profile, dict):
            raise invalid_value(f"properties.profiles[{number}]", profile, "an object")
    parsed = [_profile(profile, f"properties.profiles[{n}]") for n, profile in enumerate(profiles)]
    _check_names([profile.name for profile in parsed])
    scheduled = _with_schedules(parsed, autoscale_schedules.schedules(profiles))
    if len(scheduled) > limits.CAPACITY_PROFILES:
        text = f"The profiles have more than {limits.CAPACITY_PROFILES} different times."
        raise ArmError("InvalidParameter", text)
    return scheduled


def _with_schedules(
    profiles: list[CapacityProfile], schedules: list[tuple[str, ...]]
) -> tuple[CapacityProfile, ...]:
    """Return a profile for each schedule.

    What a recurring profile has in common with the one that is always active needs no schedule:
    tools write such profiles to end others.
    """
    always = [p for p, texts in zip(profiles, schedules, strict=True) if texts == ("",)]
    if len(always) > 1:
        text = "only one of the profiles may be without fixedDate and recurrence"
        raise invalid_value("properties.profiles", f"{len(always)} of them", text)
    result = []
    for profile, texts in zip(profiles, schedules, strict=True):
        for text in texts:
            if not text or not any(_same(profile, other) for other in always):
                fields = {**_fields(profile), "schedule": text}
                result.append(CapacityProfile(**fields))
    return tuple(result)


def _same(first: CapacityProfile, second: CapacityProfile) -> bool:
    return {**_fields(first), "name": ""} == {**_fields(second), "name": ""}


def _fields(profile: CapacityProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "minimum": profile.minimum,
        "maximum": profile.maximum,
        "default": profile.default,
        "rules": profile.rules,
    }


def _check_names(names: list[str]) -> None:
    for number, name in enumerate(names):
        if name.lower() in (other.lower() for other in names[:number]):
            raise invalid_value("properties.profiles.name", name, "unique in the setting")


def _profile(profile: Body, where: str) -> CapacityProfile:
    name = typed_value(profile, "name", str, "")
    if not name or len(name) > limits.NAME_CHARACTERS or not name.isprintable():
        text = f"a name of 1 to {limits.NAME_CHARACTERS} characters"
        raise invalid_value(f"{where}.name", name, text)
    least, most, default = (
        _count(profile, f"capacity.{part}", where) for part in ("minimum", "maximum", "default")
    )
    if not least <= default <= most:
        text = "such that minimum <= default <= maximum"
        raise invalid_value(f"{where}.capacity", f"{least}, {default}, {most}", text)
    rules = typed_value(profile, "rules", list, [])
    if len(rules) > limits.SCALE_RULES:
        text = f"a list of at most {limits.SCALE_RULES} rules"
        raise invalid_value(f"{where}.rules", f"{len(rules)} rules", text)
    return CapacityProfile(
        name=name.strip(),
        minimum=least,
        maximum=most,
        default=default,
        rules=tuple(_rule(rule, f"{where}.rules[{n}]") for n, rule in enumerate(rules)),
    )


def _count(body: Body, path: str, where: str, least: int = 0) -> int:
    """Return a number of instances, which Azure has as a string."""
    parent, _, name = path.rpartition(".")
    value = typed_value(body, parent, dict, {}).get(name) if parent else body.get(name)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    if type(value) is not int or not least <= value <= limits.SET_INSTANCES:
        text = f"a whole number from {least} to {limits.SET_INSTANCES}"
        raise invalid_value(f"{where}.{path}", value, text)
    return value


def _rule(rule: object, where: str) -> ScaleRule:
    if not isinstance(rule, dict):
        raise invalid_value(where, rule, "an object")
    trigger = _part(rule, "metricTrigger", where)
    action = _part(rule, "scaleAction", where)
    trigger_at, action_at = f"{where}.metricTrigger", f"{where}.scaleAction"
    metric = _text(trigger, "metricName", trigger_at)
    _text(trigger, "metricResourceUri", trigger_at)
    _word(trigger, "statistic", _STATISTICS, trigger_at)
    _word(trigger, "timeAggregation", _AGGREGATIONS, trigger_at)
    _seconds(trigger, "timeGrain", trigger_at, _MINUTE, 12 * _HOUR)
    _seconds(trigger, "timeWindow", trigger_at, 5 * _MINUTE, 12 * _HOUR)
    direction = _word(action, "direction", _DIRECTIONS, action_at)
    kind = _word(action, "type", _TYPES, action_at)
    exact = kind == "ExactCount"
    value = _count({"value": "1", **action}, "value", action_at, 0 if exact else 1)
    return ScaleRule(
        metric=metric,
        operator=_word(trigger, "operator", _OPERATORS, trigger_at),
        threshold=_number(trigger, "threshold", trigger_at),
        change=_CHANGES[direction, kind],
        value=value,
        cooldown_seconds=_seconds(action, "cooldown", action_at, _MINUTE, 7 * _DAY),
    )


# --- Members --------------------------------------------------------------------------------------


def _part(body: Body, name: str, where: str) -> Body:
    part: Body | None = typed_value(body, name, dict)
    if part is None:
        raise invalid_value(f"{where}.{name}", "", "an object; it is required")
    return part


def _text(body: Body, name: str, where: str) -> str:
    text: str = typed_value(body, name, str, "")
    if not 0 < len(text) <= limits.TEXT_CHARACTERS:
        raise invalid_value(f"{where}.{name}", text, "a text; it is required")
    return text


def _word(body: Body, name: str, words: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401  (choices)
    if typed_value(body, name, str) is None:
        raise invalid_value(f"{where}.{name}", "", f"one of {', '.join(words)}")
    try:
        return choice(body, name, words, None)
    except ArmError as error:
        text = f"one of {', '.join(words)}"
        raise invalid_value(f"{where}.{name}", body[name], text) from error


def _number(body: Body, name: str, where: str) -> float:
    value = body.get(name)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15:  # noqa: PLR2004  (more than any metric)
        raise invalid_value(f"{where}.{name}", body.get(name), "a number")
    return float(value)


def _seconds(body: Body, name: str, where: str, least: int, most: int) -> int:
    text = typed_value(body, name, str, "")
    allowed = (
        f"an ISO 8601 duration, {times.format_duration(least)} to {times.format_duration(most)}"
    )
    try:
        seconds = times.parse_duration(text)
    except Refused as refused:
        raise invalid_value(f"{where}.{name}", text, allowed) from refused
    if not least <= seconds <= most:
        raise invalid_value(f"{where}.{name}", text, allowed)
    return seconds
