"""Wrong usage of every command: the error says what is allowed, the exit code the kind of error."""

import pytest

from tests.fixtures.service import ServiceProcess, run_command

WRONG = [
    (("machine", "list", "--set", ""), 2, "Invalid value for '--set': must not be empty"),
    (("rollout", "abort", "", "--yes"), 2, "Invalid value for 'ID': must not be empty"),
    (("set", "upgrade", "web", "1" * 5000), 2, "write a number such as 3, or web_3"),
    (("machin", "list"), 2, "Did you mean 'machine'?"),
    (("machine", "restrt", "web_0"), 2, "Did you mean 'restart'"),
    (("machine", "list", "--sort", "colour"), 2, "is no column 'colour'; use machine, scope"),
    (("machine", "list", "--columns", "name"), 2, "there is no column 'name'"),
    (("machine", "list", "-o", "yaml"), 2, "'jsonl'"),
    (("machine", "list", "--json", "-o", "csv"), 2, "exclude each other"),
    (("machine", "list", "--set", "wbe"), 3, "there is no scale set 'wbe'; did you mean 'web'?"),
    (("machine", "list", "--limit", "0"), 2, "x>=1"),
    (("machine", "list", "--watch", "-o", "csv"), 2, "--watch cannot be used"),
    (("event", "list", "--over", "--status", "Started"), 2, "exclude each other"),
    (("machine", "show", "wbe_2"), 3, "there is no machine 'wbe_2'; did you mean 'web_2'?"),
    (("set", "show", "weeb"), 3, "did you mean 'web'?"),
    (("operation", "show", "zzzz"), 3, "no operation has an id starting with 'zzzz'"),
    (("operation", "show", "z"), 2, "at least 4 characters"),
    (("journal", "--type", "nothing"), 2, "is not one of 'ScopeCreated'"),
    (("operation", "list", "--status", "x"), 2, "is not one of 'InProgress', 'Succeeded'"),
    (("event", "list", "--rollout", "nothing"), 3, "there is no rollout 'nothing'"),
    (("exec", "web_0", "prog", "-x"), 2, "write -- before COMMAND"),
    (("exec", "web_0", "--quite", "prog"), 2, "Did you mean '--quiet'?"),
    (("journal", "--since", "yesterday"), 4, "'yesterday' is not a date: write '2016-"),
    (("machine", "show", "nobody"), 3, "there is no machine 'nobody'"),
    (("machine", "create", "batch_0"), 4, "batch_0"),
    (("machine", "create", ".."), 4, "other than '.' and '..'"),
    (("machine", "create", "a b"), 4, "name: must be a name without a space, not 'a b'"),
    (("set", "create", "a b", "--capacity", "1"), 4, "name: must be a name without a space"),
    (("machine", "create", "x", "--tag", "novalue"), 2, "is not K=V, such as env=prod"),
    (("machine", "create", "x", "--priority", "low"), 2, "'Spot'"),
    (("machine", "freeze", "db_0", "--duration", "soon"), 2, "write 90, 90s, 15m"),
    (("machine", "freeze", "db_0", "--duration", "0.5"), 2, "whole number of seconds"),
    (("event", "show", "ABCD"), 3, "run `fairwarning event list "),
    (("event", "show", "00000000-0000-0000-0000-000000000000"), 3, "00000000"),
    (("event", "approve"), 2, "Missing argument"),
    (("event", "list", "--scope", "wb/0"), 3, "did you mean 'web/0'?"),
    (("event", "watch", "--machine", "nobody"), 3, "there is no machine 'nobody'"),
    (("event", "watch", "--scope", "wb/0"), 3, "did you mean 'web/0'?"),
    (("rollout", "start", "wb/0"), 3, "did you mean 'web/0'?"),
    (("fault", "set", "404", "--machine", "web_"), 3, "did you mean 'web_"),
    (("set", "create", "x"), 2, "--capacity"),
    (("set", "create", "web", "--capacity", "1"), 4, "web"),
    (("set", "create", "x", "--capacity", "-1"), 2, "-1"),
    (("set", "scale", "web", "many"), 2, "'many' is not a valid integer"),
    (("clock", "run", "fast"), 2, "'fast' is not a valid number"),
    (("clock", "run", "nan"), 2, "'nan' is not a number such as 5 or 0.5"),
    (("machine", "degrade", "db_0", "--days", "inf"), 2, "'inf' is not a number such as"),
    (("set", "update", "web"), 2, "nothing to change"),
    (("set", "update", "web", "--terminate-notice", "16m"), 4, "PT15M"),
    (("set", "create", "x", "--capacity", "1", "--terminate-notice", "4m"), 4, "PT5M"),
    (("set", "delete-instances", "web", "db_0"), 2, "write a number such as 3, or web_3"),
    (("set", "delete-instances", "web"), 2, "Missing argument"),
    (("set", "delete-instances", "web", "77", "--yes"), 3, "77"),
    (("set", "upgrade", "web", "77"), 3, "77"),
    (("rollout", "status", "nothing"), 3, "nothing"),
    (("rollout", "start", "--kind", "explode"), 2, "redeploy"),
    (("rollout", "start", "--halt-percent", "101"), 2, "101"),
    (("rollout", "start", "db", "--by-host"), 4, "has no host"),
    (("rollout", "start", "--batch", "101"), 4, "100"),
    (("machine", "restart"), 2, "Missing argument"),
    (("machine", "evict", "db_0"), 4, "this is for Spot machines"),
    (("fault", "set", "418"), 2, "'410'"),
    (("fault", "set", "delay", "--delay", "999"), 4, "delay_seconds must be a number from 0"),
    (("clock", "advance", "-5m"), 2, "A clock is never set back: write a DURATION"),
    (("webhook", "create", "x", "http://elsewhere.example/in"), 4, "webhook_hosts"),
    (("webhook", "create", "x", "u", "--secret-file", "/nowhere"), 2, "/nowhere"),
    (("webhook", "delete", "nothing"), 3, "nothing"),
    (("webhook", "test", "nothing"), 3, "nothing"),
    # What cannot be done is refused before the question whether to go ahead.
    (("rollout", "start", "db", "nowhere"), 3, "there is no scope 'nowhere'"),
    (("rollout", "start", "web/0", "db", "--by-host"), 4, "has no host"),
    (("rollout", "start", "--host", "rack1"), 4, "none of these scopes has a machine"),
    (("machine", "delete", "nobody"), 3, "there is no machine 'nobody'"),
    (("machine", "delete", "nobody", "--yes"), 3, "there is no machine 'nobody'"),
    (("set", "delete", "nothing"), 3, "there is no scale set 'nothing'"),
    (("set", "delete", "nothing", "--yes"), 3, "there is no scale set 'nothing'"),
    (("clock", "advance", "soon"), 2, "write 90, 90s, 15m"),
]


def test_a_machine_of_exec(shared_service: ServiceProcess) -> None:
    """An unknown name is answered with the most similar one."""
    done = run_command("exec", "--data", str(shared_service.data), "wbe_0", "--", "true")
    assert done.returncode == 3
    assert done.stderr == "fairwarning: there is no machine 'wbe_0'; did you mean 'web_0'?\n"


@pytest.mark.parametrize(("words", "code", "message"), WRONG)
def test_wrong_usage(
    shared_service: ServiceProcess, words: tuple[str, ...], code: int, message: str
) -> None:
    """An argument that is unknown, missing, or out of range."""
    shared_service.assert_refused(words, code, message)
