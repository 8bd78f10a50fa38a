"""A process that outlives its test is found."""

import os
import signal
import subprocess
import sys

import pytest

from tests.fixtures.leftovers import leftover_processes
from tests.fixtures.waiting import wait_until

MARK = "import time; time.sleep(600)  # left over"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_process_whose_parent_has_ended_is_found() -> None:
    """It is known by a variable of its environment."""
    script = '"$0" -c "$1" > /dev/null & echo $!'
    command = ["sh", "-c", script, sys.executable, MARK]
    started = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    try:
        wait_until(lambda: any(MARK in command for command in leftover_processes()))
    finally:
        os.kill(int(started.stdout), signal.SIGKILL)
    wait_until(lambda: not any(MARK in command for command in leftover_processes()))
