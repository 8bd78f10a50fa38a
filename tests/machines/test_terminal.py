"""A program run by exec has the terminal, as it would without exec."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.requirements import needs_namespaces, needs_root
from tests.fixtures.waiting import wait_until_async
from tests.machines.process_harness import ProcessHarness, with_process_harness

pytestmark = needs_namespaces

# Makes its standard input its controlling terminal, then executes another program.
WITH_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""

# Prints the keys it receives, and ends at the second Ctrl-C. It waits for signals without handlers:
# one that arrived just before `pause` would be handled at the next signal only.
KEYS = """
import os, signal
keys = []
awaited = {signal.SIGINT, signal.SIGCONT}
signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
print("foreground" if os.tcgetpgrp(0) == os.getpgrp() else "background", flush=True)
while len(keys) < 2:
    if signal.sigwait(awaited) == signal.SIGCONT:
        print("continued", flush=True)
    else:
        keys.append("interrupted")
        print(*keys, flush=True)
raise SystemExit(9)
"""


def state(program: subprocess.Popen[bytes]) -> str:
    """Return the state of a program according to /proc."""
    return state_of(program.pid)


def state_of(pid: int) -> str:
    """Return the state of a process according to /proc."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def at_terminal(
    harness: ProcessHarness, options: tuple[str, ...] = ()
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a program at a terminal; return it and the terminal's other end."""
    keyboard, terminal = pty.openpty()
    before = (sys.executable, "-c", WITH_TERMINAL)
    program = harness.start(
        *(sys.executable, "-c", KEYS),
        options=options,
        before=before,
        stdin=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    return program, keyboard


@pytest.mark.spec("O3")
@needs_root
@with_process_harness
async def test_root_is_told_that_exec_is_no_boundary(harness: ProcessHarness) -> None:
    """At a terminal only: scripts do not expect it."""
    keyboard, terminal = pty.openpty()
    program = harness.start("true", stderr=terminal)
    os.close(terminal)
    assert await harness.exit_code(program) == 0
    said = os.read(keyboard, 1000).decode()
    assert said == "fairwarning: a program that root runs can leave web_0\r\n"
    os.close(keyboard)


@pytest.mark.spec("O3", "O4")
@with_process_harness
async def test_a_rebooted_program_has_the_terminal_again(harness: ProcessHarness) -> None:
    """The foreground process group of the terminal had ended."""
    _, keyboard = at_terminal(harness)
    await harness.printed("foreground\n")
    assert await harness.result(harness.submit("reboot")) == ""
    await harness.printed(2 * "foreground\n")
    os.close(keyboard)


@pytest.mark.spec("O4")
@with_process_harness
async def test_a_suspended_program_is_rebooted(harness: ProcessHarness) -> None:
    """Exec stopped by Ctrl-Z does not hold up the impact, and the shell keeps the terminal."""
    program, keyboard = at_terminal(harness)
    await harness.printed("foreground\n")
    os.write(keyboard, b"\x1a")
    await wait_until_async(lambda: state(program) == "T", "exec is stopped")
    assert await harness.result(harness.submit("reboot")) == ""
    await wait_until_async(lambda: harness.out().endswith("background\n"), "it starts again")
    assert state(program) == "T"
    assert os.tcgetpgrp(keyboard) == program.pid
    program.send_signal(signal.SIGCONT)
    await wait_until_async(lambda: "background\ncontinued" in harness.out(), "it goes on")
    os.write(keyboard, b"\x03")
    await wait_until_async(lambda: harness.out().endswith("interrupted\n"), "it is interrupted")
    os.close(keyboard)


@pytest.mark.spec("O4")
@with_process_harness
async def test_a_suspended_program_stays_suspended_after_a_freeze(
    harness: ProcessHarness,
) -> None:
    """Only the user resumes it."""
    program, keyboard = at_terminal(harness)
    await harness.printed("foreground\n")
    os.write(keyboard, b"\x1a")
    await wait_until_async(lambda: state(program) == "T", "exec is stopped")
    assert await harness.result(harness.submit("freeze", seconds=0)) == ""
    (inside,) = harness.processes_inside()
    await wait_until_async(lambda: state_of(inside) == "T", "it is suspended again")
    program.send_signal(signal.SIGCONT)
    await wait_until_async(lambda: "continued" in harness.out(), "it goes on")
    os.close(keyboard)
