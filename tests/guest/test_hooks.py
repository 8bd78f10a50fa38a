"""Hooks are real programs, servers and functions here, and they behave as badly as they can."""

import gc
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

from fairwarning.guest.agent import hooks as module
from fairwarning.guest.agent import work
from fairwarning.guest.agent.config import HookKind, HookSettings
from fairwarning.guest.agent.hooks import NO_TIME_LEFT, OUT_OF_TIME, STOPPED, HookRunner
from fairwarning.guest.agent.plan import RunHook, StopHook
from fairwarning.guest.events import Event, EventSource, EventStatus, EventType
from fairwarning.guest.watch import EventPhase
from tests.fixtures.waiting import LIMIT_SECONDS

SOON_SECONDS = 5.0  # in which a busy machine starts and ends a process

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

# Tells the test, over a connection that lasts as long as the process, that it is there.
HERE = """
import os, signal, socket, sys, time
def here(who=b"h"):
    there = socket.create_connection(("127.0.0.1", int(os.environ["PORT_OF_TEST"])))
    there.sendall(who)
    return there
"""

HookResult = tuple[str, EventPhase, str, str]


class HookHarness:
    """Hooks, and a list of the ends that they told."""

    def __init__(self) -> None:
        self._results: list[HookResult] = []
        self._changed = threading.Condition()
        self.hooks = HookRunner("vm-1", self._ended)
        self._runs = 0

    def _ended(self, event: str, phase: EventPhase, hook: str, failed: str) -> None:
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
        """Ask for a hook."""
        deadline = datetime.now(UTC) + timedelta(seconds=seconds)
        run = RunHook(hook, hook.phase, event, deadline, cancelled)
        self._runs += 1
        self.hooks.run(run)
        return run

    def results(self) -> list[HookResult]:
        """The ends of all that was asked for."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._results) >= self._runs, LIMIT_SECONDS)
            return list(self._results)

    def failure(self) -> str:
        """Why the only hook failed."""
        ((event, phase, _, failed),) = self.results()
        assert (event, phase) == (EVENT.id, EventPhase.SCHEDULED)
        return failed


@contextmanager
def hook_harness() -> Iterator[HookHarness]:
    """Nothing that belongs to a hook is left afterwards, and each end was told once."""
    harness = HookHarness()
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
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Where hooks that say `here()` arrive."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        server.settimeout(LIMIT_SECONDS)
        monkeypatch.setenv("PORT_OF_TEST", str(server.getsockname()[1]))
        yield server


def arrival(server: socket.socket) -> socket.socket:
    """A process that says it is there."""
    return arrivals(server, 1)[b"h"][0]


def arrivals(server: socket.socket, count: int) -> dict[bytes, list[socket.socket]]:
    """So many processes, by what they say they are."""
    found: dict[bytes, list[socket.socket]] = {}
    for _ in range(count):
        there, _ = server.accept()
        there.settimeout(LIMIT_SECONDS)
        found.setdefault(there.recv(1), []).append(there)
    return found


def gone(there: socket.socket) -> bool:
    """Whether that process is no more."""
    try:
        return there.recv(1) == b""
    except ConnectionResetError:
        return True


def program(code: str, name: str = "it") -> HookSettings:
    """A hook that is a Python program."""
    command = (sys.executable, "-S", "-E", "-c", code)
    return HookSettings(name, EventPhase.SCHEDULED, HookKind.COMMAND, command=command)


def descriptors() -> int:
    """How many files this process has open, without what an earlier test has left to collect."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


# --- Programs -------------------------------------------------------------------------------------


@pytest.mark.spec("G4")
def test_a_program_is_told_of_the_event(tmp_path: Path) -> None:
    """It finds the event in its environment and as JSON on its stdin: the same one (IG2)."""
    code = f"""
import json, os, sys
told = {{"stdin": json.load(sys.stdin), "environment": dict(os.environ)}}
open({str(tmp_path / "told")!r}, "w").write(json.dumps(told))
"""
    with hook_harness() as harness:
        run = harness.run(program(code), cancelled=True)
        assert harness.failure() == ""
    told = json.loads((tmp_path / "told").read_text())
    deadline = run.deadline.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert told["stdin"] == {
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
    }
    ours = {
        name.removeprefix("FAIRWARNING_"): value
        for name, value in told["environment"].items()
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
    }
    assert told["environment"]["PATH"] == os.environ["PATH"]


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
def test_how_a_program_ended_is_told(code: str, failed: str) -> None:
    """In one line: its exit code or signal, and the last that it said."""
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
    """The reason names the program and what is wrong with it."""
    if os.geteuid() == 0 and name == "a file":
        (tmp_path / name).mkdir()  # root may run any file
    else:
        (tmp_path / "a file").touch(0o600)
    (tmp_path / "a program").write_bytes(b"\x7fnothing that runs")
    (tmp_path / "a program").chmod(0o700)
    path = str(tmp_path / name)
    before = descriptors()
    with hook_harness() as harness:
        harness.run(HookSettings("it", EventPhase.SCHEDULED, HookKind.COMMAND, command=(path,)))
        assert harness.failure() == failed + path
    assert descriptors() <= before


