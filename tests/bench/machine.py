"""The machine of the measurement, and its other load."""

import os
import platform
import re
import sqlite3
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from statistics import median

from tests.fixtures.postgres import programs

QUIET = 0.1  # of the CPU that other programs may use; on a busy machine even ratios are wrong

_FLUSHES = 50
_BLOCK = 4096


def describe(folder: Path) -> dict[str, str]:
    """Describe the machine; `folder` is on the measured disk."""
    return {
        "CPU": f"{_cpu()} ({platform.machine()}), {os.cpu_count()} cores",
        "Memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "System": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_version()}, {_build()}",
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": _postgresql(),
        "Disk flush": f"{flush_us(folder):,.0f} µs (median of {_FLUSHES}, {_BLOCK} bytes each)",
    }


def _postgresql() -> str:
    try:
        program = programs.folder() / "postgres"
    except programs.NoPostgreSQL:
        return "none"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[2]


class OtherPrograms:
    """Measures the CPU usage of other programs from its creation on."""

    def __init__(self) -> None:
        self._machine, self._own = _machine_seconds(), _own_seconds()

    def share(self) -> float:
        """The share from 0 to 1 so far; 0 if the system does not report it."""
        busy, there_was = _machine_seconds()
        own = _own_seconds() - self._own
        every = there_was - self._machine[1]
        return max(busy - self._machine[0] - own, 0.0) / every if every else 0.0


def _machine_seconds() -> tuple[float, float]:
    """The used and the available CPU seconds since the boot."""
    table = Path("/proc/stat")
    if not table.exists():
        return 0.0, 0.0
    ticks = [int(word) for word in table.read_text("ascii").splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    each = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - idle) / each, sum(ticks) / each


def _own_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def flush_us(folder: Path) -> float:
    """The time to make a block durable, in microseconds."""
    path = folder / "flush"
    handle = os.open(path, os.O_CREAT | os.O_WRONLY)
    taken = []
    try:
        os.write(handle, bytes(_BLOCK * _FLUSHES))
        os.fsync(handle)
        for number in range(_FLUSHES):
            os.pwrite(handle, os.urandom(_BLOCK), number * _BLOCK)
            began = time.perf_counter()
            os.fsync(handle)
            taken.append(time.perf_counter() - began)
    finally:
        os.close(handle)
        path.unlink()
    return median(taken) * 1e6


def _cpu() -> str:
    """The CPU model."""
    done = subprocess.run(["lscpu"], capture_output=True, text=True, check=True)
    model = re.search(r"^Model name: +(.*)$", done.stdout, re.MULTILINE)
    return model[1] if model else "unknown"


def _build() -> str:
    """The build of the interpreter, which affects CPU times by about a fifth."""
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    optimised = "--enable-optimizations" in arguments
    words = ["profile-guided" if optimised else "not profile-guided"]
    words.append(
        "link-time optimised" if "--with-lto" in arguments else "no link-time optimisation"
    )
    return f"{sys.implementation.name}, {', '.join(words)}, {platform.python_compiler()}"
