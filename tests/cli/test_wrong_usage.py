"""Wrong usage of every command: the error says what is allowed, the exit code the kind of error."""

from collections.abc import Iterator

import pytest

from tests.fixtures.service import ServiceProcess, run_command


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service for all tests, which change nothing."""
    data = tmp_path_factory.mktemp("wrong") / "data"
    with ServiceProcess(data, "--sample", "--memory") as started:
        yield started


WRONG = [
    (("machine", "show", "nobody"), 3, "there is no machine 'nobody'"),
    (("machine", "explain", "nobody"), 3, "there is no machine 'nobody'"),
    (("machine", "create", "batch_0"), 4, "batch_0"),
    (("machine", "create", ".."), 4, "other than '.' and '..'"),
    (("machine", "create", "a b"), 4, "name: must be a name without a space, not 'a b'"),
    (("set", "create", "a b", "--capacity", "1"), 4, "name: must be a name without a space"),
    (("machine", "create", "x", "--tag", "novalue"), 2, "is not K=V, such as env=prod"),
    (("machine", "create", "x", "--priority", "low"), 2, "spot"),
    (("machine", "freeze", "db_0", "--duration", "soon"), 2, "write 90, 90s, 15m"),
    (("machine", "freeze", "db_0", "--duration", "0.5"), 2, "whole number of seconds"),
    (("operation", "show", "nothing"), 3, "nothing"),
    (("operation", "explain", "nothing"), 3, "nothing"),
    (("event", "show", "AB"), 2, "give at least 4 characters"),
    (("event", "show", "ABCD"), 3, "run `fairwarning event list "),
    (("event", "show", "00000000-0000-0000-0000-000000000000"), 3, "00000000"),
    (("event", "approve"), 2, "Missing argument"),
    (("event", "explain", "00000000-0000-0000-0000-000000000000"), 3, "00000000"),
    (("event", "list", "--machine", "nobody"), 3, "nobody"),
    (("event", "list", "--scope", "nowhere"), 3, "nowhere"),
    (("event", "list", "--scope", "wb/0"), 3, "did you mean 'web/0'?"),
    (("event", "list", "--set", "wbe"), 3, "did you mean 'web'?"),
    (("event", "watch", "--machine", "nobody"), 3, "there is no machine 'nobody'"),
    (("event", "watch", "--scope", "wb/0"), 3, "did you mean 'web/0'?"),
    (("rollout", "start", "wb/0"), 3, "did you mean 'web/0'?"),
    (("fault", "set", "404", "--machine", "web_"), 3, "did you mean 'web_"),
    (("set", "show", "nothing"), 3, "nothing"),
    (("set", "create", "x"), 2, "--capacity"),
    (("set", "create", "web", "--capacity", "1"), 4, "web"),
    (("set", "create", "x", "--capacity", "-1"), 2, "-1"),
    (("set", "scale", "web", "many"), 2, "'many' is not a valid integer"),
    (("clock", "run", "fast"), 2, "'fast' is not a valid number"),
    (("clock", "run", "nan"), 2, "'nan' is not a number such as 5 or 0.5"),
    (("machine", "degrade", "db_0", "--days", "inf"), 2, "'inf' is not a number such as"),
    (("set", "scale", "nothing", "2"), 3, "nothing"),
    (("set", "update", "web"), 2, "nothing to change"),
    (("set", "update", "web", "--terminate-notice", "16m"), 4, "PT15M"),
    (("set", "delete-instances", "web", "db_0"), 2, "write a number such as 3, or web_3"),
    (("set", "delete-instances", "web"), 2, "Missing argument"),
    (("set", "delete-instances", "web", "77", "--yes"), 3, "77"),
    (("set", "upgrade", "web", "77"), 3, "77"),
    (("rollout", "status", "nothing"), 3, "nothing"),
    (("rollout", "show", "nothing"), 2, "now `fairwarning rollout status`"),
    (("rollout", "pause", "nothing"), 3, "nothing"),
    (("rollout", "start", "nowhere"), 3, "nowhere"),
    (("rollout", "start", "--set", "nowhere"), 3, "nowhere"),
    (("rollout", "start", "--kind", "explode"), 2, "redeploy"),
    (("rollout", "start", "--halt-percent", "101"), 2, "101"),
    (("rollout", "start", "db", "--by-host"), 4, "has no host"),
    (("rollout", "start", "--batch", "101"), 4, "100"),
    (("machine", "restart", "nobody"), 3, "there is no machine 'nobody'"),
    (("machine", "restart"), 2, "Missing argument"),
    (("machine", "evict", "db_0"), 4, "this is for Spot machines"),
    (("machine", "explode", "db_0"), 2, "No such command"),
    (("fault", "set", "418"), 2, "'410'"),
    (("fault", "set", "404", "--machine", "nobody"), 3, "there is no machine"),
    (("fault", "set", "delay", "--delay", "999"), 4, "delay_seconds must be a number from 0"),
    (("clock", "advance", "-1"), 2, "-1"),
    (("clock", "advance", "soon"), 2, "write 90, 90s, 15m"),
]


def test_a_machine_of_exec(service: ServiceProcess) -> None:
    """An unknown name is answered with the most similar one."""
    done = run_command("exec", "--data", str(service.data), "wbe_0", "--", "true")
    assert done.returncode == 3
    assert done.stderr == "fairwarning: there is no machine 'wbe_0'; did you mean 'web_0'?\n"


@pytest.mark.parametrize(("words", "code", "message"), WRONG)
def test_wrong_usage(
    service: ServiceProcess, words: tuple[str, ...], code: int, message: str
) -> None:
    """An argument that is unknown, missing, or out of range."""
    service.assert_refused(words, code, message)
