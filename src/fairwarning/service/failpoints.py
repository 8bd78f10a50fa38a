"""Named places where a test can make the process crash or raise. They cost nothing when unused."""

from collections.abc import Callable
from typing import Final

NAMES: Final = (
    "batch.taken",
    "commit.before",
    "commit.after",
    "publish.after",
    "impact.before",
    "impact.after",
    "ack.before",
    "ack.after",
    "report.before",
    "start.opened",
    "start.recovered",
    "stop.drained",
)

_hook: Callable[[str], None] | None = None


def arm(hook: Callable[[str], None] | None) -> None:
    """Call `hook` at every failpoint; None disarms."""
    global _hook  # noqa: PLW0603  (failpoints are global to the process)
    _hook = hook


def hit(name: str) -> None:
    """Call the hook, if one is armed."""
    if _hook is not None:
        _hook(name)
