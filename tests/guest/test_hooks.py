"""Hooks as real programs, servers and functions that misbehave in every way."""

import gc
import http.client
import json
import os
import socket
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fairwarning.guest.agent import hook_request, work
from fairwarning.guest.agent import hooks as module
from fairwarning.guest.agent.actions import RunHook, StopHook
from fairwarning.guest.agent.config import HookKind, HookSettings, parse
from fairwarning.guest.agent.event_state import NO_TIME_LEFT, OUT_OF_TIME
from fairwarning.guest.agent.hook_output import KEPT_BYTES
from fairwarning.guest.agent.hook_processes import KILLED_SECONDS
from fairwarning.guest.agent.hooks import STOPPED, HookRunner
from fairwarning.guest.events import Event, EventSource, EventStatus, EventType
from fairwarning.guest.watch import Phase
from tests.fixtures.waiting import LIMIT_SECONDS

SOON_SECONDS = 20.0  # to start and end a process on a busy machine

EVENT = Event(
    id="602D9444-D2CD-49C7-8624-8643E7171297",
    type=EventType.REBOOT,
    status=EventStatus.SCHEDULED,
    resources=("vm-1", "vm-2"),
    not_before=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
    source=EventSource.PLATFORM,
    duration=timedelta(seconds=9),
    description="Host \u00fcber all",
)

# Reports to the test, over a connection that stays open while the process lives.
HERE = """
import os, signal, socket, sys, time
def here(who=b"h"):
    process = socket.create_connection(("127.0.0.1", int(os.environ["PORT_OF_TEST"])))
    process.sendall(who)
    return process
"""

HookResult = tuple[str, Phase, str, str]


class HookHarness:
    """A hook runner, and the results that it reported."""

    def __init__(self, state: Path | None = None) -> None:
        self._results: list[HookResult] = []
        self._changed = threading.Condition()
        self.hooks = HookRunner("vm-1", self._ended, state=state)
        self._runs = 0

    def _ended(self, event: str, phase: Phase, hook: str, failed: str) -> None:
        with self._changed:
            self._results.append((event, phase, hook, failed))
            self._changed.notify_all()

    def run(
        self,
        hook: HookSettings,
        *,
        seconds: float = LIMIT_SECONDS,
        event: Event = EVENT,
        cancelled: bool = False,
    ) -> RunHook:
        """Start a hook."""
        deadline = datetime.now(UTC) + timedelta(seconds=seconds)
        run = RunHook(hook, hook.phase, event, deadline, cancelled)
        self._runs += 1
        self.hooks.run(run)
        return run

    def results(self) -> list[HookResult]:
        """Wait for all started hooks; return their results."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._results) >= self._runs, LIMIT_SECONDS)
            return list(self._results)

    def failure(self) -> str:
        """Return the failure of the only hook."""
        ((event, phase, _, failed),) = self.results()
        assert (event, phase) == (EVENT.id, Phase.SCHEDULED)
        return failed


@contextmanager
def hook_harness(state: Path | None = None) -> Iterator[HookHarness]:
    """Check that no thread is left and that each end was reported once."""
    harness = HookHarness(state)
    try:
        yield harness
    finally:
        harness.hooks.close()
        for thread in threading.enumerate():
            if "hook" in thread.name:
                thread.join(LIMIT_SECONDS)
                assert not thread.is_alive(), thread.name
    assert len(harness.results()) == harness._runs


@contextmanager
def listening_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Accept connections of hooks that call `here()`."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        server.settimeout(LIMIT_SECONDS)
        monkeypatch.setenv("PORT_OF_TEST", str(server.getsockname()[1]))
        yield server


def accept_process(server: socket.socket) -> socket.socket:
    """Return the connection of a process that called `here()`."""
    return accept_processes(server, 1)[b"h"][0]


def accept_processes(server: socket.socket, count: int) -> dict[bytes, list[socket.socket]]:
    """Return the connections of this many processes, by the byte they send."""
    processes: dict[bytes, list[socket.socket]] = {}
    for _ in range(count):
        process, _ = server.accept()
        process.settimeout(LIMIT_SECONDS)
        processes.setdefault(process.recv(1), []).append(process)
    return processes


def gone(process: socket.socket) -> bool:
    """Whether that process has exited."""
    try:
        return process.recv(1) == b""
    except ConnectionResetError:
        return True


def program(code: str, name: str = "main") -> HookSettings:
    """Return a hook that is a Python program."""
    command = (sys.executable, "-S", "-E", "-c", code)
    return HookSettings(name, Phase.SCHEDULED, HookKind.COMMAND, command=command)


def descriptors() -> int:
    """Return the number of open files, after collecting garbage of earlier tests."""
    gc.collect()
    return len(list(Path("/dev/fd").iterdir()))


# --- Programs -------------------------------------------------------------------------------------


@pytest.mark.spec("G4")
def test_input_of_a_program(tmp_path: Path) -> None:
    """It gets the event in its environment and as JSON on stdin, with the same values (IG2)."""
    code = f"""