def test_odd_events_do_not_keep_a_program_from_running() -> None:
    """Whatever an endpoint writes into an event, and however much, the hook runs."""
    odd = Event(
        id="a\0b\n\ud800",
        type="New\0Type",
        status="Scheduled",
        resources=tuple(f"a-rather-long-name-{number:06}" for number in range(50_000)),
        description="\0" * 500_000,
    )
    code = """
import json, os, sys
it = json.load(sys.stdin)
names = os.environ["FAIRWARNING_RESOURCES"].split(",")
assert it["EventId"] == "a\\0b\\n\\ud800" and len(it["Resources"]) == 50_000
assert len(names) > 1_000 and set(names) <= set(it["Resources"])
assert os.environ["FAIRWARNING_EVENT_ID"] == "a?b\\n?"
"""
    with hook_harness() as harness:
        harness.run(program(code), event=odd)
        assert harness.results() == [(odd.id, EventPhase.SCHEDULED, "it", "")]


def test_a_flood_of_output_is_passed_over() -> None:
    """A hook that writes hundreds of megabytes is not held up; the end of it is kept, no more."""
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


def test_a_flood_that_never_ends_is_ended_in_time() -> None:
    """Also while it writes without pause, a hook has its deadline."""
    with hook_harness() as harness:
        began = time.monotonic()
        harness.run(program("import os\nwhile True: os.write(1, b'lava\\n' * 9_999)"), seconds=2)
        assert harness.failure().startswith(f"{OUT_OF_TIME}: l")
        assert time.monotonic() - began < 2 + SOON_SECONDS


def test_children_that_a_program_leaves_behind_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold its pipes, and ignore signals; the hook is over when the program is."""
    code = f"""{HERE}
if os.fork() == 0:
    for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
    os.fork()
    there = here(b"c")
    while True: time.sleep(1000)
here().recv(1)
"""
    with listening(monkeypatch) as server, hook_harness() as harness:
        harness.run(program(code))
        found = arrivals(server, 3)
        (main,) = found[b"h"]
        main.sendall(b"x")
        assert harness.failure() == ""
        assert [gone(child) for child in found[b"c"]] == [True, True]
        for there in (main, *found[b"c"]):
            there.close()


def test_a_service_that_a_program_starts_does_not_keep_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """What left the group lives on with our pipes in its hands; nothing of ours waits for it."""
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
    with listening(monkeypatch) as server:
        with hook_harness() as harness:
            harness.run(program(code), event=large)
            found = arrivals(server, 2)
            (main,), (service,) = found[b"h"], found[b"s"]
            main.sendall(b"x")
            assert harness.failure() == "exit code 1: the end"
        service.setblocking(False)
        with pytest.raises(BlockingIOError):
            service.recv(1)  # it lives
        main.close()
        service.close()
    assert descriptors() <= before


def test_a_service_that_floods_does_not_keep_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program left behind may write for ever: the hook is over, and so is our reading."""
    code = f"""{HERE}
if os.fork() == 0:
    os.setsid()
    there = here(b"s")
    while True: os.write(1, b"x" * 65_536)
here().recv(1)
"""
    with listening(monkeypatch) as server, hook_harness() as harness:
        harness.run(program(code))
        found = arrivals(server, 2)
        found[b"h"][0].sendall(b"x")
        assert harness.failure() == ""
        assert gone(found[b"s"][0])  # nobody reads what it writes
        for there in (*found[b"h"], *found[b"s"]):
            there.close()


@pytest.mark.parametrize("size", [10, 8 * 2**20])
def test_a_program_need_not_read_its_stdin(size: int) -> None:
    """However long the event is; what is left of it is thrown away."""
    large = replace(EVENT, description="x" * size)
    before = descriptors()
    with hook_harness() as harness:
        harness.run(program("import os; os.close(0)"), event=large)
        harness.run(program("import sys; sys.stdin.read(5)"), event=large)
        harness.run(program("import sys; assert len(sys.stdin.read()) > " + str(size)), event=large)
        assert {failed for *_, failed in harness.results()} == {""}
    assert descriptors() <= before


