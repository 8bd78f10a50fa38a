"""The agent as a process: signals, a new configuration, its log, and its watchdog."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.log_writer import MOST_LINES, LogWriter
from tests.fixtures.http import fetch, free_port, local_url
from tests.fixtures.programs import ROOT, full_pipe
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until
from tests.guest.agents import EVERY, AgentFolder, AgentProcess, environment, one_machine
from tests.guest.double import Double

pytestmark = [
    pytest.mark.spec("G8"),
    pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs the signals of Unix"),
]


# --- Signals --------------------------------------------------------------------------------------

PAIRS = """
import os, signal, sys, threading
from pathlib import Path
from fairwarning.guest.agent.agent import Agent
from fairwarning.guest.agent.config import AgentConfig

numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
for _ in range(50):
    agent = Agent(AgentConfig(endpoint="http://127.0.0.1:1", name="a", state=Path(sys.argv[1])))
    for number in numbers[:2]:
        signal.signal(number, lambda *_: agent.stop())
    signal.signal(numbers[2], lambda *_: agent.reload())

    def send():
        for _ in range(30):
            for number in numbers:
                os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    agent.run()
    sender.join()
"""


def test_pairs_of_signals_end_the_agent(tmp_path: Path) -> None:
    """SIGTERM and SIGINT within a moment, again and again: the agent ends, and ends well."""
    done = subprocess.run(
        [sys.executable, "-c", PAIRS, str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0


def test_a_new_configuration(tmp_path: Path) -> None:
    """SIGHUP: current events get its hooks; one that is refused changes nothing."""
    with Double() as azure:
        home = AgentFolder(tmp_path / "home", azure.url)
        azure.announce("vm-1")
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: "not approved: there is no hook" in agent.output())
            home.lines = ["margin_seconds = true"]
            for reason in ("margin_seconds: must be a number", "to change name, restart the agent"):
                home.config()
                agent.process.send_signal(signal.SIGHUP)
                agent.wait_until(lambda r=reason: r in agent.output())  # type: ignore[misc]
                home.lines, home.name = [], "vm-9"
            assert agent.output().count("goes on with the old one") == 2
            home.name = ""
            home.usual_hooks()
            home.config()
            agent.process.send_signal(signal.SIGHUP)
            agent.wait_until(lambda: azure.approved)
            assert "the configuration is read again; hooks: 4" in agent.output()
            assert agent.stop() < 5
            assert agent.process.returncode == 0


# --- The log --------------------------------------------------------------------------------------


def test_a_log_that_nobody_reads_does_not_block_deciding(tmp_path: Path) -> None:
    """The event is approved, and the agent stops when told to."""
    with Double() as azure, full_pipe() as (_, write_end):
        home = AgentFolder(tmp_path / "home", azure.url)
        home.usual_hooks()
        azure.announce("vm-1")
        runner = ["tests.guest.runner", json.dumps({"every": EVERY})]
        process = subprocess.Popen(
            [sys.executable, "-m", *runner, "agent", "run", "--config", str(home.config())],
            cwd=ROOT,
            env=environment(),
            stderr=write_end,
        )
        try:
            wait_until(lambda: azure.approved)
            process.terminate()
            assert process.wait(LIMIT_SECONDS) == 0
        finally:
            process.kill()
            process.wait(LIMIT_SECONDS)


def test_lines_that_do_not_fit_are_counted() -> None:
    """The log says how many were dropped once it is read again."""
    before = agent_metrics.LOG_LINES_DROPPED.value()
    with full_pipe() as (read_end, write_end), open(write_end, "w", closefd=False) as stream:
        writer = LogWriter(stream, agent_metrics.LOG_LINES_DROPPED.add)
        for number in range(MOST_LINES + 10):
            writer.handle(logging.makeLogRecord({"msg": f"line {number}"}))
        dropped = int(agent_metrics.LOG_LINES_DROPPED.value() - before)
        assert dropped in {9, 10}  # the thread may hold one line
        text = ""
        while f"line {MOST_LINES - 1}\n" not in text or "dropped" not in text:
            text += os.read(read_end, 65536).decode()
        writer.flush()
    assert f"\n{dropped} lines of the log were dropped" in text


# --- The watchdog ---------------------------------------------------------------------------------


def test_the_watchdog_is_fed_while_the_agent_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deciding thread that hangs feeds no watchdog, and /healthz says so."""
    mark, port = tmp_path / "stalls", free_port()
    with Double() as azure, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(LIMIT_SECONDS)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        home = AgentFolder(tmp_path / "home", azure.url)
        home.hook("drain", "scheduled", f"env > {tmp_path / 'env'}")
        home.lines = [f'listen = "127.0.0.1:{port}"']
        health = local_url(port, "/healthz")
        with AgentProcess(home, stall=str(mark)) as agent:
            assert manager.recv(999) == b"READY=1\nSTATUS=watching"
            assert b"WATCHDOG=1" in manager.recv(999)
            azure.announce("vm-1")
            agent.wait_until(lambda: azure.approved)
            assert "NOTIFY_SOCKET" not in (tmp_path / "env").read_text("utf-8")
            mark.touch()
            agent.wait_until(lambda: fetch(health).status == 503)
            assert "the deciding loop has not run for" in fetch(health).json["status"]
            manager.settimeout(0)
            with suppress(BlockingIOError):
                while manager.recv(999):
                    pass
            assert fetch(health).status == 503
            with pytest.raises(BlockingIOError):
                manager.recv(999)
            mark.unlink()
            agent.wait_until(lambda: fetch(health).status == 200)
            manager.settimeout(LIMIT_SECONDS)
            assert b"WATCHDOG=1" in manager.recv(999)


@pytest.mark.spec("G4")
def test_a_port_in_use_does_not_stop_the_agent(tmp_path: Path) -> None:
    """IB5: events are handled; when the port is free, health and metrics are there."""
    with (
        one_machine(tmp_path) as (endpoint, home),
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        port = other.getsockname()[1]
        home.lines = [f'listen = "127.0.0.1:{port}"']
        home.usual_hooks()
        endpoint.restart("db_0")
        with AgentProcess(home, port=0.05) as agent:
            agent.wait_until(lambda: endpoint.approvals)
            other.close()
            agent.wait_until(lambda: "serves health and metrics now" in agent.output())
            assert fetch(local_url(port, "/healthz")).status == 200
    assert agent.output().count(f"listen: 127.0.0.1:{port} is in use") == 1
