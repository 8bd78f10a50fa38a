"""A cloud in the process of a test, with a virtual clock (O9), without pytest or with it.

    from fairwarning.testing import Cloud

    with Cloud() as cloud:
        web = cloud.machine("web")

The fixture `fairwarning` of `fairwarning.pytest_plugin` is such a cloud.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairwarning.testing.cloud import Cloud
    from fairwarning.testing.handles import (
        MachineHandle,
        OperationHandle,
        RolloutHandle,
        ScaleSetHandle,
    )

__all__ = ["Cloud", "MachineHandle", "OperationHandle", "RolloutHandle", "ScaleSetHandle"]


def __getattr__(name: str) -> object:
    """Import the service only when a cloud is used: scenarios and `certify` are here as well."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.cloud"), name)
