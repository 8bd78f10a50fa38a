"""Commands that are large or final show a plan and ask before they change anything."""

import pytest

from fairwarning.core.times import parse_date
from tests.cli.terminal import run_on_terminal
from tests.fixtures.service import ServiceProcess

pytestmark = pytest.mark.spec("O14")

ASKING = [
    ("rollout", "start"),
    ("rollout", "start", "web/0", "db"),
    ("rollout", "abort", "running"),
    ("machine", "delete", "batch_0"),
    ("machine", "fail", "web_0", "web_1"),
    ("set", "delete", "web"),
    ("set", "delete-instances", "web", "0"),
    ("set", "scale", "web", "1"),
    ("machine", "stop", "web_0", "web_1"),
    ("machine", "deallocate", "web_0", "db_0"),
    ("machine", "reimage", "web_0", "db_0"),
    ("event", "approve", "FIRST", "SECOND"),
    ("event", "cancel", "FIRST", "SECOND"),
]


EVENTS = ("event", "list", "-o", "name")


def state(service: ServiceProcess) -> object:
    """Whatever these commands could change."""
    return [service.json(noun, "list") for noun in ("machine", "event", "set", "rollout")]


def answer(service: ServiceProcess, text: str, *words: str) -> tuple[int, str]:
    """Run a command on a terminal and type an answer; return its exit code and output."""
    return run_on_terminal(service.command(*words), f"{text}\n")


def test_a_script_must_say_yes(service: ServiceProcess) -> None:
    """Without a terminal and without --yes nothing changes; --dry-run only prints the plan."""
    service.poll("web_0")
    service.json("rollout", "start", "web/0", "--id", "running")
    service.poll("db_0")
    service.json("machine", "restart", "db_0")
    ids = dict(zip(("FIRST", "SECOND"), service.run(*EVENTS).stdout.split(), strict=True))
    before = state(service)
    for template in ASKING:
        words = tuple(ids.get(word, word) for word in template)
        refused = service.run(*words)
        assert refused.returncode == 2, words
        assert "Nothing was changed" in refused.stderr
        assert "Add --yes to go ahead" in refused.stderr
        assert service.run(*words, "--dry-run").returncode == 0
        assert service.json(*words, "--dry-run")
    assert state(service) == before


def test_the_plan_of_a_rollout(service: ServiceProcess) -> None:
    """It counts machines and scopes, says when it ends, and which scopes get no notice."""
    service.poll("web_0")
    service.poll("db_0")
    now = service.ok("GET", "/api/clock")["now"]
    plan = service.json("rollout", "start", "--kind", "reboot", "--duration", "60", "--dry-run")
    assert (plan["machines"], plan["scopes"], plan["batch"]) == (7, 4, 10)
    assert plan["not_polled"] == ["batch_0", "legacy"]
    # Three update domains of one machine each, one after the other.
    assert seconds(now, plan["earliest_end"]) == 3 * 60
    assert seconds(now, plan["latest_end"]) == 3 * (15 * 60 + 60)
    one_lane = service.json("rollout", "start", "--batch", "1", "--duration", "5", "--dry-run")
    assert seconds(now, one_lane["earliest_end"]) == 7 * 5
    printed = service.run("rollout", "start").stderr
    assert "no notice  2 scopes: batch_0, legacy" in printed
    assert "Start the rollout over 4 scopes?" in printed


@pytest.mark.parametrize(
    ("capacity", "polled", "plan"),
    [
        (1, True, {"deleted": 2, "without_notice": 0, "notice_seconds": 300}),
        (2, True, {"deleted": 1, "without_notice": 0, "notice_seconds": 300}),
        (2, False, {"deleted": 1, "without_notice": 1, "notice_seconds": None}),
        (4, False, {"deleted": 0, "without_notice": 0, "notice_seconds": None}),
    ],
)
def test_the_plan_of_a_scale_in(
    service: ServiceProcess, capacity: int, plan: dict[str, object], *, polled: bool
) -> None:
    """It counts what is deleted and how much notice that gets; one with notice needs no answer."""
    service.json("set", "update", "web", "--terminate-notice", "5m", "--upgrade", "automatic")
    if polled:
        service.poll("web_0")
    words = ("set", "scale", "web", str(capacity))
    planned = service.json(*words, "--dry-run")
    assert plan.items() <= planned.items()
    assert len(planned["instances"]) == plan["deleted"]
    asks = capacity == 1 or (capacity == 2 and not polled)
    assert service.run(*words).returncode == (2 if asks else 0)
    assert service.run(*words, "--yes").returncode == 0


def test_the_plan_of_deleted_instances(service: ServiceProcess) -> None:
    """It names the machines and their notice, and is refused as the command would be."""
    service.json("set", "update", "web", "--terminate-notice", "5m", "--upgrade", "automatic")
    service.poll("web_0")
    delete = ("set", "delete-instances", "web")
    plan = service.run(*delete, "2", "web_0", "--dry-run").stdout.splitlines()
    assert [line.split() for line in plan] == [
        ["machine", "scope", "power", "notice"],
        ["web_2", "web/0", "running", "PT5M"],
        ["web_0", "web/0", "running", "PT5M"],
    ]
    for last in ("--dry-run", "--yes"):
        service.assert_refused((*delete, "0", "77", last), 3, "scale set 'web' has no instance 77")


def seconds(begin: str, end: str) -> float:
    """The time between two times of the service."""
    return parse_date(end) - parse_date(begin)


def test_one_scope_is_not_asked_about(service: ServiceProcess) -> None:
    """The question is for what is large."""
    assert service.json("rollout", "start", "web/0")["machines"] == 3
    assert service.json("rollout", "start", "db", "batch_0", "--yes")["machines"] == 3


def test_an_answer_on_a_terminal(service: ServiceProcess) -> None:
    """No is the default, and changes nothing; yes goes ahead."""
    for text in ("n", ""):
        code, output = answer(service, text, "set", "delete", "web")
        assert code == 1
        assert "Delete web and its instances? [y/N]" in output
        assert "Nothing was changed." in output
    assert service.json("set", "show", "web")["deleting"] is False
    code, output = answer(service, "y", "set", "delete", "web")
    assert code == 0, output
    assert "accepted" in output
