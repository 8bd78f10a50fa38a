"""Systems that lack something: Unix sockets, modules of POSIX, uvloop, namespaces.

docs/platforms.md says which systems these are. What is missing is taken away in a real process.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.cli.test_inside import APPROVER
from tests.fixtures.programs import ROOT, run_program, run_python
from tests.fixtures.service import PROGRAM, ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

pytestmark = [pytest.mark.spec("O12"), pytest.mark.up("--sample", "--memory")]

WITHOUT_UNIX_SOCKETS = "import socket; del socket.AF_UNIX\n"

IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""

# What Windows lacks, and the names of Windows that the guest side uses. The standard library is
# imported before, because it is that of this system.
WINDOWS = """
import asyncio, http.client, logging, os, pathlib, signal, socket, subprocess, sys, tempfile, types
import urllib.request
sys.platform = "win32"
for name in ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios"):
    sys.modules[name] = None
for module, names in (
    (os, "O_DIRECTORY O_NOFOLLOW fork getuid killpg setpgid waitid"),
    (signal, "SIGCHLD SIGCONT SIGHUP SIGKILL SIGSTOP SIGUSR1"),
    (socket, "AF_UNIX SO_REUSEPORT recv_fds send_fds"),
):
    for name in names.split():
        delattr(module, name)
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
subprocess.CREATE_NEW_PROCESS_GROUP = 0x200
signal.SIGBREAK = signal.SIGTERM
"""


SIOCSIFADDR = 0x8916

ASK_NAME = """
import os
from fairwarning import ScheduledEvents
with ScheduledEvents() as client:
    print(client.me(), os.environ["FAIRWARNING_ENDPOINT"].rpartition(":")[0])
"""


def modules_of(package: str) -> list[str]:
    """Return the names of all modules of a package of Fairwarning."""
    source = ROOT / "src"
    paths = sorted((source / "fairwarning" / package).rglob("*.py"))
    names = [".".join(path.relative_to(source).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.parametrize("part", ["guest", "cli"])
def test_imports_without_unix_sockets(part: str) -> None:
    """Every module of the SDK, the agent and the command line can be imported."""
    done = run_python(WITHOUT_UNIX_SOCKETS + IMPORT, *modules_of(part))
    assert done.returncode == 0, done.stderr


def test_the_guest_side_without_modules_of_posix() -> None:
    """Every module of the SDK and the agent can be imported without fcntl, resource and pwd."""
    done = run_python(WINDOWS + IMPORT, *modules_of("guest"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "code"), [(("exec", "web_0", "--", "true"), 4), (("certify", "--", "sh"), 1)]
)
def test_a_command_that_needs_unix_sockets(words: tuple[str, ...], code: int) -> None:
    """It says so before it tries, and where it works."""
    main = "import sys; from fairwarning.cli.main import main; main()"
    done = run_python(WITHOUT_UNIX_SOCKETS + main, *words)
    assert done.returncode == code, done.stderr
    assert "use Linux, macOS or Windows with WSL" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spec("O3", "O4")
def test_a_handler_without_uvloop_and_without_namespaces(tmp_path: Path) -> None:
    """It approves by Azure's URL, gets the answer, is ended, and its machine boots again."""
    (tmp_path / "uvloop.py").write_text("raise ModuleNotFoundError('uvloop')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    url = "http://169.254.169.254/metadata/scheduledevents?api-version=2019-01-01"
    # The program that asks has a proxy, or it does not run.
    guarded = "import os; assert os.environ['http_proxy'].startswith('http://127.')\n" + APPROVER
    with ServiceProcess(tmp_path / "data", "--sample", "--memory", env=environment) as service:
        service.poll("db_1")
        command = [sys.executable, "-c", guarded, url]
        words = [*PROGRAM, "exec", "--data", str(service.data), "--isolation", "none", "db_0", "--"]
        with subprocess.Popen([*words, *command], stdout=subprocess.PIPE, text=True) as program:
            try:
                assert program.stdout is not None
                assert service.run("machine", "restart", "db_0").returncode == 0
                assert program.stdout.readline() == "200\n"
                assert program.stdout.readline() == "got SIGTERM\n"
                wait_until(lambda: not service.poll("db_1")["Events"], "the machine has booted")
                assert service.run("machine", "delete", "db_0", "--yes").returncode == 0
                # Ended by its handler, by the refusal of its request, or by the signal itself, if
                # it has no handler yet after the boot.
                assert program.wait(LIMIT_SECONDS) in {0, 1, 128 + signal.SIGTERM}
            finally:
                program.kill()


def _remove_ipv4() -> None:
    """Remove 127.0.0.1 from the loopback of a private network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH2x4s16x", b"lo", socket.AF_INET, bytes(4))
        ioctl(any_socket, SIOCSIFADDR, request)
    with socket.socket() as probe, pytest.raises(OSError, match="assign"):
        probe.bind(("127.0.0.1", 0))


@pytest.mark.private_network
@pytest.mark.spec("O3")
def test_a_host_without_ipv4(tmp_path: Path) -> None:
    """The service and a program without namespaces use ::1."""
    _remove_ipv4()
    free = "[::1]:0"
    with ServiceProcess(
        tmp_path / "data", "--sample", "--memory", metadata=free, console=free, arm=free
    ) as service:
        words = [*PROGRAM, "exec", "--data", str(service.data), "--isolation", "none", "web_0"]
        done = run_program(*words, "--", sys.executable, "-c", ASK_NAME)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "web_0 http://[::1]\n"
