"""Addresses of machines in the simulation: what must hold (IC8)."""

from functools import cache
from ipaddress import IPv4Address, IPv4Network

from fairwarning.core.model import Subnet
from fairwarning.store.store import Batch
from tests.sim.observed_state import ObservedState
from tests.sim.violations import must


def concerns_ic8(batch: Batch) -> bool:
    """Whether the addresses of a subnet have changed."""
    return any(isinstance(after, Subnet) for _, after in batch.changes.values())


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
