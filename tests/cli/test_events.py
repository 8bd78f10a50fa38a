"""The command `fairwarning event`."""

import _thread
import json
import queue
import re
import threading
from pathlib import Path

import pytest

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import LocalService
from fairwarning.cli.output.follow import EventStream
from tests.fixtures.service import ServiceProcess


def schedule_restarts(service: ServiceProcess, *machines: str) -> list[str]:
    """Poll as machines, restart them, and return the ids of the events."""
    for machine in machines:
        service.poll(machine)
    answers = service.json("machine", "restart", *machines)
    return [event["id"] for answer in answers for event in answer["events"]]


def test_an_event_is_listed_and_shown(service: ServiceProcess) -> None:
    """Its id can be abbreviated; the list has it in full."""
    (db,) = schedule_restarts(service, "db_0")
    assert db in service.run("event", "list").stdout
    shown = service.run("event", "show", db[:6].lower()).stdout
    assert "(in 15 min)" in shown
    assert service.json("event", "show", db)["status"] == "Scheduled"


def test_an_operator_approves_and_cancels(service: ServiceProcess) -> None:
    """Ids can be abbreviated; an approved event starts, a cancelled event is over."""
    web, db = schedule_restarts(service, "web_0", "db_0")
    done = service.run("event", "approve", web[:8])
    assert done.stdout == "Reboot of web_0: approved\n"
    assert service.poll("web_0")["Events"][0]["EventStatus"] == "Started"
    columns = ("machines,not before", "-o", "csv")
    listed = service.run("event", "list", "--sort", "machines", "--columns", *columns).stdout
    assert re.fullmatch("machines,not before\ndb_0,.+Z\nweb_0,\n", listed)
    (cancelled,) = service.json("event", "cancel", db)
    assert cancelled["id"] == db
    assert service.poll("db_0")["Events"] == []
    assert service.json("event", "show", db)["status"] == "Over"
    again = service.run("event", "cancel", web)
    assert again.returncode == 4
    both = service.run("event", "approve", web, "FFFFFFFF")  # ids are checked first
    assert both.returncode == 3
    assert both.stdout == ""


@pytest.mark.spec("O7")
def test_an_event_is_explained(service: ServiceProcess) -> None:
    """The explanation has deliveries, approvals, what it waits for, and step durations."""
    (db,) = schedule_restarts(service, "db_0")
    service.poll("db_0")
    waiting = service.json("event", "explain", db)
    assert waiting["awaits"]
    assert "Waiting for: " in service.run("event", "explain", db[:8]).stdout
    service.run("clock", "advance", "90")
    service.run("event", "approve", db)
    service.run("clock", "advance", "5m")
    history = service.json("event", "explain", db)
    assert [approval["by"] for approval in history["approvals"]] == ["operator"]
    assert history["notice_seconds"] == 900
    assert not history["awaits"]
    did = [step["type"] for step in history["steps"]]
    assert did.index("Scheduled") < did.index("Approved") < did.index("Ended")
    printed = service.run("event", "explain", db).stdout
    assert "1 min 30 s" in printed
    assert "duration" in printed


def test_ctrl_c_right_before_a_wait() -> None:
    """A signal that does not interrupt the wait itself ends it all the same."""
    stream = EventStream.__new__(EventStream)
    stream._queue = queue.SimpleQueue()
    timer = threading.Timer(0.1, _thread.interrupt_main)  # without a signal to the waiting thread
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        stream.take(None)


def test_a_stream_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the thread that reads the stream ends the wait for a message too (IB6)."""
    monkeypatch.setattr(client, "newest", lambda _: 0)
    monkeypatch.setattr(client, "stream", lambda *_: None)  # nothing to iterate
    stream = EventStream(LocalService(Path()))
    with pytest.raises(TypeError):
        stream.take(None)


def test_watch(service: ServiceProcess) -> None:
    """It prints a line per change: of all, of one machine, or of events until they are over."""
    (db,) = schedule_restarts(service, "db_0")
    with (
        service.start_command("event", "watch") as everything,
        service.start_command("event", "watch", "--machine", "web/0/web_0", "--json") as web_only,
        service.start_command("event", "watch", db[:8]) as until_over,
    ):
        for watching in (everything, web_only, until_over):
            watching.wait_until_following()
        schedule_restarts(service, "web_0")
        service.run("event", "cancel", db)
        code, output, _ = until_over.wait()
        assert code == 0
        assert "Cancelled db_0 by operator" in output
        assert "web_0" not in output
        lines = everything.read_until("Cancelled")
        assert any(" Scheduled web_0 " in line and "; event " in line for line in lines)
        line = json.loads(web_only.read_until("Scheduled")[-1])
        assert (line["machines"], line["type"]) == (["web_0"], "Scheduled")
        service.run("clock", "advance", "1m")
        everything.read_until("ClockMoved")
        assert "clock" in json.loads(web_only.read_until("clock")[-1])
        assert everything.interrupt()[0] == 0
        assert web_only.interrupt()[0] == 0


@pytest.mark.spec("O8", "O14")
def test_a_lost_connection_is_reported(tmp_path: Path) -> None:
    """`event watch` and `--wait` say so, and when they are connected again; no line comes twice."""
    data = tmp_path / "data"
    with ServiceProcess(data, "--sample", "--clock", "virtual") as service:
        service.poll("web_0")
        watching = service.start_command("event", "watch", "--json")
        watching.wait_until_following()
        waiting = service.start_command("machine", "restart", "web_0", "--wait")
        waiting.read_progress("0 of 1 done")
        lines = watching.read_until('"Scheduled"')
        service.kill()
        for command in (watching, waiting):
            command.read_progress("Connection lost. The last data is from")
    with ServiceProcess(data, "--clock", "virtual") as service, watching, waiting:
        for command in (watching, waiting):
            assert command.read_error() == "Connected to the service again."
        service.advance(3600)
        assert waiting.wait()[0] == 0
        lines += watching.read_until('"Ended"')
        numbers = [line["number"] for line in map(json.loads, lines) if "number" in line]
        assert numbers == sorted(set(numbers))
        assert watching.interrupt()[0] == 0
