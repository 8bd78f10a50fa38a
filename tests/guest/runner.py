"""The agent's program, modified by a test: `python -m tests.guest.runner JSON agent ...`.

JSON may have `die` (`before:3`: SIGKILL before the third line of the journal is written;
`after:3`), `every` (seconds between requests), `alive` and `look` (how long a member without a
heartbeat counts as alive, and seconds between queries of the group), `well` (seconds without a
document before the agent is unhealthy), `resend` (seconds before an approval without effect is
sent again), `port` (seconds between attempts to use a port that is in use), `node` (seconds between
looks at a Kubernetes node), `poison` (an event whose policy raises an error), `full` (a file: while
it exists, the disk is full), `stall` (a file: while it exists, the deciding thread hangs), and
`hangs` (a folder that does not respond while it contains a file `hangs`).
"""

import errno
import faulthandler
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairwarning.cli import main
from fairwarning.guest.agent import agent, endpoint_threads, group, health, plan
from fairwarning.guest.agent.actions import AgentJournalEntry
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy
from fairwarning.guest.agent.journal import AgentJournal
from fairwarning.guest.agent.kubernetes import reconcile
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.events import Event


def die_at(when: str, line: int) -> None:
    """Make the journal kill this process with SIGKILL."""
    write = AgentJournal.write
    written = 0

    def deadly(self: AgentJournal, entry: AgentJournalEntry) -> None:
        nonlocal written
        written += 1
        if (when, line) == ("before", written):
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, entry)
        if (when, line) == ("after", written):
            os.kill(os.getpid(), signal.SIGKILL)

    AgentJournal.write = deadly  # type: ignore[method-assign]


def refuse_while_marked(mark: Path) -> None:
    """Make the agent's disk full; its hooks can still write, and so can its log."""
    write = os.write

    def refuse(file: int, content: bytes) -> int:
        is_log = file == sys.stderr.fileno()
        if mark.exists() and stat.S_ISREG(os.fstat(file).st_mode) and not is_log:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, content)

    os.write = refuse  # type: ignore[assignment]


def hang_while_marked(folder: Path) -> None:
    """Make a folder hang, as a network folder does without its server."""
    touch = Path.touch

    def slow(path: Path, *arguments: Any) -> None:  # noqa: ANN401  (those of touch)
        while folder in path.parents and (folder / "hangs").exists():
            time.sleep(0.02)
        touch(path, *arguments)

    Path.touch = slow  # type: ignore[assignment,method-assign]


def stall_while_marked(mark: Path) -> None:
    """Make the deciding thread hang, which is noticed after a second."""
    flush = AgentJournal.flush

    def slow(self: AgentJournal) -> None:
        while mark.exists():
            time.sleep(0.02)
        flush(self)

    AgentJournal.flush = slow  # type: ignore[method-assign]
    agent.DECIDING_SECONDS, agent.TICK_SECONDS = 1.0, 0.1


def poison(poisoned: str) -> None:
    """Make every decision about an event raise an error."""
    approves = AgentConfig.approves

    def fail(self: AgentConfig, event: Event) -> ApprovalPolicy:
        if event.id == poisoned:
            raise ArithmeticError("poison")
        return approves(self, event)

    AgentConfig.approves = fail  # type: ignore[method-assign]


CHANGES: dict[str, Callable[[str], None]] = {
    "poison": poison,
    "full": lambda path: refuse_while_marked(Path(path)),
    "stall": lambda path: stall_while_marked(Path(path)),
    "hangs": lambda path: hang_while_marked(Path(path)),
}


def apply(how: dict[str, Any]) -> None:
    """Apply the modifications."""
    if "die" in how:
        when, _, line = how["die"].partition(":")
        die_at(when, int(line))
    for name, change in CHANGES.items():
        if name in how:
            change(how[name])
    if "every" in how:
        defaults = ScheduledEvents.__init__.__kwdefaults__
        assert defaults
        defaults["every"] = how["every"]
    if "alive" in how:
        group.ALIVE_SECONDS = how["alive"]
        agent.GROUP_SECONDS = how["look"]
    if "well" in how:
        agent.HEALTHY_SECONDS = how["well"]
        endpoint_threads.READ_SECONDS = how["well"] / 4
    if "resend" in how:
        plan.RESEND_SECONDS = how["resend"]
    if "port" in how:
        health._RETRY_SECONDS = how["port"]
    if "node" in how:
        reconcile.LOOK_SECONDS = reconcile.CONFIRM_SECONDS = reconcile.RETRY_SECONDS = how["node"]
        endpoint_threads.READ_SECONDS = how["node"]


if __name__ == "__main__":
    if hasattr(signal, "SIGUSR1"):  # Windows has none
        faulthandler.register(signal.SIGUSR1)  # prints what every thread does
    apply(json.loads(sys.argv.pop(1)))
    main.main()