import json, os, sys
received = {{"stdin": json.load(sys.stdin), "environment": dict(os.environ)}}
open({str(tmp_path / "received")!r}, "w").write(json.dumps(received))
"""
    with hook_harness() as harness:
        run = harness.run(program(code), cancelled=True)
        assert harness.failure() == ""
    received = json.loads((tmp_path / "received").read_text())
    deadline = run.deadline.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert received["stdin"] == {
        "EventId": EVENT.id,
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["vm-1", "vm-2"],
        "NotBefore": "2030-01-02T03:04:05Z",
        "Description": "Host \u00fcber all",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
        "Phase": "scheduled",
        "Machine": "vm-1",
        "Cancelled": True,
        "Deadline": deadline,
        "Drill": False,
    }
    ours = {
        name.removeprefix("FAIRWARNING_"): value
        for name, value in received["environment"].items()
        if name.startswith("FAIRWARNING_")
    }
    assert ours == {
        "EVENT_ID": EVENT.id,
        "EVENT_TYPE": "Reboot",
        "EVENT_STATUS": "Scheduled",
        "EVENT_SOURCE": "Platform",
        "NOT_BEFORE": "2030-01-02T03:04:05Z",
        "RESOURCES": "vm-1,vm-2",
        "DESCRIPTION": "Host \u00fcber all",
        "DURATION_SECONDS": "9",
        "PHASE": "scheduled",
        "CANCELLED": "1",
        "MACHINE": "vm-1",
        "DEADLINE": deadline,
        "DRILL": "0",
    }
    assert received["environment"]["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("code", "failed"),
    [
        ("", ""),
        ("print('fine')", ""),
        ("raise SystemExit(3)", "exit code 3"),
        ("print('one'); print('two\\n'); raise SystemExit(3)", "exit code 3: two"),
        ("import sys; sys.exit('\\x1b[31mred\\ttoo')", "exit code 1: [31mred too"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by signal SIGKILL"),
        ("import os; os.write(2, bytes([255])); os.abort()", "ended by signal SIGABRT: \ufffd"),
        ("print('x' * 99999); raise SystemExit(1)", "exit code 1: " + "x" * 287),
    ],
)
def test_failures_of_programs(code: str, failed: str) -> None:
    """One line with the exit code or signal, and the last line of output."""
    with hook_harness() as harness:
        harness.run(program(code))
        assert harness.failure() == failed


@pytest.mark.parametrize(
    ("name", "failed"),
    [
        ("missing", "cannot be started: No such file or directory: "),
        ("a file", "cannot be started: Permission denied: "),
        ("a program", "cannot be started: Exec format error: "),
        ("a file/below", "cannot be started: Not a directory: "),
    ],
)
def test_a_program_that_cannot_be_started_fails(tmp_path: Path, name: str, failed: str) -> None:
    """The failure names the program and the cause."""
    if os.geteuid() == 0 and name == "a file":
        (tmp_path / name).mkdir()  # root may run any file
    else:
        (tmp_path / "a file").touch(0o600)
    (tmp_path / "a program").write_bytes(b"\x7fnothing that runs")
    (tmp_path / "a program").chmod(0o700)
    path = str(tmp_path / name)
    before = descriptors()
    with hook_harness() as harness:
        harness.run(HookSettings("main", Phase.SCHEDULED, HookKind.COMMAND, command=(path,)))
        assert harness.failure() == failed + path
    assert descriptors() <= before


def test_odd_events_do_not_prevent_a_program() -> None:
    """The hook runs whatever an event contains, and however long it is."""
    odd = Event(
        id="a\0b\n\ud800",
        type="New\0Type",
        status="Scheduled",
        resources=tuple(f"a-rather-long-name-{number:06}" for number in range(50_000)),
        description="\0" * 500_000,
    )
    code = """
