"""The command driver's program, for machines that are processes of this host.

    [driver]
    kind = "command"
    program = ["python3", "/opt/impact.py", "/run/machines"]
    check = ["python3", "/opt/impact.py", "/run/machines", "--done"]

A machine has a folder there. Yours may be units, containers or hosts with a remote control: then
`stop` and `start` are other commands, and the rest stays.

    web_0/run      what it runs; a program
    web_0/pid      its process, while it is up
    web_0/impact   the last impact that was carried out on it
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
FREEZE_SECONDS = 9  # where none are announced
NOT_DONE, CANNOT_TELL = 1, 2  # what a check exits with; a Python that fails exits with 1


def process(machine: Path) -> int | None:
    """A handle on its process, if it is up."""
    with suppress(OSError, ValueError):
        up = os.pidfd_open(int((machine / "pid").read_text()))
        return None if ended(up, 0) else up
    return None


def ended(up: int, seconds: float) -> bool:
    """Whether a process has ended, or does within this time."""
    return bool(select.select([up], [], [], seconds)[0])


def stop(machine: Path) -> None:
    """Ask it to end, and end it if it does not."""
    up = process(machine)
    if up is not None:
        signal.pidfd_send_signal(up, signal.SIGTERM)
        if not ended(up, GRACE_SECONDS):
            signal.pidfd_send_signal(up, signal.SIGKILL)
            ended(up, GRACE_SECONDS)
    (machine / "pid").unlink(missing_ok=True)


def start(machine: Path) -> None:
    """Start it, and leave it running: the driver lets it live."""
    if process(machine) is not None:
        return
    (machine / "tmp").mkdir(exist_ok=True)
    nothing = subprocess.DEVNULL  # it must not talk to whoever waits for us
    up = subprocess.Popen(  # noqa: S603  (the operator's own program)
        [machine / "run"],
        cwd=machine,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,
    )
    (machine / "pid").write_text(str(up.pid))


def freeze(machine: Path, seconds: int) -> None:
    """Let it stand still. Done again after it was cut off, it goes on as well."""
    up = process(machine)
    if up is not None:
        signal.pidfd_send_signal(up, signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS if seconds < 0 else seconds)
        signal.pidfd_send_signal(up, signal.SIGCONT)


def carry_out(impact: dict[str, object], machine: Path) -> None:
    """What the impact's kind asks for; then note its id, which says that it was done."""
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
    """Whether this impact was the last one, whichever host it was carried out from."""
    if impact["kind"] == "delete":
        return not machine.exists()
    note = machine / "impact"
    return note.exists() and note.read_text() == impact["id"]


def main() -> int:
    """The impact is on stdin; the last line on stderr is the reason for a failure."""
    impact = json.load(sys.stdin)
    folder = Path(sys.argv[1])
    machine = folder / impact["machine"]
    if not folder.is_dir():
        print(f"there is no folder {folder}", file=sys.stderr)
        return CANNOT_TELL
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
        code = CANNOT_TELL
    sys.exit(code)
