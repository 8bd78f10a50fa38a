"""`fairwarning exec`: runs any program as if inside a machine."""

import errno
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from fairwarning.core.errors import FairwarningError
from fairwarning.machines.process import namespace
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import (
    needs_linux,
    needs_mounts,
    needs_namespaces,
    needs_root_namespaces,
    needs_unshare,
)
from tests.fixtures.waiting import wait_until_async
from tests.machines.process_harness import (
    EXEC,
    ProcessHarness,
    process_harness,
    with_process_harness,
)

pytestmark = pytest.mark.spec("O3")

ASK = """
import urllib.request
print(urllib.request.urlopen("http://169.254.169.254/").read().decode())
"""

# Prints what a program can see of its environment.
LOOK = """
import json, os, socket
with open("/proc/self/status") as status:
    capabilities = [
        line.split()[1] for line in status if line.startswith(("CapEff", "CapPrm", "CapAmb"))
    ]
print(json.dumps({
    "host": socket.gethostname(), "user": os.getuid(), "folder": os.getcwd(),
    "capabilities": capabilities,
    "networks": [name for _, name in socket.if_nameindex()], "environment": dict(os.environ),
    "temporary": os.path.isdir(os.environ["TMPDIR"]),
}))
"""


@needs_namespaces
@with_process_harness
async def test_the_metadata_endpoint_answers_as_the_machine(harness: ProcessHarness) -> None:
    """Two programs ask the same address at the same time, each as another machine."""
    programs = [
        harness.start(sys.executable, "-c", ASK, machine=machine) for machine in ("web_0", "web_1")
    ]
    assert [await harness.exit_code(program) for program in programs] == [0, 0], harness.err()
    assert [harness.out(0), harness.out(1)] == ["web/web_0\n", "web/web_1\n"]