import json, os, sys
event = json.load(sys.stdin)
names = os.environ["FAIRWARNING_RESOURCES"].split(",")
assert event["EventId"] == "a\\0b\\n\\ud800" and len(event["Resources"]) == 50_000
assert len(names) > 1_000 and set(names) <= set(event["Resources"])
assert os.environ["FAIRWARNING_EVENT_ID"] == "a?b\\n?"
"""
    with hook_harness() as harness:
        harness.run(program(code), event=odd)
        assert harness.results() == [(odd.id, Phase.SCHEDULED, "main", "")]


def test_a_flood_of_output() -> None:
    """A hook that writes hundreds of megabytes is not blocked; only the end is kept."""
    code = """
import os
for _ in range(4_800):
    os.write(1, b"x" * 65_536)
print("\\nthe end")
raise SystemExit(3)
"""
    with hook_harness() as harness:
        tracemalloc.start()
        try:
            harness.run(program(code))
            assert harness.failure() == "exit code 3: the end"
            assert tracemalloc.get_traced_memory()[1] < 2 * 2**20
        finally:
            tracemalloc.stop()


def test_an_endless_flood_ends_at_the_deadline() -> None:
    """The deadline holds while the hook writes without pause."""
    with hook_harness() as harness:
        began = time.monotonic()
        harness.run(program("import os\nwhile True: os.write(1, b'lava\\n' * 9_999)"), seconds=2)
        assert harness.failure().startswith(f"{OUT_OF_TIME}: l")
        assert time.monotonic() - began < 2 + SOON_SECONDS


@pytest.mark.parametrize("waitid", [True, False])
def test_children_that_a_program_leaves_behind_are_killed(
    monkeypatch: pytest.MonkeyPatch, waitid: bool
) -> None:
    """They hold its pipes and ignore signals; the hook ends with the program."""
    if not waitid:  # as on PyPy
        monkeypatch.delattr(os, "waitid", raising=False)
    code = f"""{HERE}
if os.fork() == 0:
    for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
    os.fork()
    process = here(b"c")
    while True: time.sleep(1000)
here().recv(1)
"""
    with listening_server(monkeypatch) as server, hook_harness() as harness:
        harness.run(program(code))
        processes = accept_processes(server, 3)
        (main,) = processes[b"h"]
        main.sendall(b"x")
        assert harness.failure() == ""
        assert [gone(child) for child in processes[b"c"]] == [True, True]
        for process in (main, *processes[b"c"]):
            process.close()


def test_a_daemon_does_not_block_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that left the group keeps our pipes open; nothing waits for it."""
    code = f"""{HERE}
if os.fork() == 0:
    os.setsid()
    os.set_blocking(0, False)
    os.set_blocking(1, False)
    here(b"s").recv(1)
    os._exit(0)
here().recv(1)
print("the end", flush=True)
os._exit(1)
"""
    before = descriptors()
    large = replace(EVENT, description="x" * 2**20)
    with listening_server(monkeypatch) as server:
        with hook_harness() as harness:
            harness.run(program(code), event=large)
            processes = accept_processes(server, 2)
            (main,), (service,) = processes[b"h"], processes[b"s"]
            main.sendall(b"x")
            assert harness.failure() == "exit code 1: the end"
        service.setblocking(False)
        with pytest.raises(BlockingIOError):
            service.recv(1)  # the daemon still runs
        main.close()
        service.close()
    assert descriptors() <= before


def test_a_flooding_daemon_does_not_block_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may write without end: the hook is done, and reading stops."""
    code = f"""{HERE}
if os.fork() == 0:
    os.setsid()
    process = here(b"s")
    while True: os.write(1, b"x" * 65_536)
