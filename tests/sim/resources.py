"""Resources of scopes and sets, created and deleted with them; addresses of machines (IC8)."""

from functools import cache
from ipaddress import IPv4Address, IPv4Network
from random import Random

from fairwarning.core.commands import (
    Command,
    CreateScope,
    CreateSet,
    Delete,
    DeleteSet,
    Remove,
    Write,
)
from fairwarning.core.model import (
    Entity,
    ImpactKind,
    Ref,
    Resource,
    ScaleSet,
    Scope,
)
from fairwarning.service import resources
from tests.sim.observed_state import ObservedState
from tests.sim.violations import must

GROUPS = ("g1", "g2")


def group(name: str) -> Command:
    """Create a group; refused if it exists."""
    return resources.create_group(name, "here")


def create(random: Random, command: CreateScope | CreateSet) -> Command:
    """Return the command, usually combined with the creation of its resources."""
    if random.random() < 0.3:
        return command
    return resources.create(command, random.choice(GROUPS))


def plain(random: Random, name: str) -> Command:
    """Create a resource that describes nothing, such as a disk."""
    group = random.choice(GROUPS)
    return Write(
        resource=resources.resource_id("disk", group, name),
        group=group,
        name=name,
        body="{}",
        within=resources.group_id(group),
    )


def remove(random: Random, observed: ObservedState, operation: str) -> Command | None:
    """Remove a resource that describes nothing; refused while it is in use."""
    disks = [resource.id for resource in observed.resources.values() if _is_plain(resource)]
    return Remove(resource=random.choice(disks), operation=operation) if disks else None


def _is_plain(resource: Resource) -> bool:
    return bool(resource.group) and not (resource.scope or resource.set)


def rewrite(random: Random, observed: ObservedState) -> Command | None:
    """Write a resource again, sometimes with an outdated version."""
    if not observed.resources:
        return None
    resource = random.choice(list(observed.resources.values()))
    at = resource.version if random.random() < 0.8 else resource.version - 1
    plain_ids = [r.id for r in observed.resources.values() if _is_plain(r) and r is not resource]
    uses = random.sample(plain_ids, min(len(plain_ids), random.choice((0, 1, 2))))
    return Write(
        resource=resource.id,
        group=resource.group,
        name=resource.name,
        body=f'{{"at": {at}}}',
        at=max(at, 0),
        scope=resource.scope,
        machine=resource.machine,
        set=resource.set,
        uses=tuple(uses),
        owns=tuple(uses[:1]) if random.random() < 0.5 else (),
    )


def remove_group(random: Random, observed: ObservedState, operation: str) -> Command:
    """Delete a group with all its resources, as the control plane does."""
    name = random.choice(GROUPS)
    members = [resource for resource in observed.resources.values() if resource.group == name]
    scopes = dict.fromkeys(resource.scope for resource in members if resource.scope)
    follow: list[Command] = [
        Delete(scope=name, machines=machines, operation=operation)
        for name in scopes
        if (scope := observed.scopes.get(name))
        and (machines := tuple(name for name in scope.machines if not _has_delete(scope, name)))
        and not scope.owner
    ]
    sets = [resource.set for resource in members if resource.set]
    follow += [
        DeleteSet(set=name, operation=operation)
        for name in sets
        if not observed.sets[name].deleting
    ]
    awaits = [resource.id for resource in members if is_being_deleted(observed, resource)]
    others = tuple(resource.id for resource in members if not resource.machine and not resource.set)
    return Remove(
        resource=resources.group_id(name),
        operation=operation,
        follow=tuple(follow),
        others=others,
        awaits=tuple(awaits),
    )


def _has_delete(scope: Scope, name: str) -> bool:
    impact = scope.impacts.get(name)
    return impact is not None and impact.kind is ImpactKind.DELETE


def is_being_deleted(observed: ObservedState, resource: Resource) -> bool:
    """Whether the set or machine of a resource is being deleted."""
    if resource.set:
        return bool(observed.sets[resource.set].deleting)
    return bool(resource.machine) and _has_delete(observed.scopes[resource.scope], resource.machine)


def concerns_c1(ref: Ref, change: tuple[Entity | None, Entity | None]) -> bool:
    """Whether a change can break C1; checking all resources is slow."""
    before, after = change
    if isinstance(before, Scope) and isinstance(after, Scope):
        return before.machines is not after.machines
    return ref[0] is Resource or (ref[0] in {Scope, ScaleSet} and (before is None or after is None))


def c1(observed: ObservedState) -> None:
    """A resource and its scope, machine or set refer to each other, or neither exists."""
    for resource in observed.resources.values():
        _check(observed, resource)
        _check_users(observed, resource)
    for scope in observed.scopes.values():
        for machine in scope.machines.values():
            known = not machine.resource or machine.resource in observed.resources
            must(known, "C1", f"{machine.name} has {machine.resource}, which does not exist")


def _check_users(observed: ObservedState, resource: Resource) -> None:
    """Check that a resource and those that it uses refer to each other."""
    for name in resource.uses:
        used = observed.resources.get(name)
        agrees = used is not None and used.used_by == resource.id
        must(agrees, "IC9", f"{resource.id} uses {name}, which does not say so")
    if resource.used_by:
        user = observed.resources.get(resource.used_by)
        agrees = user is not None and resource.id in user.uses
        must(agrees, "IC9", f"{resource.id} is used by {resource.used_by}, which does not say so")


def _check(observed: ObservedState, resource: Resource) -> None:
    if resource.machine:
        scope = observed.scopes.get(resource.scope)
        machine = scope.machines.get(resource.machine) if scope else None
        linked = machine and machine.resource == resource.id
        must(linked, "C1", f"the machine of {resource.id} does not exist")
    elif resource.scope:
        exists = resource.scope in observed.scopes
        must(exists, "C1", f"the scope of {resource.id} does not exist")
    elif resource.set:
        must(resource.set in observed.sets, "C1", f"the set of {resource.id} does not exist")


def ic8(observed: ObservedState) -> None:
    """No two machines have one address, and a subnet counts those of its machines."""
    seen: set[str] = set()
    expected = dict.fromkeys(observed.subnets, 0)
    for scope in observed.scopes.values():
        for machine in scope.machines.values():
            if machine.address:
                must(machine.address not in seen, "IC8", f"two machines have {machine.address}")
                seen.add(machine.address)
                if machine.subnet:
                    expected[machine.subnet] |= _bit(machine.subnet, machine.address)
    for name, bits in expected.items():
        counted = int(observed.subnets[name].used, 16)
        must(counted == bits, "IC8", f"{name} counts {counted:b}, its machines have {bits:b}")


@cache
def _bit(net: str, text: str) -> int:
    """The place of an address in a subnet; 0 if it is elsewhere."""
    if IPv4Address(text) not in IPv4Network(net):
        return 0
    return 1 << int(IPv4Address(text)) - int(IPv4Network(net).network_address)
