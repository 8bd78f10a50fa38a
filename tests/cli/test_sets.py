"""`fairwarning set`, as it is typed."""

from pathlib import Path

import pytest

from tests.fixtures.service import ServiceProcess

VIRTUAL = ("--memory", "--clock", "virtual")


def names(it: ServiceProcess, name: str) -> list[str]:
    """The instances of a set."""
    return [one["name"] for one in it.json("machine", "list", "--set", name)]


@pytest.mark.spec("T1")
def test_a_set_is_made_as_it_was_asked_for(tmp_path: Path) -> None:
    """Notice, upgrade, scale-in, priority, size, zone and tags; what is wrong names what is not."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        made = it.json(
            *("set", "create", "api", "--capacity", "3", "--terminate-notice", "7m"),
            *("--upgrade", "automatic", "--scale-in", "oldestvm", "--tag", "env=prod"),
            *("--size", "Standard_B2s"),
        )
        assert (made["capacity"], made["terminate_notice"]) == (3, "PT7M")
        assert (made["upgrade"], made["scale_in"]) == ("Automatic", "OldestVM")
        assert (made["size"], made["tags"]) == ("Standard_B2s", {"env": "prod"})
        assert names(it, "api") == ["api_0", "api_1", "api_2"]
        assert {one["name"] for one in it.json("set", "list")} == {"api", "web"}
        assert it.json("set", "show", "api") == made
        assert "PT7M" in it.run("set", "show", "api").stdout
        table = it.run("set", "list").stdout.splitlines()
        assert table[0].split() == ["set", "capacity", "notice", "upgrade", "model", "outdated"]
        quiet = it.json("set", "create", "quiet", "--capacity", "0", "--terminate-notice", "none")
        assert quiet["terminate_notice"] is None
        short = it.run("set", "create", "short", "--capacity", "1", "--terminate-notice", "4m")
        assert short.returncode == 4
        assert "PT5M" in short.stderr


def test_what_leaves_is_told_first(tmp_path: Path) -> None:
    """Scale-in, chosen instances, then the whole set; --wait ends when they are gone."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        it.poll("web_0")
        with it.start_command("set", "scale", "web", "2", "--wait") as waiting:
            said = waiting.read_until("0 of 1 done")
            assert said[0].startswith("accepted, operation ")
            assert any("Terminate" in line for line in said)
            it.run("clock", "advance", "6m")
            assert waiting.wait()[0] == 0
        left = names(it, "web")
        assert len(left) == 2
        answer = it.json("set", "delete-instances", "web", left[0], left[1].rpartition("_")[2])
        gone = [name for event in answer["events"] for name in event["resources"]]
        assert sorted(gone) == left
        assert [one["type"] for one in it.json("event", "list")] == ["Terminate"] * len(
            answer["events"]
        )
        it.run("clock", "advance", "6m")
        assert names(it, "web") == []
        assert it.json("set", "scale", "web", "1", "--wait")["operation"]["status"] == "Succeeded"
        with it.start_command("set", "delete", "web", "--wait") as waiting:
            waiting.read_until("accepted")
            it.run("clock", "advance", "6m")
            assert waiting.wait()[0] == 0
        assert it.run("set", "show", "web").returncode == 3


@pytest.mark.spec("T3")
def test_a_new_notice_reaches_instances_by_an_upgrade(tmp_path: Path) -> None:
    """Until then they are outdated, and the operator is told what to type."""
    with ServiceProcess(tmp_path / "data", "--demo", *VIRTUAL) as it:
        told = it.run("set", "update", "web", "--terminate-notice", "10m").stdout
        assert "3 instances are not on it; `fairwarning set upgrade web`" in told
        assert it.json("machine", "show", "web_0")["terminate_notice"] == "PT5M"
        assert it.json("set", "upgrade", "web", "web_0", "1")["outdated"] == ["web_2"]
        assert it.json("machine", "show", "web_0")["terminate_notice"] == "PT10M"
        assert "every instance is on it" in it.run("set", "upgrade", "web").stdout
        none = it.json("set", "update", "web", "--terminate-notice", "none")
        assert none["terminate_notice"] is None


WRONG = [
    (("set", "show", "nothing"), 3, "nothing"),
    (("set", "create", "x"), 2, "--capacity"),
    (("set", "create", "web", "--capacity", "1"), 4, "web"),
    (("set", "create", "x", "--capacity", "-1"), 2, "-1"),
    (("set", "scale", "web", "many"), 2, "many"),
    (("set", "scale", "nothing", "2"), 3, "nothing"),
    (("set", "update", "web"), 2, "say what to change"),
    (("set", "update", "web", "--terminate-notice", "16m"), 4, "PT15M"),
    (("set", "delete-instances", "web", "db_0"), 2, "write a number such as 3, or web_3"),
    (("set", "delete-instances", "web"), 2, "Missing argument"),
    (("set", "delete-instances", "web", "77"), 3, "77"),
    (("set", "upgrade", "web", "77"), 3, "77"),
]


def test_wrong_words(tmp_path: Path) -> None:
    """A sentence that says what is allowed, and an exit code for scripts."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        for words, code, says in WRONG:
            it.assert_refused(words, code, says)
