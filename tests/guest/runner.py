"""The agent's program, modified by a test: `python -m tests.guest.runner JSON agent ...`.

JSON may have `die` (`before:3`: SIGKILL before the third line of the journal is written;
`after:3`), `every` (seconds between requests), `alive` and `look` (how long a member without a
heartbeat counts as alive, and seconds between queries of the group), `well` (seconds without a
document before the agent is unhealthy), and `file_bytes` (the maximum file size, as on a full
disk).
"""

import json
import os
import resource
import signal
import sys
from typing import Any

from fairwarning.cli import main
from fairwarning.guest.agent import agent, group
from fairwarning.guest.agent.journal import AgentJournal
from fairwarning.guest.agent.plan import AgentJournalEntry
from fairwarning.guest.client import ScheduledEvents


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


def apply(how: dict[str, Any]) -> None:
    """Apply the modifications."""
    if "die" in how:
        when, _, line = how["die"].partition(":")
        die_at(when, int(line))
    if "file_bytes" in how:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (how["file_bytes"], hard_limit))
    if "every" in how:
        defaults = ScheduledEvents.__init__.__kwdefaults__
        assert defaults
        defaults["every"] = how["every"]
    if "alive" in how:
        group.ALIVE_SECONDS = how["alive"]
        agent.GROUP_SECONDS = how["look"]
    if "well" in how:
        agent.HEALTHY_SECONDS = how["well"]
        agent.READ_SECONDS = how["well"] / 4


if __name__ == "__main__":
    apply(json.loads(sys.argv.pop(1)))
    main.main()
