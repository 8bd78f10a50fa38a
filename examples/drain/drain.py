"""The agent's hook: removes this machine from nginx, waits for its requests, and adds it again.

It reads the event from stdin, so it can run on the host of nginx:
    command = ["ssh", "proxy", "python3", "/etc/nginx/drain.py", "/etc/nginx"]
"""
# ruff: noqa: S603, S607  (these commands are the administrator's own)

import fcntl
import json
import re
import subprocess
import sys
import time
from pathlib import Path

CHECK_SECONDS = 0.05


def mark(folder: Path, machine: str, *, down: bool) -> None:
    """Change the line of this machine in backends.conf: `server HOST:PORT [down]; # NAME`."""
    path = folder / "backends.conf"
    state = " down" if down else ""
    line = re.compile(rf"^(\s*server \S+?)( down)?;(\s*# {re.escape(machine)})$", re.MULTILINE)
    text, count = line.subn(rf"\g<1>{state};\g<3>", path.read_text())
    if not count:
        sys.exit(f"{path} has no line for {machine}")
    if not re.search(r"^\s*server \S+?;", text, re.MULTILINE):
        sys.exit(f"{machine} is the last one that is up; it stays")
    new = path.with_name("backends.new")  # nginx must never read half a file
    new.write_text(text)
    new.replace(path)


def reload(folder: Path) -> set[Path]:
    """Reload nginx; return its old workers, which exit after their last request."""
    master = (folder / "nginx.pid").read_text().strip()
    old = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    here = ["-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]
    subprocess.run(["nginx", *here, "-s", "reload"], check=True)
    return {Path("/proc", worker) for worker in old}


def main() -> None:
    """Mark the machine down before an event, and up after it."""
    event, folder = json.load(sys.stdin), Path(sys.argv[1])
    down = event["Phase"] == "scheduled"
    with (folder / "backends.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # hooks of several machines may run at once
        mark(folder, event["Machine"], down=down)
        old = reload(folder)
    while down and any(worker.exists() for worker in old):
        time.sleep(CHECK_SECONDS)


if __name__ == "__main__":
    main()
