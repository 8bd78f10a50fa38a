"""Instances of a scale set: those that a command names, those that scale-in deletes (T4)."""

from collections import Counter
from collections.abc import Iterable, Mapping

from fairwarning.core.commands import Delete
from fairwarning.core.errors import NotFound
from fairwarning.core.model import Impact, ImpactKind, Machine, ScaleInRule, ScaleSet, Scope
from fairwarning.core.operation_rules import OPERATION_RULES

Groups = Mapping[str, Scope]
"""The placement groups of a set, by id."""
Pick = tuple[str, Machine]
"""An instance: its scope and the machine."""


def instances(groups: Groups) -> list[Pick]:
    """All instances."""
    return [(scope.id, m) for scope in groups.values() for m in scope.machines.values()]


def staying(groups: Groups) -> list[Pick]:
    """The instances that are not in deletion."""
    return [
        (scope, machine)
        for scope, machine in instances(groups)
        if (impact := groups[scope].impacts.get(machine.name)) is None
        or impact.kind is not ImpactKind.DELETE
    ]


def last_poll(groups: Groups) -> float:
    """When a machine of the set last polled; 0 if Scheduled Events is not enabled (M14)."""
    return max((scope.polled_at for scope in groups.values() if scope.enabled), default=0.0)


def named(scale_set: ScaleSet, ids: tuple[int, ...] | None, groups: Groups) -> list[Pick]:
    """The instances with these ids; without ids, all that are not shielded."""
    picks = instances(groups)
    if ids is None:
        return [pick for pick in picks if not pick[1].shielded]
    known = {machine.instance: (scope, machine) for scope, machine in picks}
    for instance in ids:
        if instance not in known:
            raise NotFound(
                "UnknownInstance", f"scale set {scale_set.id!r} has no instance {instance}"
            )
    return [known[instance] for instance in ids]


def free(picks: list[Pick], groups: Groups) -> list[Pick]:
    """The instances that scale-in may delete: neither protected nor busy."""
    return [
        (scope, machine)
        for scope, machine in picks
        if not (machine.protected or machine.shielded)
        and _may_go(groups[scope].impacts.get(machine.name))
    ]


def choose(rule: ScaleInRule, picks: list[Pick], count: int, staying: Iterable[Pick]) -> list[Pick]:
    """The instances of `picks` that scale-in deletes: so many, or all of them."""
    if rule is ScaleInRule.NEWEST:
        picks.sort(key=lambda pick: (-pick[1].created_at, -pick[1].instance))
    elif rule is ScaleInRule.OLDEST:
        picks.sort(key=lambda pick: (pick[1].created_at, pick[1].instance))
    else:
        return _balanced(picks, min(count, len(picks)), staying)
    return picks[:count]


def _may_go(impact: Impact | None) -> bool:
    """Whether a delete may replace the pending impact (E5)."""
    return impact is None or (
        not impact.in_progress and impact.kind in OPERATION_RULES[Delete, None].replaces
    )


def _balanced(picks: list[Pick], count: int, staying: Iterable[Pick]) -> list[Pick]:
    """The default policy: the highest id of the fullest zone and fault domain, repeatedly.

    Instances that may not go count as well: the rest is balanced over all zones.
    """
    members = [(machine.zone, machine.fault_domain) for _, machine in staying]
    zones, sizes = Counter(zone for zone, _ in members), Counter(members)
    domains: dict[tuple[str, int], list[Pick]] = {}
    for pick in sorted(picks, key=lambda pick: pick[1].instance):
        domains.setdefault((pick[1].zone, pick[1].fault_domain), []).append(pick)
    chosen = []
    for _ in range(count):
        fullest = max(domains, key=lambda d: (zones[d[0]], sizes[d], domains[d][-1][1].instance))
        chosen.append(domains[fullest].pop())
        zones[fullest[0]] -= 1
        sizes[fullest] -= 1
        domains = {domain: members for domain, members in domains.items() if members}
    return chosen


def by_scope(picks: Iterable[Pick]) -> dict[str, tuple[str, ...]]:
    """The names of instances, by scope."""
    names: dict[str, list[str]] = {}
    for scope, machine in picks:
        names.setdefault(scope, []).append(machine.name)
    return {scope: tuple(machines) for scope, machines in names.items()}
