"""A program for the command driver, for machines that are processes on this host.

    [driver]
    kind = "command"
    program = ["python3", "/opt/impact.py", "/run/machines"]
    check = ["python3", "/opt/impact.py", "/run/machines", "--done"]

Each machine has a folder there. For systemd units, containers or remote hosts, replace `stop` and
`start` with other commands; the rest stays the same.

    web_0/run      its program
    web_0/pid      its process id and start time, while it is up
    web_0/impact   the id of the last impact on it
    web_0/tmp      its temporary disk
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

GRACE_SECONDS = 10
FREEZE_SECONDS = 9  # if the impact has no duration
NOT_DONE, UNKNOWN = 1, 2  # exit codes of a check; a Python error exits with 1


def process(machine: Path) -> int | None:
    """Return a pidfd of its process, if it is up; not of a later process with the same id."""
    with suppress(OSError, ValueError, IndexError):
        pid, began = (machine / "pid").read_text().split()
        pidfd = os.pidfd_open(int(pid))
        return pidfd if start_time(int(pid)) == began and not ended(pidfd, 0) else None
    return None


def start_time(pid: int) -> str:
    """Return when a process started, in ticks since boot."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def ended(pidfd: int, seconds: float) -> bool:
    """Return whether a process ends within this time."""
    return bool(select.select([pidfd], [], [], seconds)[0])


def stop(machine: Path) -> None:
    """Send SIGTERM; after the grace period, send SIGKILL."""
    pidfd = process(machine)
    if pidfd is not None:
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        if not ended(pidfd, GRACE_SECONDS):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            ended(pidfd, GRACE_SECONDS)
    (machine / "pid").unlink(missing_ok=True)


def start(machine: Path) -> None:
    """Start it in its own session, so that it outlives this program."""
    if process(machine) is not None:
        return
    (machine / "tmp").mkdir(exist_ok=True)
    null = subprocess.DEVNULL  # it must not keep the pipes of this program open
    started = subprocess.Popen(  # noqa: S603  (the operator's own program)
        [machine / "run"],
        cwd=machine,
        stdin=null,
        stdout=null,
        stderr=null,
        start_new_session=True,
    )
    (machine / "pid").write_text(f"{started.pid} {start_time(started.pid)}")


def freeze(machine: Path, seconds: int) -> None:
    """Pause it. Repeating an interrupted freeze also resumes it."""
    pidfd = process(machine)
    if pidfd is not None:
        signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS if seconds < 0 else seconds)
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)


def carry_out(impact: dict[str, object], machine: Path) -> None:
    """Carry out an impact, then record its id as done."""
    kind = impact["kind"]
    if kind == "freeze":
        freeze(machine, int(str(impact["duration_seconds"])))
    if kind in {"reboot", "redeploy", "reimage", "stop", "deallocate", "evict", "delete"}:
        stop(machine)
    if kind in {"redeploy", "reimage"}:
        shutil.rmtree(machine / "tmp", ignore_errors=True)
    if kind in {"reboot", "redeploy", "reimage", "start"}:
        start(machine)
    if kind == "delete":
        shutil.rmtree(machine)
    else:
        (machine / "new").write_text(str(impact["id"]))
        (machine / "new").replace(machine / "impact")


def is_done(impact: dict[str, object], machine: Path) -> bool:
    """Return whether this was the last impact on the machine, from any host."""
    if impact["kind"] == "delete":
        return not machine.exists()
    record = machine / "impact"
    return record.exists() and record.read_text() == impact["id"]


def main() -> int:
    """Read the impact from stdin; the last line on stderr is the reason of a failure."""
    impact = json.load(sys.stdin)
    folder = Path(sys.argv[1])
    machine = folder / impact["machine"]
    if not folder.is_dir():
        print(f"there is no folder {folder}", file=sys.stderr)
        return UNKNOWN
    if "--done" in sys.argv:
        return 0 if is_done(impact, machine) else NOT_DONE
    if not machine.is_dir():
        print(f"there is no machine {machine.name} in {folder}", file=sys.stderr)
        return 0 if impact["kind"] == "delete" else 1
    carry_out(impact, machine)
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except OSError as error:
        print(error, file=sys.stderr)
        code = UNKNOWN
    sys.exit(code)