@pytest.mark.spec("G4")
def test_a_program_that_does_not_end_is_ended_in_time() -> None:
    """IG4: it is asked a little before the deadline, and killed at it; with all that it started."""
    code = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: print("asked at", time.time(), flush=True))
os.fork()
while True: time.sleep(1000)
"""
    with hook_harness() as harness:
        began = time.monotonic()
        run = harness.run(program(code), seconds=3)
        failed = harness.failure()
        took = time.monotonic() - began
    assert failed.startswith(f"{OUT_OF_TIME}: asked at")
    assert float(failed.rpartition(" ")[2]) < run.deadline.timestamp()
    assert 2.0 <= took < 3 + work.KILLED_SECONDS


def test_a_program_that_is_asked_to_end_may_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its grace; that it then ends well makes it no success."""
    code = f"""{HERE}
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
here()
signal.sigwait([signal.SIGTERM])
print("cleaned")
"""
    with listening(monkeypatch) as server, hook_harness() as harness:
        run = harness.run(program(code))
        arrival(server).close()
        harness.hooks.stop(StopHook(EVENT.id, run.phase, "it"))
        assert harness.failure() == f"{STOPPED}: cleaned"


def test_nothing_is_started_when_no_time_is_left(tmp_path: Path) -> None:
    """A hook whose deadline has passed fails as it is."""
    with hook_harness() as harness:
        harness.run(program(f"open({str(tmp_path / 'ran')!r}, 'w')"), seconds=0)
        assert harness.failure() == NO_TIME_LEFT
    assert not (tmp_path / "ran").exists()


def test_the_clock_that_counts_is_the_callers() -> None:
    """Deadlines are measured from the `now` that was given."""
    told: list[str] = []
    over = threading.Event()

    def ended(event: str, phase: EventPhase, hook: str, failed: str) -> None:
        told.append(failed)
        over.set()

    now = datetime(2001, 1, 1, tzinfo=UTC)
    hooks = HookRunner("vm-1", ended, lambda: now)
    hooks.run(
        RunHook(program(""), EventPhase.SCHEDULED, EVENT, now + timedelta(seconds=LIMIT_SECONDS))
    )
    assert over.wait(LIMIT_SECONDS)
    hooks.close()
    assert told == [""]


@pytest.mark.spec("G4")
def test_hooks_run_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty that wait for each other all come to an end."""
    code = f"{HERE}\nassert here().recv(1) == b'g'"
    with listening(monkeypatch) as server, hook_harness() as harness:
        for number in range(20):
            harness.run(program(code, f"hook {number}"))
        all_of_them = [arrival(server) for _ in range(20)]
        for there in all_of_them:
            there.sendall(b"g")
            there.close()
        names = {name for _, _, name, failed in harness.results() if not failed}
    assert names == {f"hook {number}" for number in range(20)}


def test_a_hook_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is named, whatever the case of the event's id; the others run on."""
    code = f"{HERE}\nhere().recv(1)"
    with listening(monkeypatch) as server, hook_harness() as harness:
        harness.run(program(code))
        there = arrival(server)
        harness.run(program(code, "other"))
        other = arrival(server)
        for stop in (
            StopHook(EVENT.id, EventPhase.STARTED, "it"),
            StopHook("another", EventPhase.SCHEDULED, "it"),
            StopHook(EVENT.id, EventPhase.SCHEDULED, "unknown"),
            StopHook(EVENT.id.lower(), EventPhase.SCHEDULED, "it"),
        ):
            harness.hooks.stop(stop)
        assert gone(there)
        other.sendall(b"x")
        assert {(name, failed) for _, _, name, failed in harness.results()} == {
            ("it", STOPPED),
            ("other", ""),
        }
        there.close()
        other.close()