here().recv(1)
"""
    with listening_server(monkeypatch) as server, hook_harness() as harness:
        harness.run(program(code))
        processes = accept_processes(server, 2)
        processes[b"h"][0].sendall(b"x")
        assert harness.failure() == ""
        assert gone(processes[b"s"][0])  # its output pipe is closed
        for process in (*processes[b"h"], *processes[b"s"]):
            process.close()


@pytest.mark.parametrize("size", [10, 8 * 2**20])
def test_a_program_need_not_read_its_stdin(size: int) -> None:
    """However long the event is, unread input is discarded."""
    large = replace(EVENT, description="x" * size)
    before = descriptors()
    with hook_harness() as harness:
        harness.run(program("import os; os.close(0)"), event=large)
        harness.run(program("import sys; sys.stdin.read(5)"), event=large)
        harness.run(program("import sys; assert len(sys.stdin.read()) > " + str(size)), event=large)
        assert {failed for *_, failed in harness.results()} == {""}
    assert descriptors() <= before


@pytest.mark.spec("G4")
def test_a_hanging_program_is_killed_in_time() -> None:
    """IG4: terminated shortly before the deadline and killed at it, with its children."""
    code = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: print("terminated at", time.time(), flush=True))
os.fork()
while True: time.sleep(1000)
"""
    with hook_harness() as harness:
        began = time.monotonic()
        run = harness.run(program(code), seconds=3)
        failed = harness.failure()
        took = time.monotonic() - began
    assert failed.startswith(f"{OUT_OF_TIME}: terminated at")
    assert float(failed.rpartition(" ")[2]) < run.deadline.timestamp()
    assert 2.0 <= took < 3 + KILLED_SECONDS


def test_a_terminated_program_may_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets a grace period; exit code 0 after that is still a failure."""
    code = f"""{HERE}
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
here()
signal.sigwait([signal.SIGTERM])
print("cleaned")
"""
    with listening_server(monkeypatch) as server, hook_harness() as harness:
        run = harness.run(program(code))
        accept_process(server).close()
        harness.hooks.stop(StopHook(EVENT.id, run.phase, "main"))
        assert harness.failure() == f"{STOPPED}: cleaned"


def test_nothing_starts_after_the_deadline(tmp_path: Path) -> None:
    """A hook whose deadline has passed fails without running."""
    with hook_harness() as harness:
        harness.run(program(f"open({str(tmp_path / 'ran')!r}, 'w')"), seconds=0)
        assert harness.failure() == NO_TIME_LEFT
    assert not (tmp_path / "ran").exists()


def test_deadlines_use_the_callers_clock() -> None:
    """Deadlines are measured from the given `now`."""
    failures: list[str] = []
    over = threading.Event()

    def ended(event: str, phase: Phase, hook: str, failed: str) -> None:
        failures.append(failed)
        over.set()

    now = datetime(2001, 1, 1, tzinfo=UTC)
    hooks = HookRunner("vm-1", ended, lambda: now)
    hooks.run(RunHook(program(""), Phase.SCHEDULED, EVENT, now + timedelta(seconds=LIMIT_SECONDS)))
    assert over.wait(LIMIT_SECONDS)
    hooks.close()
    assert failures == [""]


@pytest.mark.spec("G4")
def test_hooks_run_concurrently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty hooks that wait for each other all end."""
    code = f"{HERE}\nassert here().recv(1) == b'g'"
    with listening_server(monkeypatch) as server, hook_harness() as harness:
        for number in range(20):
            harness.run(program(code, f"hook {number}"))
        processes = [accept_process(server) for _ in range(20)]
        for process in processes:
            process.sendall(b"g")
            process.close()
        names = {name for _, _, name, failed in harness.results() if not failed}
    assert names == {f"hook {number}" for number in range(20)}


