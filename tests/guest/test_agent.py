"""The real program against our endpoint: failing hooks, endpoint failures, and shutdown."""

import json
import os
import shutil
import signal
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fairwarning.metadata.callers import by_local_address
from fairwarning.service.faults import FaultKind
from tests.campaigns import split
from tests.fixtures.http import fetch, free_port, local_url
from tests.fixtures.programs import start_program
from tests.fixtures.requirements import needs_children_in_proc, needs_root_namespaces, needs_unshare
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine, wait_until
from tests.guest.agents import (
    AgentEndpoint,
    AgentFolder,
    AgentProcess,
    agent_folders,
    environment,
    one_machine,
    run_agent_command,
)
from tests.guest.double import Double


def metric(port: int, name: str) -> float:
    """Return the value of one of the agent's metrics; -1 while it does not listen."""
    try:
        text = fetch(local_url(port, "/metrics")).text
    except OSError:
        return -1
    lines = dict(line.rpartition(" ")[::2] for line in text.splitlines())
    return float(lines[f"fairwarning_agent_{name}"])


@pytest.mark.spec("G4", "G5", "G7")
def test_an_event_from_its_notice_to_its_end(tmp_path: Path) -> None:
    """Hooks run in their phases, approval follows the required one, recovery comes last."""
    with one_machine(tmp_path, 2) as (endpoint, home):
        home.usual_hooks(home.wait_script())
        with AgentProcess(home) as agent:
            other, mine = endpoint.restart("db_1"), endpoint.restart("db_0")
            agent.wait_until(lambda: "note" in home.ran())
            assert endpoint.approvals == []
            home.release_hooks()
            agent.wait_until(lambda: "flush" in home.ran())
            assert endpoint.approvals == [("db_0", (mine.id,))]
            endpoint.finish("db")
            agent.wait_until(lambda: "back" in home.ran() and not home.steps())
            assert agent.stop() < on_this_machine(5)
            assert agent.process.returncode == 0
        assert sorted(home.ran("+")) == ["back", "drain", "flush", "note"]
        assert {line.split()[3] for line in home.log()} == {mine.id}
        assert other.id not in "".join(home.log())


@pytest.mark.spec("E11", "G4")
@pytest.mark.parametrize("ahead_seconds", [-3600, 3600])
def test_a_machine_with_a_wrong_clock(tmp_path: Path, ahead_seconds: float) -> None:
    """Hooks get the time that is really left, and a deadline by the machine's own clock."""
    deadline = tmp_path / "deadline"
    with AgentEndpoint(ahead_seconds) as endpoint:
        endpoint.make_enabled("db")
        with agent_folders(endpoint, tmp_path, "db_0") as (home,):
            home.hook("drain", "scheduled", f"echo $FAIRWARNING_DEADLINE > {deadline}")
            with AgentProcess(home) as agent:
                endpoint.restart("db_0")
                agent.wait_until(lambda: endpoint.approvals)
            left = datetime.fromisoformat(deadline.read_text().strip()) - datetime.now(UTC)
            assert 0 < left.total_seconds() < 900


@pytest.mark.spec("G4", "G6")
def test_an_error_stays_in_its_event(tmp_path: Path) -> None:
    """IB1: it is logged and counted; other events are handled, and after a restart too."""
    port = free_port()
    with Double() as azure:
        home = AgentFolder(tmp_path / "home", azure.url)
        home.usual_hooks()
        home.lines = [f'listen = "127.0.0.1:{port}"']
        bad = azure.announce("vm-1")["EventId"]
        for number in (1, 2):
            other = azure.announce("vm-1")
            with AgentProcess(home, poison=bad) as agent:
                agent.wait_until(lambda: other["EventId"] in azure.approved)  # noqa: B023  (at once)
                assert len(set(azure.approved)) == number  # one may be sent again after a kill
                assert bad not in azure.approved
                assert f"event {bad}: ArithmeticError('poison')" in agent.output()
                assert metric(port, "event_errors_total") > 0
                agent.kill()