@needs_namespaces
@with_process_harness
async def test_the_environment_of_a_program(harness: ProcessHarness, tmp_path: Path) -> None:
    """Its machine's name and temporary folder; the same user and folder; only loopback.

    A proxy outside the machine could not be reached, so its variables are unset.
    """
    outside = {"A": "b", "http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}
    env = {**os.environ, **outside}
    seen = json.loads(await harness.output(sys.executable, "-c", LOOK, cwd=tmp_path, env=env))
    assert seen["host"] == "web000000"
    assert seen["user"] == os.getuid()
    assert seen["folder"] == str(tmp_path)
    assert seen["networks"] == ["lo"]
    assert seen["environment"]["FAIRWARNING_MACHINE"] == "web_0"
    assert seen["environment"]["TMPDIR"] == str(harness.temporary)
    assert seen["environment"]["A"] == "b"
    assert not {"http_proxy", "ALL_PROXY"} & seen["environment"].keys()
    assert seen["temporary"]
    assert os.getuid() == 0 or set(seen["capabilities"]) == {"0" * 16}


def hosts() -> bytes:
    """Return the text of the host's file, which `exec` must not change."""
    return Path("/etc/hosts").read_bytes()


@needs_namespaces
@needs_mounts
async def test_a_machine_resolves_its_own_name(tmp_path: Path) -> None:
    """The address is one that the machine can bind to, and localhost resolves as before."""
    script = """
import socket
name = socket.gethostname()
with socket.create_server((name, 8080)), socket.create_connection((name, 8080)):
    print(name, socket.getfqdn(), open("/etc/hostname").read().strip())
print(socket.gethostbyname("localhost"))
"""
    before = hosts()
    async with process_harness(tmp_path) as harness:
        printed = await harness.output(sys.executable, "-c", script)
        assert printed == "web000000 web000000 web000000\n127.0.0.1\n"
        if shutil.which("hostname"):
            assert await harness.output("hostname", "-f") == "web000000\n"
    assert hosts() == before


@needs_root_namespaces
@needs_mounts
@with_process_harness
async def test_a_program_can_mount_over_the_files_of_its_machine(harness: ProcessHarness) -> None:
    """As container runtimes do with /etc/hosts; nothing is left in the temporary folder."""
    script = """
mount --bind /etc/os-release /etc/hosts && mount --bind /etc/os-release /etc/hostname
cmp /etc/hosts /etc/os-release && cmp /etc/hostname /etc/os-release && ls -A "$TMPDIR"
"""
    before = hosts()
    assert await harness.output("sh", "-ec", script) == ""
    assert hosts() == before


@needs_root_namespaces
@with_process_harness
async def test_root_has_all_users(harness: ProcessHarness, tmp_path: Path) -> None:
    """A program that root runs can own files as another user, and become one."""
    script = """
import os, sys
os.chown(sys.argv[1], 65533, 65533)
os.setgroups([65533])
os.setgid(65533)
os.setuid(65533)
print(os.getuid(), open("/proc/self/uid_map").read().split())
"""
    file = tmp_path / "file"
    file.touch()
    program = harness.start(sys.executable, "-c", script, str(file))
    assert await harness.exit_code(program) == 0, harness.err()
    users = Path("/proc/self/uid_map").read_text().split()  # noqa: ASYNC240  (short)
    assert harness.out() == f"65533 {users}\n"
    assert file.stat().st_uid == 65533


@needs_namespaces
@with_process_harness
async def test_exit_codes_pass_through(harness: ProcessHarness, tmp_path: Path) -> None:
    """They are the program's own, or those of a shell if it cannot be run."""
    text = tmp_path / "text"
    text.write_text("not a program")
    for command, expected in (
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -9 $$"), 137),
        (("no-such-program",), 127),
        ((str(text),), 126),
        (("true",), 0),
    ):
        assert await harness.exit_code(harness.start(*command)) == expected
    assert "cannot run no-such-program" in harness.err(2)


@needs_namespaces
@with_process_harness
async def test_signals_pass_through(harness: ProcessHarness) -> None:
    """The program gets the signals sent to exec, and its exit code is that of exec."""
    script = "import signal, sys; print('here', flush=True); print(signal.sigwait({want}).name)"
    for number, sent in enumerate((signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)):
        ready = script.format(want=set(map(int, (sent,))))
        block = f"import signal; signal.pthread_sigmask(0, [{int(sent)}]); {ready}"
        program = harness.start(sys.executable, "-c", block)
        await wait_until_async(lambda n=number: "here" in harness.out(n), "it waits")  # type: ignore[misc]
        program.send_signal(sent)
        assert await harness.exit_code(program) == 0
        assert harness.out(number).split() == ["here", sent.name]
    program = await harness.start_counter()
    program.send_signal(signal.SIGTERM)
    assert await harness.exit_code(program) == 0
    assert harness.log(3) == ["started", "ended"]
    program = harness.start("sh", "-c", "echo here; exec sleep 1000")
    await wait_until_async(lambda: "here" in harness.out(4), "it runs")
    program.send_signal(signal.SIGTERM)
    assert await harness.exit_code(program) == 143  # as in a shell


@needs_namespaces
@with_process_harness
async def test_pipes_pass_through(harness: ProcessHarness, tmp_path: Path) -> None:
    """A program reads and writes as it would without exec, and gets SIGPIPE from its reader."""
    (tmp_path / "in").write_text("text")
    with (tmp_path / "in").open("rb") as text:
        program = harness.start("cat", stdin=text)
    assert await harness.exit_code(program) == 0
    assert harness.out() == "text"
    reader, writer = os.pipe()
    os.close(reader)
    program = harness.start("cat", "/dev/zero", stdout=writer)
    os.close(writer)
    assert await harness.exit_code(program) == 128 + signal.SIGPIPE


@needs_namespaces
async def test_long_folder_names_work(tmp_path: Path) -> None:
    """The path of a socket is limited, that of a folder is not."""
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    async with process_harness(deep) as harness:
        assert await harness.exit_code(harness.start("true")) == 0, harness.err()


@needs_namespaces
@with_process_harness
async def test_machines_that_are_refused(harness: ProcessHarness) -> None:
    """Not found and refused have their own exit codes, with the message of the service."""
    assert await harness.exit_code(harness.start("true", machine="nobody")) == 3
    assert harness.err(0) == "fairwarning: no machine is called nobody\n"
    assert await harness.exit_code(harness.start("true", machine="shy")) == 4
    assert harness.err(1) == "fairwarning: shy is in two scopes; rename one\n"


def test_without_a_service(tmp_path: Path) -> None:
    """The message says how to start one."""
    words = [*EXEC, "--data", str(tmp_path), "web_0", "--", "true"]
    ended = run_program(*words)
    assert ended.returncode == 1
    assert "start one with `" in ended.stderr


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EPERM, "not permitted"),
        pytest.param(
            errno.ENOSPC, "the limit user.max_user_namespaces or", marks=needs_linux
        ),  # not a full device
    ],
)
def test_where_namespaces_are_forbidden(
    monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    """The message gives the reason and the alternatives."""

    def refuse(_flags: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(namespace, "_unshare", refuse)
    with pytest.raises(FairwarningError) as caught:
        namespace.create()
    assert caught.value.code == "NamespacesForbidden"
    for hint in (reason, "--isolation none", "max_user_namespaces", "apparmor"):
        assert hint in caught.value.message
    assert "device" not in caught.value.message


@needs_unshare
@needs_namespaces
@with_process_harness
async def test_where_the_kernel_forbids_namespaces(harness: ProcessHarness) -> None:
    """Whoever demands them gets exit code 1 and the same message: here the limit is 0."""
    limit = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    before = ("unshare", "-Ur", "sh", "-c", limit, "sh")
    options = ("--isolation", "namespaces")
    program = harness.start("true", before=before, options=options)
    assert await harness.exit_code(program) == 1
    assert "create namespaces (the limit user.max_net_namespaces is reached)" in harness.err()
