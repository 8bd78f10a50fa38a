"""Scale sets that scale themselves: by schedules, and by metrics that are reported to them.

The active profile is the first whose schedule is open, else the one without a schedule. The
capacity is kept between its minimum and its maximum. A rule acts while its metric is past the
threshold, and waits for its cooldown after the last change. To scale out, one rule is enough; to
scale in, all rules that scale in must agree.
"""

from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt, ne

from fairwarning.core import limits, windows
from fairwarning.core.model import (
    Autoscale,
    CapacityChange,
    CapacityProfile,
    Comparison,
    ScaleRule,
)
from fairwarning.core.record import changed

_COMPARE: Mapping[Comparison, Callable[[float, float], bool]] = {
    Comparison.GREATER: gt,
    Comparison.GREATER_OR_EQUAL: ge,
    Comparison.LESS: lt,
    Comparison.LESS_OR_EQUAL: le,
    Comparison.EQUAL: eq,
    Comparison.NOT_EQUAL: ne,
}


def active_profile(autoscale: Autoscale, now: float) -> CapacityProfile | None:
    """The profile that counts at this time, if any."""
    for profile in autoscale.profiles:
        if profile.schedule:
            window = windows.parse(profile.schedule)
            if windows.opening(window, now) == now:
                return profile
    return next((profile for profile in autoscale.profiles if not profile.schedule), None)


def look(autoscale: Autoscale, capacity: int, now: float) -> tuple[Autoscale, int]:
    """The capacity that the set wants now, and when it must look again."""
    profile = active_profile(autoscale, now)
    due = [moment for moment in (_next_change(p, now) for p in autoscale.profiles) if moment]
    wanted = capacity
    if profile is not None:
        bounded = _bounded(profile, autoscale.metrics, capacity)
        wanted = _apply_rules(profile, autoscale, bounded, now)
        if wanted != bounded:
            autoscale = changed(autoscale, scaled_at=now)
        due += _cooldown_ends(profile, autoscale, wanted, now)
    return changed(autoscale, due_at=min(due, default=None)), wanted


def look_soon(autoscale: Autoscale, now: float) -> Autoscale:
    """Look again in a minute: the capacity was changed by hand, or could not be reached."""
    soon = now + limits.AUTOSCALE_SECONDS
    due = autoscale.due_at
    return changed(autoscale, due_at=soon if due is None else min(due, soon))


def _next_change(profile: CapacityProfile, now: float) -> float | None:
    """When the schedule of a profile next opens or closes."""
    if not profile.schedule:
        return None
    window = windows.parse(profile.schedule)
    begins = windows.begin(window, now)
    if begins is None or begins > now:
        return begins
    return begins + window.seconds


def _bounded(profile: CapacityProfile, metrics: Mapping[str, float], capacity: int) -> int:
    """The capacity within the profile's bounds; its default if nothing is known of its metrics."""
    blind = profile.rules and not any(rule.metric in metrics for rule in profile.rules)
    least = profile.default if blind else profile.minimum
    return min(max(capacity, least), profile.maximum)


def _apply_rules(profile: CapacityProfile, autoscale: Autoscale, capacity: int, now: float) -> int:
    results = [
        (_result(rule, profile, capacity), _acts(rule, autoscale, now)) for rule in profile.rules
    ]
    higher = [result for result, acts in results if acts and result > capacity]
    if higher:
        return max(higher)
    lower = [(result, acts) for result, acts in results if result < capacity]
    if lower and all(acts for _, acts in lower):
        return max(result for result, _ in lower)
    return capacity


def _acts(rule: ScaleRule, autoscale: Autoscale, now: float) -> bool:
    scaled_at = autoscale.scaled_at
    cooled_down = scaled_at is None or now - scaled_at >= rule.cooldown_seconds
    return cooled_down and _is_past_threshold(rule, autoscale)


def _is_past_threshold(rule: ScaleRule, autoscale: Autoscale) -> bool:
    value = autoscale.metrics.get(rule.metric)
    return value is not None and _COMPARE[rule.operator](value, rule.threshold)


def _cooldown_ends(
    profile: CapacityProfile, autoscale: Autoscale, capacity: int, now: float
) -> list[float]:
    """When rules may act again that would change the capacity further."""
    if autoscale.scaled_at is None:
        return []
    ends = (
        autoscale.scaled_at + max(rule.cooldown_seconds, limits.AUTOSCALE_SECONDS)
        for rule in profile.rules
        if _is_past_threshold(rule, autoscale) and _result(rule, profile, capacity) != capacity
    )
    return [end for end in ends if end > now]


def _result(rule: ScaleRule, profile: CapacityProfile, capacity: int) -> int:
    """The capacity after a rule has acted, within the bounds of the profile."""
    share = max(1, -(-capacity * rule.value // 100))  # of a percentage, at least one instance
    result = {
        CapacityChange.INCREASE: capacity + rule.value,
        CapacityChange.DECREASE: capacity - rule.value,
        CapacityChange.INCREASE_PERCENT: capacity + share,
        CapacityChange.DECREASE_PERCENT: capacity - share,
        CapacityChange.EXACT: rule.value,
    }[rule.change]
    return min(max(result, profile.minimum), profile.maximum)