@pytest.mark.spec("G6")
def test_a_reimage(tmp_path: Path) -> None:
    """It loses the journal, so a hook with `boot` runs again; a restart of the agent keeps it."""
    with one_machine(tmp_path) as (_, home):
        home.hook("join", "over", more="boot = true")
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: home.ran() == ["join"] and "done" in home.steps())
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: agent.output().count("watching for db_0") == 2)
            agent.wait_until(lambda: agent.output().count("Boot of db_0") == 2)
        assert home.ran() == ["join"]
        shutil.rmtree(home.state)
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: home.ran() == ["join", "join"])
        assert home.log()[0].startswith("+ join over BOOT-")


# --- The endpoint ---------------------------------------------------------------------------------


FAR_DATE = b"Date: Fri, 31 Dec 9999 23:59:59 GMT\r\n"


def response(document: object, header: bytes = b"") -> bytes:
    """Return a response with a document."""
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (header, len(body), body)


@pytest.mark.spec("G1")
def test_a_poison_document(tmp_path: Path) -> None:
    """Readable events are handled, now and after a restart; the others are counted (IB1)."""
    port = free_port()
    with Double() as azure:
        home = AgentFolder(tmp_path / "home", azure.url, name="vm-1")
        home.lines = [f'listen = "127.0.0.1:{port}"']
        home.hook("drain", "scheduled")
        dates = "0001-01-01T00:00:00", "9999-12-31T23:59:59Z", ""
        events = [azure.announce("vm-1", NotBefore=date) for date in dates]
        names = sorted(event["EventId"] for event in events)
        malformed: list[Any] = [None, {**events[0], "EventId": "X", "Resources": None}]
        azure.events = malformed + events
        huge = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"
        poison = response({"DocumentIncarnation": 1, "Events": azure.events}, FAR_DATE)
        for _ in range(2):
            azure.failures += [huge, poison]
            with AgentProcess(home) as agent:
                agent.wait_until(lambda: sorted(set(azure.approved)) == names)
                agent.wait_until(lambda: metric(port, "malformed_events_total") == 2)
                assert "(id: X): its Resources are not a list of names" in agent.output()
                agent.kill()
        assert sorted(line.split()[3] for line in home.log() if "+" in line) == names


@pytest.mark.spec("G4", "G7")
@pytest.mark.parametrize("kind", split(FaultKind, 3))
def test_endpoint_failures(tmp_path: Path, kind: FaultKind) -> None:
    """Only a document ends an event; everything is recovered afterwards (IG5)."""
    with one_machine(tmp_path) as (endpoint, home):
        home.usual_hooks(home.wait_script())
        home.name = "db_0"
        with AgentProcess(home) as agent:
            endpoint.restart("db_0")
            agent.wait_until(lambda: "drain" in home.ran("+"))
            endpoint.put_fault(kind, delay_seconds=0.3)
            met = endpoint.call(lambda: endpoint.server.counts.faults[kind])
            home.release_hooks()
            agent.wait_until(
                lambda: endpoint.call(lambda: endpoint.server.counts.faults[kind]) > met + 2
            )
            assert "back" not in home.ran("+")
            endpoint.clear_faults()
            agent.wait_until(lambda: endpoint.approvals and "flush" in home.ran())
            endpoint.finish("db")
            agent.wait_until(lambda: "back" in home.ran() and not home.steps())
        assert sorted(home.ran("+")) == ["back", "drain", "flush", "note"]


@pytest.mark.spec("G4", "G6")
@pytest.mark.parametrize("kind", [FaultKind.EMPTY, FaultKind.CONTROL, FaultKind.ERROR])
def test_a_start_during_an_event_with_endpoint_failures(tmp_path: Path, kind: FaultKind) -> None:
    """A response that is not a document does not end the event (IG5)."""
    with one_machine(tmp_path) as (endpoint, home):
        home.usual_hooks(home.wait_script())
        home.name = "db_0"
        with AgentProcess(home) as agent:
            endpoint.restart("db_0")
            agent.wait_until(lambda: "drain" in home.ran("+"))
            agent.kill()
        endpoint.put_fault(kind, count=3)
        home.release_hooks()
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: endpoint.approvals and "flush" in home.ran())
            assert "back" not in home.ran("+")


