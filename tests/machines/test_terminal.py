"""A program that is a machine has the terminal, as it would without us."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.waiting import run_async, wait_until_async
from tests.machines.process_harness import ProcessDriverHarness, process_harness

pytestmark = needs_namespaces

# Makes what it is given as standard input its terminal, then becomes another program.
WITH_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""

# Says which keys reached it, and ends at the second Ctrl-C.
KEYS = """
import os, signal
keys = []
signal.signal(signal.SIGINT, lambda *_: keys.append("interrupted"))
signal.signal(signal.SIGCONT, lambda *_: print("continued", flush=True))
print("in front" if os.tcgetpgrp(0) == os.getpgrp() else "behind", flush=True)
while len(keys) < 2:
    signal.pause()
    print(*keys, flush=True)
raise SystemExit(9)
"""


def state(program: subprocess.Popen[bytes]) -> str:
    """What /proc says of a process."""
    return Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[0]


def at_terminal(it: ProcessDriverHarness) -> tuple[subprocess.Popen[bytes], int]:
    """A program at a terminal, and the terminal's other end."""
    keyboard, terminal = pty.openpty()
    before = (sys.executable, "-c", WITH_TERMINAL)
    program = it.start(
        sys.executable, "-c", KEYS, before=before, stdin=terminal, start_new_session=True
    )
    os.close(terminal)
    return program, keyboard


@pytest.mark.spec("O3")
@run_async
async def test_the_terminal_is_the_programs(tmp_path: Path) -> None:
    """Ctrl-C reaches it, once each time, and exec does what the program does."""
    async with process_harness(tmp_path) as it:
        program, keyboard = at_terminal(it)
        await wait_until_async(lambda: it.out() == "in front\n", "it has the terminal")
        os.write(keyboard, b"\x03")
        await wait_until_async(lambda: it.out().endswith("interrupted\n"), "it hears")
        os.write(keyboard, b"\x03")
        assert await it.code(program) == 9
        assert it.out() == "in front\ninterrupted\ninterrupted interrupted\n"
        os.close(keyboard)


@pytest.mark.spec("O3", "O4")
@run_async
async def test_a_rebooted_program_has_the_terminal_again(tmp_path: Path) -> None:
    """It was the foreground group that ended."""
    async with process_harness(tmp_path) as it:
        _, keyboard = at_terminal(it)
        await wait_until_async(lambda: it.out() == "in front\n", "it has the terminal")
        assert await it.over(it.hit("reboot")) == ""
        await wait_until_async(lambda: it.out() == 2 * "in front\n", "it has the terminal again")
        os.close(keyboard)


@pytest.mark.spec("O3")
@run_async
async def test_ctrl_z_gives_the_shell_back(tmp_path: Path) -> None:
    """Exec stops with its program, and goes on with it."""
    async with process_harness(tmp_path) as it:
        program, keyboard = at_terminal(it)
        await wait_until_async(lambda: it.out() == "in front\n", "it has the terminal")
        os.write(keyboard, b"\x1a")
        await wait_until_async(lambda: state(program) == "T", "exec is stopped")
        assert os.tcgetpgrp(keyboard) == program.pid
        program.send_signal(signal.SIGCONT)
        await wait_until_async(lambda: "continued" in it.out(), "it goes on")
        os.write(keyboard, b"\x03\x03")
        await wait_until_async(lambda: "interrupted" in it.out(), "it hears")
        os.close(keyboard)
