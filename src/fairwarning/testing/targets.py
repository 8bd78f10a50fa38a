"""Checks of what the methods of a cloud are given: `find` takes a name, all others take handles.

A target that is no handle or has no machines is refused: it must not become the whole cloud.
"""

from collections.abc import Iterable

from fairwarning.core.errors import Refused
from fairwarning.testing.handles import MachineHandle, ScaleSetHandle

Target = MachineHandle | ScaleSetHandle | Iterable[MachineHandle]


def machine_of(target: object) -> MachineHandle:
    """Return the machine that this is."""
    if isinstance(target, MachineHandle):
        return target
    raise Refused("BadTarget", f"pass a machine, such as find('web'), not {target!r}")


def name_of(target: object) -> str:
    """Return the name that this is."""
    if isinstance(target, str):
        return target
    raise Refused("BadTarget", f"pass a name, such as 'web', not {target!r}")


def scopes_of(target: object) -> tuple[str, ...]:
    """Return the scopes of a machine, of a scale set, or of several of them."""
    if isinstance(target, MachineHandle):
        return (target.scope,)
    if isinstance(target, ScaleSetHandle):
        scopes = target.state.groups
    elif isinstance(target, Iterable) and not isinstance(target, str):
        scopes = tuple(scope for part in target for scope in scopes_of(part))
    else:
        text = "pass machines, such as find('web'), or scale sets, such as find_set('web')"
        raise Refused("BadTarget", f"{text}, not {target!r}")
    if not scopes:
        text = f"{target!r} has no machines; to cover the whole cloud, pass no targets"
        raise Refused("NoMachines", text)
    return scopes