def test_closing_ends_all_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also those that ignore to be asked; and nothing is started from then on."""
    code = f"{HERE}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nhere().recv(1)"
    with listening(monkeypatch) as server, hook_harness() as harness:
        for number in range(3):
            harness.run(program(code, f"hook {number}"))
        there = [arrival(server) for _ in range(3)]
        harness.hooks.close()
        assert [failed for *_, failed in harness._results] == [STOPPED] * 3
        assert all(map(gone, there))
        for one in there:
            one.close()
        harness.run(program(f"open({str(tmp_path / 'ran')!r}, 'w')"))
        assert [failed for *_, failed in harness.results()] == [STOPPED] * 4
    assert not (tmp_path / "ran").exists()


def test_each_end_is_told_once() -> None:
    """Also when a program ends by itself just when its time is up, or it is being stopped."""
    with hook_harness() as harness:
        for number in range(12):
            code = f"import time; time.sleep({0.6 + number / 100})"
            harness.run(program(code, f"hook {number}"), seconds=0.9)
        for number in range(6):
            harness.hooks.stop(StopHook(EVENT.id, EventPhase.SCHEDULED, f"hook {number}"))
            harness.hooks.stop(StopHook(EVENT.id, EventPhase.SCHEDULED, f"hook {number}"))
        names = [name for _, _, name, _ in harness.results()]
    assert sorted(names) == sorted(f"hook {number}" for number in range(12))


def test_a_listener_that_fails_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """The trouble is logged, and the hook counts as ended."""

    def ended(*told: object) -> None:
        raise OSError("no space left")

    hooks = HookRunner("vm-1", ended)
    hooks.run(
        RunHook(
            program(""),
            EventPhase.SCHEDULED,
            EVENT,
            datetime.now(UTC) + timedelta(seconds=LIMIT_SECONDS),
        )
    )
    with hooks._changed:
        assert hooks._changed.wait_for(lambda: not hooks._running, LIMIT_SECONDS)
    hooks.close()
    assert "reporting the end of hook" in caplog.text


@pytest.mark.parametrize("after", range(4))
def test_a_system_out_of_threads_fails_a_hook(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """It is told as every other end is, and nothing stays open."""
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


def test_what_a_hook_said_is_logged_when_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Its last lines, each marked as its own, so that none can pass for another line of the log."""
    caplog.set_level("INFO", module.__name__)
    with hook_harness() as harness:
        harness.run(program("print('ERROR forged\\n\\x1b[2Jtwo'); raise SystemExit(1)"))
        assert harness.failure() == "exit code 1: [2Jtwo"
    begun, ended = (record.getMessage() for record in caplog.records)
    assert begun.startswith(f"hook it (event {EVENT.id}, scheduled) starts, deadline 2")
    assert ended.endswith(" s: exit code 1: [2Jtwo\n  | ERROR forged\n  | [2Jtwo")