@pytest.mark.spec("G2", "G4")
def test_an_agent_that_starts_before_its_endpoint(tmp_path: Path) -> None:
    """A machine may boot faster than its host."""
    port = free_port()
    with AgentEndpoint() as endpoint, socket.socket() as late:
        endpoint.make_enabled("db")
        endpoint.restart("db_0")
        with agent_folders(endpoint, tmp_path, "db_0") as (home,):
            home.usual_hooks()
            home.endpoint = f"http://{endpoint.address('db_0')[0]}:{port}"
            with AgentProcess(home) as agent:
                agent.wait_until(lambda: "; retrying" in agent.output())
                late.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                late.bind(("0.0.0.0", port))
                late.listen()
                endpoint.listen_on(late, by_local_address)
                agent.wait_until(lambda: endpoint.approvals)


@pytest.mark.spec("G6")
def test_a_full_disk_stops_no_hook_and_no_approval(tmp_path: Path) -> None:
    """The agent reports it once; the journal is complete as soon as there is space."""
    with one_machine(tmp_path) as (endpoint, home):
        endpoint.observe = home.ran
        home.usual_hooks()
        home.lines = [f'listen = "127.0.0.1:{(port := free_port())}"']
        full = tmp_path / "full"
        with AgentProcess(home, full=str(full)) as agent:
            agent.wait_until(lambda: "watching" in agent.output())
            full.touch()
            event = endpoint.restart("db_0")
            agent.wait_until(lambda: "flush" in home.ran())
            assert endpoint.approvals == [("db_0", (event.id,))]
            assert "drain" in endpoint.observed[0]
            assert home.steps() == []
            assert agent.output().count("ERROR cannot write the journal in") == 1
            assert metric(port, "journal_failing") == 1
            full.unlink()
            agent.wait_until(lambda: metric(port, "journal_failing") == 0)
            assert "approved" in home.steps()
            agent.kill()
        endpoint.finish("db")
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: "back" in home.ran() and not home.steps())
        assert sorted(set(home.ran("+"))) == ["back", "drain", "flush", "note"]
        assert home.ran("+").count("drain") == home.ran("+").count("back") == 1


# --- Shutdown -------------------------------------------------------------------------------------


@pytest.mark.spec("G6")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_hooks_run_again_at_the_next_start(tmp_path: Path, number: signal.Signals) -> None:
    """The agent stops within seconds; a hook that it stopped has not failed."""
    with one_machine(tmp_path) as (endpoint, home):
        home.usual_hooks(home.wait_script())
        with AgentProcess(home) as agent:
            event = endpoint.restart("db_0")
            agent.wait_until(lambda: "drain" in home.ran("+") and "note" in home.ran())
            agent.process.send_signal(number)
            assert agent.process.wait(on_this_machine(5)) == 0
        assert endpoint.approvals == []
        home.release_hooks()
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: endpoint.approvals)
        assert home.ran("+").count("drain") == 2
        # Twice if the agent was stopped before it journaled the end of the first (IG2).
        assert home.ran("+").count("note") in {1, 2}
        assert {line.split()[3] for line in home.log()} == {event.id}


@needs_root_namespaces
@needs_unshare
@needs_children_in_proc
def test_process_1_of_a_container(tmp_path: Path) -> None:
    """It reaps orphans of its hooks, passes a stop on, and exits with the agent's code."""
    with one_machine(tmp_path) as (endpoint, home):
        end = home.folder / "end"
        orphan = f"touch {end}; until [ -e {end}.now ]; do sleep 0.02; done"
        begin = f"{{ setsid sh -c '{orphan}' > /dev/null 2>&1 & }}"
        home.hook("serve", "scheduled", f"{begin}; until [ -e {end} ]; do sleep 0.02; done")
        namespace = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
        agent = (sys.executable, "-m", "fairwarning", "agent", "run", "--config")
        command = (*namespace, *agent, str(home.config()))
        with start_program(*command, folder=tmp_path, env=environment()) as program:
            program.wait_for("watching for db_0")
            (init,) = children(program.process.pid)
            assert len(children(init)) == 1
            endpoint.restart("db_0")
            wait_until(lambda: len(children(init)) == 2, "it has the orphan")
            Path(f"{end}.now").touch()
            wait_until(lambda: len(children(init)) == 1, "it has reaped the orphan")
            os.kill(init, signal.SIGTERM)
            assert program.process.wait(LIMIT_SECONDS) == 0


def children(process: int) -> list[int]:
    """Return the ids of the children of a process, also of those that nobody has waited for."""
    words = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(word) for word in words]


