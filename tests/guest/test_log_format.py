"""The agent's log: plain lines, or one JSON object per line."""

import json
import logging
from pathlib import Path

import pytest

from fairwarning.guest.agent.log_format import FIELDS, AgentJsonFormatter, event_fields
from tests.guest.agents import AgentProcess, one_machine, run_agent_command
from tests.guest.notices import ME, event

pytestmark = pytest.mark.spec("G8")


def formatted(**extra: object) -> dict[str, object]:
    """Return a record as JSON."""
    record = logging.makeLogRecord({"msg": "a\nb", "levelname": "INFO", "name": "x", **extra})
    line = AgentJsonFormatter().format(record)
    assert "\n" not in line
    return dict(json.loads(line))


def test_fields() -> None:
    """The names of the service's log, and the fields of an event."""
    shown = formatted(**event_fields(event(), ME, hook="drain", seconds=1.5, other="x"))
    assert (shown.pop("level"), shown.pop("logger"), shown.pop("message")) == ("info", "x", "a\nb")
    assert str(shown.pop("time")).endswith("Z")
    assert shown == {
        "event_id": "A",
        "event_type": "Reboot",
        "machine": ME,
        "not_before": "2030-01-02T03:15:00Z",
        "hook": "drain",
        "seconds": 1.5,
    }
    assert set(shown) < set(FIELDS)


def test_the_log_of_an_agent(tmp_path: Path) -> None:
    """Every line is an object; hooks and decisions have their fields."""
    with one_machine(tmp_path) as (endpoint, home):
        home.hook("save", "scheduled", "echo saved; exit 3")
        words = ("run", "--log-format", "json", "--config", str(home.config()))
        with AgentProcess(home, *words) as agent:
            mine = endpoint.restart("db_0")
            agent.wait_until(lambda: "not approved because hook save failed" in agent.output())
            agent.stop()
            lines = [json.loads(line) for line in agent.output().splitlines()]
    hooks = [line for line in lines if line.get("hook") == "save"]
    assert [line["result"] for line in hooks] == ["started", "failed"]
    assert hooks[1]["seconds"] >= 0
    decisions = [line for line in lines if "decision" in line]
    assert [line["decision"] for line in decisions] == [
        "waiting for hook save",
        "not approved because hook save failed",
    ]
    for line in (*hooks, *decisions):
        assert (line["event_id"], line["event_type"], line["machine"]) == (
            mine.id,
            "Reboot",
            "db_0",
        )
        assert line["not_before"].endswith("Z")


def test_an_error_at_the_start_is_a_line_too(tmp_path: Path) -> None:
    """Also one of the configuration."""
    path = tmp_path / "no-such-file"
    words = ("agent", "run", "--log-format", "json", "--config", str(path))
    done = run_agent_command(*words)
    assert done.returncode == 1
    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert line["level"] == "error"
    assert str(path) in line["message"]
