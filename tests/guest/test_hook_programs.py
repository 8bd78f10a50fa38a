"""Hooks that are programs, and misbehave in every way."""

import json
import os
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from fairwarning.guest.agent.actions import StopHook
from fairwarning.guest.agent.config import HookKind, HookSettings
from fairwarning.guest.agent.event_state import OUT_OF_TIME
from fairwarning.guest.agent.hook_processes import KILLED_SECONDS
from fairwarning.guest.agent.hooks import STOPPED
from fairwarning.guest.events import Event, Phase
from tests.fixtures.waiting import on_this_machine
from tests.guest.hook_harness import EVENT, hook_harness
from tests.guest.hook_programs import (
    HERE,
    accept_process,
    accept_processes,
    descriptors,
    gone,
    listening_server,
    program,
)


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
    assert 2.0 <= took < on_this_machine(3 + KILLED_SECONDS)


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
