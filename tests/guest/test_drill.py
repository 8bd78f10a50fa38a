"""What would happen for an event: shown by `check --event`, tried by `simulate`."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, GroupSettings, HookSettings
from fairwarning.guest.agent.drill import (
    NOTICE_SECONDS,
    WOULD_APPROVE,
    WOULD_APPROVE_AT_ONCE,
    WOULD_SIGNAL,
    EventPreview,
    invent_event,
    preview_event,
)
from fairwarning.guest.events import EventSource, EventType, Phase
from tests.fixtures.receiver import Receiver
from tests.guest.agents import AgentFolder, AgentProcess, one_machine, run_agent_command
from tests.guest.notices import MARGIN, ME, NOW, event, hook

pytestmark = pytest.mark.spec("G8")


def preview(config: AgentConfig, event_type: EventType = EventType.REBOOT) -> EventPreview:
    """Return what would happen for an event of this machine."""
    invented = invent_event(event_type, ME, EventSource.PLATFORM, NOW)
    return preview_event(config, ME, invented, NOW)


def hooks(*more: HookSettings) -> tuple[HookSettings, ...]:
    """Return a hook for each phase."""
    return (hook("drain"), hook("flush", Phase.STARTED), hook("back", Phase.OVER), *more)


def test_the_hooks_of_each_phase() -> None:
    """In the order in which they would run, without those for other events."""
    shown = preview(AgentConfig(hooks=hooks(hook("freeze", Phase.OVER, EventType.FREEZE))))
    assert [(run.phase, run.hook.name) for run in shown.hooks] == [
        ("scheduled", "drain"),
        ("started", "flush"),
        ("over", "back"),
    ]
    assert shown.hooks[0].deadline == NOW + timedelta(minutes=5)  # its own time-out


@pytest.mark.parametrize("event_type", EventType)
def test_a_hook_ends_before_the_event(event_type: EventType) -> None:
    """The notice of an invented event is the shortest that Azure gives."""
    slow = hook(timeout=timedelta(hours=1))
    (run,) = preview(AgentConfig(hooks=(slow,)), event_type).hooks
    assert run.deadline == NOW + timedelta(seconds=NOTICE_SECONDS[event_type]) - MARGIN


@pytest.mark.parametrize(
    ("config", "decision"),
    [
        (AgentConfig(hooks=hooks()), WOULD_APPROVE),
        (AgentConfig(approve={"": ApprovalPolicy.AT_ONCE}), WOULD_APPROVE_AT_ONCE),
        (AgentConfig(hooks=(hook(required=False),)), WOULD_APPROVE_AT_ONCE),
        (AgentConfig(hooks=hooks(), approve={"": ApprovalPolicy.AT_ONCE}), WOULD_APPROVE_AT_ONCE),
        (AgentConfig(approve={"": ApprovalPolicy.NEVER}), "not approved: policy never"),
    ],
)
def test_the_decision(config: AgentConfig, decision: str) -> None:
    """Under the assumption that the hooks succeed."""
    assert preview(config).decision == decision


def test_the_decision_about_a_shared_event() -> None:
    """The group decides."""
    config = AgentConfig(hooks=hooks(), group=GroupSettings(folder="/shared"))
    assert preview_event(config, ME, event("A", ME, "vm-2"), NOW).decision == WOULD_SIGNAL


# --- simulate -------------------------------------------------------------------------------------


def drill(home: AgentFolder, *words: str) -> tuple[int, str]:
    """Run a drill; return its exit code and output."""
    words = ("simulate", "--event", "Reboot", "--config", str(home.config()), *words)
    done = run_agent_command("agent", *words)
    return done.returncode, done.stdout + done.stderr


def test_a_drill_runs_the_hooks_of_all_phases(tmp_path: Path) -> None:
    """Marked as a drill, without an approval and without a journal."""
    with one_machine(tmp_path) as (endpoint, home):
        home.usual_hooks(f'echo "drill=$FAIRWARNING_DRILL"; cat > {home.folder}/stdin')
        code, output = drill(home)
        assert code == 0, output
        assert sorted(home.ran()[:2]) == ["drain", "note"]
        assert home.ran()[2:] == ["flush", "back"]
        assert endpoint.approvals == []
        assert not home.state.exists()
    payload = json.loads((home.folder / "stdin").read_text("utf-8"))
    assert payload["Drill"] is True
    assert payload["EventId"].startswith("DRILL-")
    assert payload["Resources"] == ["db_0"]
    assert "scheduled  hook drain: ok after" in output
    assert "over       hook back: ok after" in output
    assert "would be approved now; a drill approves nothing" in output


def test_a_failed_hook_fails_the_drill(tmp_path: Path) -> None:
    """The other phases run all the same, to undo everything; notifications say that it is one."""
    home = AgentFolder(tmp_path, "http://127.0.0.1:1", name="db_0")
    home.hook("drain", "scheduled", "exit 3")
    home.hook("back", "over", "exit 4")
    with Receiver() as receiver:
        url = json.dumps(receiver.url)
        home.hooks.append(f'[[notify]]\nname = "team"\nkind = "webhook"\nurl = {url}\n')
        code, output = drill(home)
        bodies = [post.json for post in receiver.posts]
    assert code == 1
    assert "scheduled  hook drain: FAILED after" in output
    assert "over       hook back: FAILED after" in output
    assert "exit code 3" in output
    assert "would be approved" not in output
    assert [body["Phase"] for body in bodies] == [
        "scheduled",
        "failed",
        "started",
        "over",
        "failed",
    ]
    assert all(body["Drill"] and body["Text"].startswith("[drill] ") for body in bodies)
    assert "notify     team: ok, 5 sent, 0 failed" in output


def test_no_drill_during_a_real_event(tmp_path: Path) -> None:
    """Its hook of phase over would undo the preparation. Events of other machines do not count."""
    with one_machine(tmp_path, 2) as (endpoint, home):
        home.usual_hooks()
        endpoint.restart("db_1")
        assert drill(home)[0] == 0
        ran = home.ran()
        endpoint.restart("db_0")
        code, output = drill(home)
        assert code == 1
        assert "a drill would undo the preparation for a real event: Reboot of db_0" in output
        assert home.ran() == ran


def test_an_interrupted_drill_ends_its_hooks(tmp_path: Path) -> None:
    """And says that nothing was undone."""
    home = AgentFolder(tmp_path, "http://127.0.0.1:1", name="db_0")
    process = home.folder / "process"
    home.hook(
        "drain", "scheduled", f"echo $$ > {process}.new; mv {process}.new {process}; sleep 600"
    )
    home.hook("back", "over")
    words = ("simulate", "--event", "Reboot", "--config", str(home.config()))
    with AgentProcess(home, *words) as agent:
        agent.wait_until(process.exists)
        agent.stop()
        assert agent.process.returncode == 1
        assert "interrupted; later hooks" in agent.output()
    with pytest.raises(ProcessLookupError):
        os.kill(int(process.read_text("ascii")), 0)
    assert home.ran("+") == ["drain"]


def test_a_function_learns_of_the_drill_from_the_environment(tmp_path: Path) -> None:
    """It gets no payload."""
    (tmp_path / "mine.py").write_text(
        "import os\ndef run(*_):\n    assert os.environ['FAIRWARNING_DRILL'] == '1'\n", "utf-8"
    )
    home = AgentFolder(tmp_path, "http://127.0.0.1:1", name="db_0")
    home.hooks.append('[[hook]]\nname = "mine"\nphase = "over"\ncall = "mine:run"\n')
    words = ("simulate", "--event", "Freeze", "--config", str(home.config()))
    done = run_agent_command("agent", *words, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
