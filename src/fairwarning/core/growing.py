"""New instances of a scale set: their ids, placement groups, domains, zones and names (T7)."""

from collections import Counter
from collections.abc import Iterable

from fairwarning.core import limits
from fairwarning.core.choosing import Groups, last_poll, staying
from fairwarning.core.commands import Command, CreateSet
from fairwarning.core.errors import Conflict
from fairwarning.core.messages import AddInstances
from fairwarning.core.model import Machine, ScaleSet
from fairwarning.core.record import changed

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def host_name(prefix: str, instance: int) -> str:
    """`web` and 85 give `web00002D`: the id in base 36, six places (T7)."""
    digits = ""
    for _ in range(6):
        instance, digit = divmod(instance, 36)
        digits = _DIGITS[digit] + digits
    return prefix + digits


def groups_of_new_set(command: CreateSet) -> list[str]:
    """The placement groups that a new set gets, to load them at once."""
    return [
        f"{command.set}/{number}"
        for number in range(-(-command.capacity // limits.PLACEMENT_GROUP_MACHINES))
    ]


def all_groups(scope: str) -> list[str]:
    """All placement groups that the set of this one can have; only itself if it is no group."""
    name, slash, number = scope.rpartition("/")
    if not slash or not number.isdecimal():
        return [scope]
    most = limits.SET_INSTANCES // limits.PLACEMENT_GROUP_MACHINES
    return [f"{name}/{number}" for number in range(most)]


def grow(scale_set: ScaleSet, count: int, groups: Groups) -> tuple[ScaleSet, tuple[Command, ...]]:
    """Add instances to the first group with room, or to a new one; ids are never reused (T7)."""
    first = scale_set.next_instance
    domains = {
        scope: [m.update_domain for m in groups[scope].machines.values()] for scope in groups
    }
    zones = Counter(machine.zone for _, machine in staying(groups))
    born: dict[str, list[Machine]] = {}
    for instance in range(first, first + count):
        scope = next(
            (s for s, used in domains.items() if len(used) < limits.PLACEMENT_GROUP_MACHINES), None
        )
        if scope is None:
            scope = f"{scale_set.id}/{len(domains)}"
            domains[scope] = []
        used = domains[scope]
        domain = min(range(scale_set.update_domains), key=used.count)
        used.append(domain)
        zone = min(scale_set.zones, key=zones.__getitem__, default="")
        zones[zone] += 1
        born.setdefault(scope, []).append(_instance(scale_set, instance, domain, zone))
    grown = changed(scale_set, next_instance=first + count, groups=tuple(domains))
    return grown, tuple(add_to(scale_set, groups, *group) for group in born.items())


def add_to(
    scale_set: ScaleSet, groups: Groups, scope: str, machines: Iterable[Machine]
) -> AddInstances:
    """The message that adds machines to a placement group, old or new."""
    return AddInstances(
        scope=scope,
        machines=tuple(machines),
        owner=scale_set.id,
        group=scale_set.group,
        rules=scale_set.rules,
        polled_at=last_poll(groups),
    )


def _instance(scale_set: ScaleSet, instance: int, domain: int, zone: str) -> Machine:
    return Machine(
        name=f"{scale_set.name}_{instance}",
        host_name=host_name(scale_set.prefix, instance),
        update_domain=domain,
        fault_domain=instance % scale_set.fault_domains,
        priority=scale_set.priority,
        eviction=scale_set.eviction,
        terminate_seconds=scale_set.terminate_seconds,
        instance=instance,
        model=scale_set.model,
        size=scale_set.size,
        zone=zone,
        windows=scale_set.windows,
        tags=scale_set.tags,
        subnet=scale_set.subnet,
    )


def check_not_deleting(scale_set: ScaleSet) -> None:
    """Refuse a change of a set that is being deleted."""
    if scale_set.deleting:
        raise Conflict("SetDeleting", f"scale set {scale_set.id!r} is being deleted")