def test_a_hook_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the named hook stops, with its event id in any case; the others continue."""
    code = f"{HERE}\nhere().recv(1)"
    with listening_server(monkeypatch) as server, hook_harness() as harness:
        harness.run(program(code))
        process = accept_process(server)
        harness.run(program(code, "other"))
        other = accept_process(server)
        for stop in (
            StopHook(EVENT.id, Phase.STARTED, "main"),
            StopHook("another", Phase.SCHEDULED, "main"),
            StopHook(EVENT.id, Phase.SCHEDULED, "unknown"),
            StopHook(EVENT.id.lower(), Phase.SCHEDULED, "main"),
        ):
            harness.hooks.stop(stop)
        assert gone(process)
        other.sendall(b"x")
        assert {(name, failed) for _, _, name, failed in harness.results()} == {
            ("main", STOPPED),
            ("other", ""),
        }
        process.close()
        other.close()


def test_closing_stops_all_hooks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Even those that ignore signals; no new hook starts."""
    code = f"{HERE}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nhere().recv(1)"
    with listening_server(monkeypatch) as server, hook_harness() as harness:
        for number in range(3):
            harness.run(program(code, f"hook {number}"))
        processes = [accept_process(server) for _ in range(3)]
        harness.hooks.close()
        assert [failed for *_, failed in harness._results] == [STOPPED] * 3
        assert all(map(gone, processes))
        for connection in processes:
            connection.close()
        harness.run(program(f"open({str(tmp_path / 'ran')!r}, 'w')"))
        assert [failed for *_, failed in harness.results()] == [STOPPED] * 4
    assert not (tmp_path / "ran").exists()


def test_each_end_is_reported_once() -> None:
    """Even if a program exits just at its deadline, or while it is being stopped."""
    with hook_harness() as harness:
        for number in range(12):
            code = f"import time; time.sleep({0.6 + number / 100})"
            harness.run(program(code, f"hook {number}"), seconds=0.9)
        for number in range(6):
            harness.hooks.stop(StopHook(EVENT.id, Phase.SCHEDULED, f"hook {number}"))
            harness.hooks.stop(StopHook(EVENT.id, Phase.SCHEDULED, f"hook {number}"))
        names = [name for _, _, name, _ in harness.results()]
    assert sorted(names) == sorted(f"hook {number}" for number in range(12))


def test_a_failing_callback(caplog: pytest.LogCaptureFixture) -> None:
    """The exception is logged, and the hook counts as ended."""

    def ended(*result: object) -> None:
        raise OSError("no space left")

    hooks = HookRunner("vm-1", ended)
    hooks.run(
        RunHook(
            program(""),
            Phase.SCHEDULED,
            EVENT,
            datetime.now(UTC) + timedelta(seconds=LIMIT_SECONDS),
        )
    )
    with hooks._changed:
        assert hooks._changed.wait_for(lambda: not hooks._running, LIMIT_SECONDS)
    hooks.close()
    assert "reporting the end of hook" in caplog.text


