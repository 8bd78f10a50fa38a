"""After a killed agent: its hooks are ended before the next agent runs them again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairwarning.guest.agent import hook_processes as module
from fairwarning.guest.agent import system
from fairwarning.guest.agent.actions import RunHook
from fairwarning.guest.agent.hook_processes import HookProcess, HookProcesses
from fairwarning.guest.events import Phase
from tests.fixtures.hidden_proc import run_python
from tests.fixtures.requirements import needs_linux
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until
from tests.guest.agents import AgentProcess, one_machine
from tests.guest.notices import event, hook

pytestmark = [pytest.mark.spec("G6"), needs_linux]

RUN = RunHook(hook(), Phase.SCHEDULED, event(), datetime(2030, 1, 1, tzinfo=UTC))
FOREVER = "import time; print(flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER}"
LEAVES_A_CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-E", "-c", {FOREVER!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a killed program as long as a busy machine takes."""
    monkeypatch.setattr(module, "KILLED_SECONDS", LIMIT_SECONDS)


@contextmanager
def program(code: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program as a hook, in its own group; wait for its first line."""
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            signal_group(process.pid, signal.SIGKILL)


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a group that may be empty."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def is_alive(process: int) -> bool:
    """Whether a process runs; a zombie does not."""
    return bool(system.process_mark(process))


def record(state: Path, process: int, change: Callable[[HookProcess], HookProcess]) -> Path:
    """Write the record of a hook, as a killed agent leaves it."""
    recorded = HookProcess(process, system.process_mark(process), "drain", "scheduled", "A")
    path = state / "running" / str(process)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(change(recorded))), "utf-8")
    return path


# --- Real agents ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "])
def test_a_hook_of_a_killed_agent_is_ended_before_it_runs_again(
    tmp_path: Path, stubborn: str
) -> None:
    """There are never two of them."""
    with one_machine(tmp_path) as (endpoint, home):
        ids = tmp_path / "ids"
        home.hook("drain", "scheduled", f"{stubborn}echo $$ >> '{ids}'; {home.wait_script()}")
        with AgentProcess(home) as agent:
            endpoint.restart("db_0")
            agent.wait_until(lambda: ids.exists() and ids.read_text("ascii").endswith("\n"))
            running = home.state / "running"
            agent.wait_until(lambda: any(path.read_bytes() for path in running.glob("*")))
            agent.kill()
        (first,) = map(int, ids.read_text("ascii").split())
        assert is_alive(first)
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: len(ids.read_text("ascii").split()) == 2)
            assert not is_alive(first)
            assert f"process {first}: still runs after its agent was killed" in agent.output()
            assert endpoint.approvals == []
            home.release_hooks()
            agent.wait_until(lambda: endpoint.approvals)
            assert agent.stop() < 5
        assert list((home.state / "running").iterdir()) == []


# --- Records --------------------------------------------------------------------------------------


def test_a_record_lasts_as_long_as_its_program(tmp_path: Path) -> None:
    """It is readable by the agent's user only."""
    processes, path = HookProcesses(tmp_path), tmp_path / "running" / str(os.getpid())
    with processes.recorded(RUN, os.getpid()):
        assert path.stat().st_mode & 0o077 == 0
        assert json.loads(path.read_bytes())["mark"] == system.process_mark(os.getpid())
    assert not path.exists()
    with HookProcesses(None).recorded(RUN, os.getpid()):
        assert list((tmp_path / "running").iterdir()) == []


def test_records_that_cannot_be_used_stop_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full, or the folder is not a folder; at the first start there is none."""
    HookProcesses(tmp_path).end_previous()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "running").write_text("", "utf-8")
    with HookProcesses(tmp_path).recorded(RUN, os.getpid()):
        assert "cannot record hook drain (event A, scheduled)" in caplog.text
    HookProcesses(tmp_path).end_previous()
    assert "cannot read the records of running hooks" in caplog.text


@pytest.mark.parametrize("code", [FOREVER, STUBBORN])
def test_a_recorded_program_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """It is terminated, then killed."""
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)
    with program(code) as process:
        assert process.stdout
        process.stdout.readline()
        path = record(tmp_path, process.pid, lambda same: same)
        HookProcesses(tmp_path).end_previous()
        wait_until(lambda: not is_alive(process.pid))
        assert not path.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda same: replace(same, mark=f"{same.mark}0"),  # another start: the id was used again
        lambda same: replace(same, mark=f"0{same.mark}"),  # another boot
        lambda same: replace(same, mark=""),
        lambda same: replace(same, process=0),  # our own group
        lambda same: replace(same, process=-1),  # all processes
    ],
)
def test_another_process_is_left_alone(
    tmp_path: Path, change: Callable[[HookProcess], HookProcess]
) -> None:
    """Only a process that surely is the hook is ended."""
    with program(FOREVER, FAIRWARNING_EVENT_ID="A") as process:
        path = record(tmp_path, process.pid, change)
        HookProcesses(tmp_path).end_previous()
        assert is_alive(process.pid)
        assert not path.exists()


@pytest.mark.parametrize(("variable", "ended"), [("A", True), ("B", False)])
def test_the_rest_of_a_group_is_ended(tmp_path: Path, variable: str, ended: bool) -> None:
    """Its leader has ended; the environment of the others shows whose they are."""
    with program(LEAVES_A_CHILD, FAIRWARNING_EVENT_ID=variable) as process:
        path = record(tmp_path, process.pid, lambda same: same)
        assert process.stdout
        child = int(process.stdout.readline())
        process.wait()
        HookProcesses(tmp_path).end_previous()
        assert is_alive(child) != ended
        assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b'{"process": 1}', b"[" * 100_000])
def test_a_damaged_record_is_reported_and_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    """The agent starts."""
    path = tmp_path / "running" / "17"
    path.parent.mkdir()
    path.write_bytes(content)
    HookProcesses(tmp_path).end_previous()
    assert "17 is not a record of a running hook" in caplog.text
    assert not path.exists()


IN_A_SANDBOX = """
import subprocess
from fairwarning.guest.agent import system
with subprocess.Popen(["sleep", "600"], start_new_session=True) as program:
    mark = system.process_mark(program.pid)
    print(f"boot: {system.boot_id()}")
    print(system.is_same_group(program.pid, mark, ""))
    print(system.is_same_group(program.pid, f"{mark}0", ""))
    program.kill()
"""


@pytest.mark.parametrize("boot", ["", "b007"])
def test_a_program_is_recognized_in_a_sandbox_that_hides_the_boot_id(boot: str) -> None:
    """The service manager may pass the id on; without one the start of the program is left."""
    lines = run_python(IN_A_SANDBOX, FAIRWARNING_BOOT_ID=boot)
    assert lines == [f"boot: {boot}", "True", "False"]


def test_marks_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc, as on macOS, `ps` prints the start of a process. Windows has no marks."""
    if not Path("/bin/ps").exists():
        pytest.skip("needs ps: apt-get install procps")
    with program(FOREVER) as process:
        monkeypatch.setattr(sys, "platform", "darwin")
        mark = system.process_mark(process.pid)
        assert mark.endswith(f" {datetime.now(UTC):%Y}")
        assert system.is_same_group(process.pid, mark, "")
        assert not system.is_same_group(process.pid, f"{mark}0", "")
        monkeypatch.setattr(sys, "platform", "win32")
        assert system.process_mark(process.pid) == ""
        assert not system.is_same_group(process.pid, mark, "")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert system.process_mark(process.pid) == ""