# --- HTTP -----------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Answers as it was told to, and keeps what it was sent; the last answer is for ever."""

    daemon_threads = True

    def __init__(self, *answers: tuple[int, dict[str, str]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.holding = threading.Semaphore(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?key=1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        """Answer."""
        server = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.asked.append((self.path, dict(self.headers), body))
        status, headers = server.answers.pop(0) if server.answers[1:] else server.answers[0]
        if status == 0:
            server.holding.release()
            self.rfile.read(1)  # until the other side is gone
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the test says what was asked."""


@contextmanager
def serving(*answers: tuple[int, dict[str, str]]) -> Iterator[Server]:
    """A server that answers so."""
    with Server(*answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def posting(url: str) -> HookSettings:
    """A hook that is a request."""
    return HookSettings("it", EventPhase.SCHEDULED, HookKind.URL, url=url)


@pytest.mark.spec("G4")
@pytest.mark.parametrize("status", [200, 202, 204])
def test_a_request_is_told_of_the_event(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """It is a POST of the JSON that programs get; proxies are for others."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving((status, {})) as server, hook_harness() as harness:
        run = harness.run(posting(server.url))
        assert harness.failure() == ""
        ((path, headers, body),) = server.asked
    assert path == "/hook?key=1"
    assert headers["Content-Type"] == "application/json"
    assert headers["Fairwarning-Event"] == EVENT.id
    assert json.loads(body) == work.describe(run, "vm-1")


def test_a_request_is_sent_again_while_trouble_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is down, overloaded or broken for a while gets the same request once more."""
    monkeypatch.setattr(work, "FIRST_PAUSE_SECONDS", 0.01)
    answers: list[tuple[int, dict[str, str]]] = [(500, {}), (503, {}), (429, {"Retry-After": "0"})]
    with serving(*answers, (200, {})) as server, hook_harness() as harness:
        harness.run(posting(server.url))
        assert harness.failure() == ""
        assert len(server.asked) == 4
        assert len({body for _, _, body in server.asked}) == 1


def test_a_request_is_sent_again_when_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there is one; what it says does not matter."""
    monkeypatch.setattr(work, "FIRST_PAUSE_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as hangs_up, hook_harness() as harness:
        hangs_up.settimeout(LIMIT_SECONDS)
        harness.run(posting(f"http://127.0.0.1:{hangs_up.getsockname()[1]}"))
        for _ in range(2):
            hangs_up.accept()[0].close()
        with hangs_up.accept()[0] as there:
            there.settimeout(LIMIT_SECONDS)
            assert there.recv(2**16).startswith(b"POST / HTTP/1.1\r\n")
            there.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")  # the rest is missing
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
def test_a_request_that_is_refused_fails(status: int, headers: dict[str, str], failed: str) -> None:
    """At once; to be sent elsewhere is to be refused."""
    with serving((status, headers)) as server, hook_harness() as harness:
        harness.run(posting(server.url))
        assert harness.failure() == failed
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "url", ["http://", "http:///x", "http://host:port/", "http://host/a b", "http://[::1/", "http://h/\u00fc"]
)  # fmt: skip
def test_a_url_that_is_none_fails_at_once(url: str) -> None:
    """There is nobody to ask."""
    with hook_harness() as harness:
        harness.run(posting(url))
        assert harness.failure().startswith("the URL is invalid: ")


def test_a_server_must_prove_who_it_is() -> None:
    """With https, something that speaks no TLS is no server, and is asked again until the end."""
    with serving((200, {})) as server, hook_harness() as harness:
        harness.run(posting(server.url.replace("http:", "https:")), seconds=1.5)
        assert harness.failure().startswith(f"{OUT_OF_TIME}: there was no response: ")
        assert server.asked == []


def test_a_request_has_a_deadline() -> None:
    """Also one that is never answered, and one that is answered with trouble only."""
    with serving((0, {})) as silent, serving((500, {})) as broken, hook_harness() as harness:
        began = time.monotonic()
        harness.run(posting(silent.url), seconds=1)
        harness.run(posting(broken.url), seconds=1)
        failures = {failed for *_, failed in harness.results()}
        assert failures == {
            OUT_OF_TIME,
            f"{OUT_OF_TIME}: the response was 500 Internal Server Error",
        }
        assert time.monotonic() - began < 1 + SOON_SECONDS


def test_a_request_can_be_stopped() -> None:
    """While it waits for its answer, and while it waits to be sent again."""
    with serving((0, {})) as silent, hook_harness() as harness:
        run = harness.run(posting(silent.url))
        assert silent.holding.acquire(timeout=LIMIT_SECONDS)
        harness.hooks.stop(StopHook(EVENT.id, run.phase, "it"))
        assert harness.failure() == STOPPED
    with serving((429, {"Retry-After": "300"})) as busy, hook_harness() as harness:
        harness.run(posting(busy.url))
        harness.hooks.close()
        assert harness.failure().startswith(STOPPED)


# --- Python functions -----------------------------------------------------------------------------

CALLS: list[tuple[object, ...]] = []
RELEASED = threading.Event()


def note(*arguments: object) -> str:
    """What it returns means nothing."""
    CALLS.append(arguments)
    return "ignored"


def fail(*_: object) -> None:
    """Does not work."""
    raise KeyError("two\nlines")


def leave(*_: object) -> None:
    """Does not end the agent."""
    sys.exit("bye")


def hang(*_: object) -> None:
    """Only the test ends it."""
    assert RELEASED.wait(LIMIT_SECONDS)


async def asynchronous(*_: object) -> None:
    """Would never run."""


def calling(name: str, where: str = __name__) -> HookSettings:
    """A hook that is a function of this file."""
    return HookSettings("it", EventPhase.SCHEDULED, HookKind.CALL, call=f"{where}:{name}")


@pytest.mark.spec("G4")
def test_a_function_is_told_of_the_event() -> None:
    """Of the event, the phase, its deadline, and whether it was cancelled."""
    CALLS.clear()
    with hook_harness() as harness:
        run = harness.run(calling("note"), cancelled=True)
        assert harness.failure() == ""
    assert CALLS == [(EVENT, EventPhase.SCHEDULED, run.deadline, True)]


@pytest.mark.parametrize(
    ("hook", "failed"),
    [
        (calling("fail"), "raised an error: KeyError: 'two\\nlines'"),
        (calling("leave"), "raised an error: SystemExit: bye"),
        (calling("asynchronous"), "is an async function"),
        (calling("missing"), "raised an error: AttributeError: module"),
        (calling("it", "no.such.module"), "raised an error: ModuleNotFoundError: No module named"),
    ],
)
def test_a_function_that_fails_fails_its_hook(hook: HookSettings, failed: str) -> None:
    """The reason is the error."""
    with hook_harness() as harness:
        harness.run(hook)
        assert harness.failure().startswith(failed)


def test_a_function_that_is_late_is_left_alone() -> None:
    """It cannot be ended; its hook failed all the same, in time."""
    RELEASED.clear()
    with hook_harness() as harness:
        began = time.monotonic()
        harness.run(calling("hang"), seconds=0.3)
        assert harness.failure() == OUT_OF_TIME
        assert 0.3 <= time.monotonic() - began < 2 * SOON_SECONDS
        RELEASED.set()