@pytest.mark.parametrize("after", range(4))
def test_a_hook_fails_without_threads(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The failure is reported like any other, and no file stays open."""
    start, started = threading.Thread.start, 0

    def refuse(thread: threading.Thread) -> None:
        nonlocal started
        started += 1
        if started > after:
            raise RuntimeError("can't start new thread")
        start(thread)

    before = descriptors()
    with hook_harness() as harness:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        harness.run(program(""))
        assert harness.failure().endswith("can't start new thread")
        monkeypatch.undo()
    assert descriptors() <= before


def test_output_of_a_failed_hook_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its last lines are prefixed, so that none can imitate a log line."""
    caplog.set_level("INFO", module.__name__)
    with hook_harness() as harness:
        harness.run(program("print('ERROR forged\\n\\x1b[2Jtwo'); raise SystemExit(1)"))
        assert harness.failure() == "exit code 1: [2Jtwo"
    begun, ended = (record.getMessage() for record in caplog.records)
    assert begun.startswith(f"hook main (event {EVENT.id}, scheduled) starts, deadline 2")
    assert ended.endswith(" s: exit code 1: [2Jtwo\n  | ERROR forged\n  | [2Jtwo")


def test_output_of_a_successful_hook_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its last lines, as for a failed one."""
    caplog.set_level("INFO", module.__name__)
    with hook_harness() as harness:
        harness.run(program("print(*range(30), sep='\\n')"))
        assert harness.failure() == ""
    ended = caplog.messages[-1].splitlines()
    assert ended[0].endswith(" s")
    assert ended[1:] == [f"  | {number}" for number in range(10, 30)]


@pytest.mark.spec("G4")
@pytest.mark.parametrize(("code", "result"), [(0, "is done after"), (3, "failed after")])
def test_output_of_the_last_run_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, result: str
) -> None:
    """All of it, in a file of the state folder that the log names."""
    caplog.set_level("INFO", module.__name__)
    path = tmp_path / "output" / "main-scheduled.log"
    for text in ("earlier " * 100, "h\u00fc\x1b"):
        with hook_harness(tmp_path) as harness:
            harness.run(program(f"print({text!r}, *range(99)); raise SystemExit({code})"))
            harness.results()
    head, *lines = path.read_text("utf-8").splitlines()
    assert head.startswith(f"# hook main (event {EVENT.id}, scheduled) {result} ")
    assert lines == [" ".join(map(str, ("h\u00fc\x1b", *range(99))))]
    assert path.stat().st_mode & 0o077 == path.parent.stat().st_mode & 0o077 == 0
    assert f"; output: {path}\n  | " in caplog.messages[-1]


def test_kept_output_is_bounded(tmp_path: Path) -> None:
    """The end of a flood, even of bytes that are no text, takes 64 KiB."""
    flood = "import os\nfor _ in range(99): os.write(1, b'\\xff' * 9999)\nos.write(1, b'end')"
    with hook_harness(tmp_path) as harness:
        harness.run(program(flood))
        harness.results()
    content = (tmp_path / "output" / "main-scheduled.log").read_bytes()
    assert content.startswith(b"# hook main ")
    assert content.endswith(b"end")
    assert len(content) <= KEPT_BYTES


@pytest.mark.parametrize(
    "name", ["../../x", ".", "a/b", "\u00fc\ud800", "x" * 5000, "tell the team"]
)
def test_no_name_of_a_hook_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """Names are quoted and shortened."""
    with hook_harness(tmp_path / "state") as harness:
        harness.run(program("print(1)", name))
        harness.results()
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    (kept,) = (tmp_path / "state" / "output").iterdir()
    assert kept.read_text("utf-8").endswith("\n1\n")


def test_output_that_cannot_be_kept_fails_no_hook(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full, or the folder is not a folder."""
    (tmp_path / "output").write_text("", "utf-8")
    with hook_harness(tmp_path) as harness:
        harness.run(program("print(1)"))
        assert harness.failure() == ""
    assert "cannot keep the output of hook main in" in caplog.text


# --- HTTP -----------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Sends given responses and records requests; the last response repeats."""

    daemon_threads = True

    def __init__(self, *responses: tuple[int, dict[str, str]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.responses = list(responses)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.holding = threading.Semaphore(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?key=1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        """Send the next response."""
        server = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.requests.append((self.path, dict(self.headers), body))
        status, headers = server.responses.pop(0) if server.responses[1:] else server.responses[0]
        if status == 0:
            server.holding.release()
            self.rfile.read(1)  # until the other side is gone
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do nothing: requests are recorded."""


@contextmanager
def serving(*responses: tuple[int, dict[str, str]]) -> Iterator[Server]:
    """Run a server with these responses."""
    with Server(*responses) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def posting(url: str) -> HookSettings:
    """Return a hook that sends a request."""
    return HookSettings("main", Phase.SCHEDULED, HookKind.URL, url=url)


@pytest.mark.spec("G4")
@pytest.mark.parametrize("status", [200, 202, 204])
def test_input_of_a_request(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """It is a POST of the JSON that programs get; proxies are ignored."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving((status, {})) as server, hook_harness() as harness:
        run = harness.run(posting(server.url))
        assert harness.failure() == ""
        ((path, headers, body),) = server.requests
    assert path == "/hook?key=1"
    assert headers["Content-Type"] == "application/json"
    assert headers["Fairwarning-Event"] == EVENT.id
    assert json.loads(body) == work.describe(run, "vm-1")


def test_credentials_of_a_url(caplog: pytest.LogCaptureFixture) -> None:
    """They are sent as a header, and never logged."""
    caplog.set_level("DEBUG")
    with serving((401, {})) as server, hook_harness() as harness:
        url = f"http://me:s%65cret@127.0.0.1:{server.server_port}/a \u00fc"
        (hook,) = parse(f'[[hook]]\nname = "tell"\nphase = "scheduled"\nurl = "{url}"').hooks
        harness.run(hook)
        assert "401" in harness.failure()
        ((path, headers, _),) = server.requests
    assert path == "/a%20%C3%BC"
    assert headers["Authorization"] == "Basic bWU6c2VjcmV0"
    assert "secret" not in caplog.text + repr(hook)
    assert "bWU6" not in caplog.text + repr(hook)


def test_a_request_is_retried_after_transient_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is down, overloaded or broken for a while gets the same request again."""
    monkeypatch.setattr(hook_request, "FIRST_PAUSE_SECONDS", 0.01)
    responses: list[tuple[int, dict[str, str]]] = [
        (500, {}),
        (503, {}),
        (429, {"Retry-After": "0"}),
    ]
    with serving(*responses, (200, {})) as server, hook_harness() as harness:
        harness.run(posting(server.url))
        assert harness.failure() == ""
        assert len(server.requests) == 4
        assert len({body for _, _, body in server.requests}) == 1


def test_a_request_without_a_response_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there is one; its body does not matter."""
    monkeypatch.setattr(hook_request, "FIRST_PAUSE_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as hangs_up, hook_harness() as harness:
        hangs_up.settimeout(LIMIT_SECONDS)
        harness.run(posting(f"http://127.0.0.1:{hangs_up.getsockname()[1]}"))
        for _ in range(2):
            hangs_up.accept()[0].close()
        with hangs_up.accept()[0] as process:
            process.settimeout(LIMIT_SECONDS)
            assert process.recv(2**16).startswith(b"POST / HTTP/1.1\r\n")
            process.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")  # the rest is missing
            assert harness.failure() == ""


@pytest.mark.parametrize(
    ("status", "headers", "failed"),
    [
        (302, {"Location": "/elsewhere"}, "the response was 302 Found"),
        (308, {"Location": "/elsewhere"}, "the response was 308 Permanent Redirect"),
        (400, {}, "the response was 400 Bad Request"),
        (404, {}, "the response was 404 Not Found"),
    ],
)
def test_a_refused_request_fails(status: int, headers: dict[str, str], failed: str) -> None:
    """At once; a redirect counts as a refusal."""
    with serving((status, headers)) as server, hook_harness() as harness:
        harness.run(posting(server.url))
        assert harness.failure() == failed
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("length", "body", "failed"),
    [
        (15, b"invalid_payload", ": invalid_payload"),
        (99, b"cut \xff off", ": cut \ufffd off"),
        (10**9, b"x" * 400, ": " + "x" * (300 - len("the response was 400 No: "))),
        (99, b"", ""),
    ],
)
def test_the_body_of_a_refusal_is_output(
    monkeypatch: pytest.MonkeyPatch, length: int, body: bytes, failed: str
) -> None:
    """As far as it arrives: it often says what is wrong."""
    monkeypatch.setattr(hook_request, "_BODY_SECONDS", 0.2 if not body else LIMIT_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as server, hook_harness() as harness:
        server.settimeout(LIMIT_SECONDS)
        harness.run(posting(f"http://127.0.0.1:{server.getsockname()[1]}"))
        with server.accept()[0] as process:
            process.recv(2**16)
            head = f"HTTP/1.1 400 No\r\nContent-Length: {length}\r\n\r\n"
            process.sendall(head.encode() + body)
            assert harness.failure() == f"the response was 400 No{failed}"


@pytest.mark.parametrize(
    "url", ["http://", "http:///x", "http://host:port/", "http://host/a b", "http://[::1/", "http://h/\u00fc"]
)  # fmt: skip
def test_an_invalid_url_fails_at_once(url: str) -> None:
    """There is nothing to retry."""
    with hook_harness() as harness:
        harness.run(posting(url))
        assert harness.failure().startswith("the URL is invalid: ")


def test_https_needs_a_valid_server() -> None:
    """A server without TLS is retried until the deadline."""
    with serving((200, {})) as server, hook_harness() as harness:
        harness.run(posting(server.url.replace("http:", "https:")), seconds=5)
        assert harness.failure().startswith(f"{OUT_OF_TIME}: there was no response: ")
        assert server.requests == []


def test_a_request_has_a_deadline() -> None:
    """Without a response, and with failures only."""
    with serving((0, {})) as silent, serving((500, {})) as broken, hook_harness() as harness:
        began = time.monotonic()
        harness.run(posting(silent.url), seconds=5)
        harness.run(posting(broken.url), seconds=5)
        failures = {failed for *_, failed in harness.results()}
        assert failures == {
            OUT_OF_TIME,
            f"{OUT_OF_TIME}: the response was 500 Internal Server Error",
        }
        assert time.monotonic() - began < 5 + SOON_SECONDS


def test_no_request_is_sent_after_the_hook_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name server answers late."""
    connect, ended = http.client.HTTPConnection.connect, threading.Event()

    def late(connection: http.client.HTTPConnection) -> None:
        assert ended.wait(LIMIT_SECONDS)
        connect(connection)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", late)
    with serving((200, {})) as server, hook_harness() as harness:
        harness.run(posting(server.url), seconds=0.2)
        assert harness.failure().startswith(OUT_OF_TIME)
        ended.set()
        for thread in threading.enumerate():
            if thread.name.startswith("work of hook"):
                thread.join(LIMIT_SECONDS)
        assert server.requests == []


def test_a_request_can_be_stopped() -> None:
    """While it waits for a response, and while it waits for a retry."""
    with serving((0, {})) as silent, hook_harness() as harness:
        run = harness.run(posting(silent.url))
        assert silent.holding.acquire(timeout=LIMIT_SECONDS)
        harness.hooks.stop(StopHook(EVENT.id, run.phase, "main"))
        assert harness.failure() == STOPPED
    with serving((429, {"Retry-After": "300"})) as busy, hook_harness() as harness:
        harness.run(posting(busy.url))
        harness.hooks.close()
        assert harness.failure().startswith(STOPPED)


# --- Python functions -----------------------------------------------------------------------------

CALLS: list[tuple[object, ...]] = []
RELEASED = threading.Event()


def note(*arguments: object) -> str:
    """Record the arguments; the return value is ignored."""
    CALLS.append(arguments)
    return "ignored"


def fail(*_: object) -> None:
    """Raise an error."""
    raise KeyError("two\nlines")


def leave(*_: object) -> None:
    """Raise SystemExit, which must not end the agent."""
    sys.exit("bye")


def hang(*_: object) -> None:
    """Block until the test releases it."""
    assert RELEASED.wait(LIMIT_SECONDS)


async def asynchronous(*_: object) -> None:
    """An async function, which would never run."""


def calling(name: str, module: str = __name__) -> HookSettings:
    """Return a hook that calls a function of this file."""
    return HookSettings("main", Phase.SCHEDULED, HookKind.CALL, call=f"{module}:{name}")


@pytest.mark.spec("G4")
def test_input_of_a_function() -> None:
    """The event, the phase, the deadline, and whether it was cancelled."""
    CALLS.clear()
    with hook_harness() as harness:
        run = harness.run(calling("note"), cancelled=True)
        assert harness.failure() == ""
    assert CALLS == [(EVENT, Phase.SCHEDULED, run.deadline, True)]


@pytest.mark.parametrize(
    ("hook", "failed"),
    [
        (calling("fail"), "raised an error: KeyError: 'two\\nlines'"),
        (calling("leave"), "raised an error: SystemExit: bye"),
        (calling("asynchronous"), "is an async function"),
        (calling("missing"), "raised an error: AttributeError: module"),
        (
            calling("main", "no.such.module"),
            "raised an error: ModuleNotFoundError: No module named",
        ),
    ],
)
def test_a_failing_function(hook: HookSettings, failed: str) -> None:
    """The failure has the error's text."""
    with hook_harness() as harness:
        harness.run(hook)
        assert harness.failure().startswith(failed)


def test_a_late_function() -> None:
    """It cannot be stopped; its hook fails in time."""
    RELEASED.clear()
    with hook_harness() as harness:
        began = time.monotonic()
        harness.run(calling("hang"), seconds=0.3)
        assert harness.failure() == OUT_OF_TIME
        assert 0.3 <= time.monotonic() - began < 2 * SOON_SECONDS
        RELEASED.set()