# --- Other commands -------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["check", "run"])
def test_a_wrong_configuration_is_refused(tmp_path: Path, verb: str) -> None:
    """The error is one line with the place."""
    path = tmp_path / "agent.toml"
    path.write_text('approve = "sometimes"', "utf-8")
    done = run_agent_command("agent", verb, "--config", str(path))
    assert done.returncode == 1
    allowed = "when done, at once, never, user events only"
    assert done.stderr == f"Error: {path}: approve: must be one of {allowed}, not 'sometimes'\n"


BARE = """
import sys
class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Bare())
"""
BLOCKED = {
    "click", "cryptography", "httptools", "jinja2", "lightkube", "msgspec", "prometheus_client",
    "psycopg", "rich", "starlette", "uvicorn", "uvloop",
}  # fmt: skip


@pytest.mark.spec("G7")
def test_the_agent_needs_nothing_but_python(tmp_path: Path) -> None:
    """Its help and its work need no packages; other commands say what to install."""
    (tmp_path / "sitecustomize.py").write_text(BARE.format(blocked=BLOCKED), "utf-8")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    output = run_agent_command("agent", "--help", PYTHONPATH=path)
    assert output.returncode == 0, output.stderr
    assert "fairwarning agent run --config agent.toml" in output.stdout
    up = run_agent_command("up", PYTHONPATH=path)
    assert up.returncode == 1
    assert "pip install 'fairwarning[server]'" in up.stderr
    with AgentEndpoint() as endpoint:
        endpoint.make_enabled("db")
        home = AgentFolder(tmp_path, endpoint.url("db_0"))
        home.usual_hooks()
        done = run_agent_command("agent", "check", "--config", str(home.config()), PYTHONPATH=path)
        assert done.returncode == 0, done.stderr
        assert "machine    db_0" in done.stdout


@pytest.mark.spec("G4")
def test_the_health_server(tmp_path: Path) -> None:
    """/healthz and /metrics of a running agent; unhealthy without documents."""
    port = free_port()
    with one_machine(tmp_path) as (endpoint, home):
        home.usual_hooks()
        home.name = "db_0"
        home.lines = [f'listen = "127.0.0.1:{port}"']
        with AgentProcess(home, well=1.0) as agent:
            endpoint.restart("db_0")
            agent.wait_until(lambda: endpoint.approvals and "flush" in home.ran())
            assert fetch(local_url(port, "/healthz")).status == 200
            assert metric(port, 'readings_total{result="ok"}') > 0
            endpoint.put_fault(FaultKind.ERROR)
            agent.wait_until(lambda: fetch(local_url(port, "/healthz")).status == 503)
            assert fetch(local_url(port, "/healthz")).json == {"status": "no document lately"}
            assert metric(port, 'readings_total{result="failed"}') >= 1
            endpoint.clear_faults()
            agent.wait_until(lambda: fetch(local_url(port, "/healthz")).status == 200)


@pytest.mark.spec("G4")
def test_a_function_that_hangs_makes_the_agent_unhealthy(tmp_path: Path) -> None:
    """It cannot be stopped: /healthz names the hook, and whoever asks may restart the agent."""
    port = free_port()
    with Double() as azure:
        home = AgentFolder(tmp_path / "home", azure.url)
        home.lines = [f'listen = "127.0.0.1:{port}"']
        call = 'call = "tests.guest.test_hook_functions:hang"\ntimeout_seconds = 1'
        home.hooks = [f'[[hook]]\nname = "hang"\nphase = "scheduled"\n{call}\n']
        event = azure.announce("vm-1")["EventId"]
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: "done" in home.steps())
            agent.wait_until(lambda: fetch(local_url(port, "/healthz")).status == 503)
            problem = fetch(local_url(port, "/healthz")).json["status"]
            assert problem == f"hook hang (event {event}, scheduled) has not ended yet"


def test_an_address_that_the_machine_does_not_have(tmp_path: Path) -> None:
    """The agent reports it and does not start; no hook has run."""
    with one_machine(tmp_path) as (_, home):
        home.lines = ['listen = "192.0.2.1:8173"']
        done = run_agent_command("agent", "run", "--config", str(home.config()))
        assert done.returncode == 1
        assert "listen: cannot listen on" in done.stderr
        assert "Traceback" not in done.stderr
