"""`fairwarning event`, as it is typed."""

import json
from pathlib import Path

import pytest

from tests.fixtures.service import ServiceProcess

VIRTUAL = ("--memory", "--clock", "virtual")


def announced(service: ServiceProcess, *machines: str) -> list[str]:
    """The ids of the events of restarts, of machines that poll."""
    for machine in machines:
        service.poll(machine)
    answers = service.json("machine", "restart", *machines)
    return [event["id"] for answer in answers for event in answer["events"]]


def test_events_are_listed_and_shown(tmp_path: Path) -> None:
    """All, of a machine, of a scope; the ids stand there in full, within 80 columns."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as service:
        assert service.run("event", "list").stdout == "No events.\n"
        web, db = announced(service, "web_0", "db_0")
        assert {one["id"] for one in service.json("event", "list")} == {web, db}
        assert [one["id"] for one in service.json("event", "list", "--machine", "db_0")] == [db]
        assert [one["id"] for one in service.json("event", "list", "--scope", "web/0")] == [web]
        table = service.run("event", "list").stdout
        assert web in table
        assert db in table
        shown = service.run("event", "show", db[:6].lower()).stdout
        assert "(in 15 min)" in shown
        assert service.json("event", "show", db)["status"] == "Scheduled"


def test_an_operator_approves_and_cancels(tmp_path: Path) -> None:
    """By the beginning of an id; an approved event starts, a cancelled one is gone."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as service:
        web, db = announced(service, "web_0", "db_0")
        done = service.run("event", "approve", web[:8])
        assert done.stdout == "Reboot of web_0: approved\n"
        assert service.poll("web_0")["Events"][0]["EventStatus"] == "Started"
        (cancelled,) = service.json("event", "cancel", db)
        assert cancelled["id"] == db
        assert service.poll("db_0")["Events"] == []
        assert service.json("event", "show", db)["status"] == "Over"
        again = service.run("event", "cancel", web)
        assert again.returncode == 4
        both = service.run("event", "approve", web, "FFFFFFFF")  # all are known, or nothing is done
        assert both.returncode == 3
        assert both.stdout == ""


@pytest.mark.spec("O7")
def test_an_event_is_explained(tmp_path: Path) -> None:
    """Who was told and when, who approved, what is awaited, and how long each step took."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as service:
        (db,) = announced(service, "db_0")
        service.poll("db_0")
        waiting = service.json("event", "explain", db)
        assert waiting["awaits"]
        assert "Awaited: " in service.run("event", "explain", db[:8]).stdout
        service.run("clock", "advance", "90")
        service.run("event", "approve", db)
        service.run("clock", "advance", "5m")
        story = service.json("event", "explain", db)
        assert [one["by"] for one in story["approved"]] == ["operator"]
        assert story["notice_seconds"] == 900
        assert not story["awaits"]
        did = [step["type"] for step in story["steps"]]
        assert did.index("Scheduled") < did.index("Approved") < did.index("Ended")
        told = service.run("event", "explain", db).stdout
        assert "1 min 30 s" in told
        assert "what happened" in told
        assert max(map(len, told.splitlines())) <= 80


def test_what_happens_is_followed(tmp_path: Path) -> None:
    """A line for each thing; of one machine; of some events until they are over."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as service:
        (db,) = announced(service, "db_0")
        with (
            service.start_command("event", "watch") as everything,
            service.start_command("event", "watch", "--machine", "web_0", "--json") as one,
            service.start_command("event", "watch", db[:8]) as until_over,
        ):
            for watching in (everything, one, until_over):
                watching.wait_until_following()
            announced(service, "web_0")
            service.run("event", "cancel", db)
            code, said, _ = until_over.wait()
            assert code == 0
            assert "Cancelled db_0 by operator" in said
            assert "web_0" not in said
            lines = everything.read_until("Cancelled")
            assert any(" Scheduled web_0 " in line and "; event " in line for line in lines)
            line = json.loads(one.read_until("Scheduled")[-1])
            assert (line["machines"], line["type"]) == (["web_0"], "Scheduled")
            service.run("clock", "advance", "1m")
            everything.read_until("ClockMoved")
            assert "clock" in json.loads(one.read_until("clock")[-1])
            assert everything.interrupt()[0] == 0
            assert one.interrupt()[0] == 0


WRONG = [
    (("event", "show", "AB"), 2, "give 4 characters of an id"),
    (("event", "show", "ABCD"), 3, "`fairwarning event list` shows them"),
    (("event", "show", "00000000-0000-0000-0000-000000000000"), 3, "00000000"),
    (("event", "approve"), 2, "Missing argument"),
    (("event", "explain", "00000000-0000-0000-0000-000000000000"), 3, "00000000"),
    (("event", "list", "--machine", "nobody"), 3, "nobody"),
    (("event", "list", "--scope", "nowhere"), 3, "nowhere"),
]


def test_wrong_words(tmp_path: Path) -> None:
    """A sentence that says what is allowed, and an exit code for scripts."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as service:
        for words, code, says in WRONG:
            service.assert_refused(words, code, says)
