"""The agent's configuration: every key, and every error with its place."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.core.errors import Refused
from fairwarning.guest.agent import system
from fairwarning.guest.agent.config import (
    AgentConfig,
    ApprovalPolicy,
    GroupSettings,
    HookKind,
    HookSettings,
    parse,
    read,
)
from fairwarning.guest.agent.notices import NotifyKind, NotifySettings
from fairwarning.guest.events import EventSource, EventType, Phase
from tests.guest.notices import event

ALL = """
endpoint = "http://169.254.169.254"
name = "vm-1"
state = "/var/lib/agent"
approve = "user events only"
margin_seconds = 7.5
listen = "127.0.0.1:9800"
group.folder = "/shared"

[[hook]]
name = "drain"
phase = "scheduled"
command = ["./drain.sh", "--now"]
on = ["Reboot", "Redeploy"]
source = "Platform"
required = false
order = 20
timeout_seconds = 60

[[hook]]
name = "tell"
phase = "started"
url = "http://10.0.0.1:8080/told?x=1"

[[hook]]
name = "back"
phase = "over"
call = "my.module:function"
boot = true
"""
HOOK = '[[hook]]\nname = "drain"\nphase = "scheduled"\n'
DRAIN = f'{HOOK}command = ["true"]\n'
COMMAND = HOOK + 'command = ["true"]\n'
TEAM = 'notify 1 ("team")'
NOTIFY = '[[notify]]\nname = "team"\n'
SLACK = NOTIFY + 'kind = "slack"\nurl = "https://a/b"\n'


@pytest.mark.spec("G4")
def test_every_key() -> None:
    """Every key sets its field."""
    assert parse(ALL) == AgentConfig(
        hooks=(
            HookSettings(
                name="drain",
                phase=Phase.SCHEDULED,
                kind=HookKind.COMMAND,
                command=("./drain.sh", "--now"),
                types=frozenset({EventType.REBOOT, EventType.REDEPLOY}),
                source=EventSource.PLATFORM,
                required=False,
                timeout=timedelta(seconds=60),
                order=20,
            ),
            HookSettings("tell", Phase.STARTED, HookKind.URL, url="http://10.0.0.1:8080/told?x=1"),
            HookSettings("back", Phase.OVER, HookKind.CALL, call="my.module:function", boot=True),
        ),
        endpoint="http://169.254.169.254",
        name="vm-1",
        state=Path("/var/lib/agent"),
        approve={"": ApprovalPolicy.USER_ONLY},
        margin=timedelta(seconds=7.5),
        listen="127.0.0.1:9800",
        group=GroupSettings(folder="/shared"),
    )
    group = "group = { kubernetes = true, approve_over_failures = true }"
    assert parse(group).group == GroupSettings(kubernetes=True, approve_over_failures=True)


@pytest.mark.spec("G8")
def test_every_key_of_a_notification() -> None:
    """The tables `[[notify]]`."""
    chosen = 'phases = ["failed"]\non = ["Reboot"]\ntext = "{{{type}}} of {machine}"\n'
    (slack,) = parse(SLACK + chosen).notify
    assert slack == NotifySettings(
        name="team",
        kind=NotifyKind.SLACK,
        url="https://a/b",
        phases=frozenset({"failed"}),
        types=frozenset({"Reboot"}),
        text="{{{type}}} of {machine}",
    )


def test_an_empty_configuration() -> None:
    """The defaults are safe."""
    config = parse("")
    assert config == AgentConfig()
    assert config.state == system.state_folder()
    assert config.margin == timedelta(seconds=5)
    assert parse(COMMAND).hooks[0].timeout == timedelta(minutes=5)


@pytest.mark.spec("G5")
def test_a_policy_for_each_type() -> None:
    """`default` applies to the other types; without it, "when done" does."""
    text = '[approve]\nFreeze = "at once"\nPreempt = "never"\ndefault = "user events only"\n'
    config = parse(text)
    assert config.approves(event(type=EventType.FREEZE)) is ApprovalPolicy.AT_ONCE
    assert config.approves(event(type=EventType.PREEMPT)) is ApprovalPolicy.NEVER
    assert config.approves(event(source=EventSource.USER)) is ApprovalPolicy.WHEN_DONE
    assert config.approves(event(source=EventSource.PLATFORM)) is ApprovalPolicy.NEVER
    prepared = f'approve.Freeze = "never"\n{DRAIN}'
    assert parse(prepared).approves(event()) is ApprovalPolicy.WHEN_DONE


@pytest.mark.spec("G5")
@pytest.mark.parametrize("text", ["", 'approve = "when done"', DRAIN.replace("scheduled", "over")])
def test_an_agent_without_hooks_approves_nothing(text: str) -> None:
    """Approving without preparation must be asked for."""
    assert parse(text).approves(event()) is ApprovalPolicy.NEVER
    assert parse(text).approves_nothing
    for asked in ('approve = "at once"', 'approve = "user events only"', DRAIN):
        assert parse(asked).approves(event(source=EventSource.USER)) is not ApprovalPolicy.NEVER
        assert not parse(asked).approves_nothing


@pytest.mark.spec("G5")
def test_events_of_unknown_types_are_not_approved() -> None:
    """Unless the configuration says so: nobody knows what they do to the machine."""
    unknown = replace(event(), type="Levitate")
    for text in (DRAIN, 'approve = "at once"', 'approve.default = "at once"'):
        assert parse(text).approves(unknown) is ApprovalPolicy.NEVER
    assert parse('approve.unknown = "at once"').approves(unknown) is ApprovalPolicy.AT_ONCE


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("x = ", "agent.toml", "this is not TOML: Invalid value (at line 1, column 5)"),
        ("x = " + "[" * 5000, "agent.toml", "thousands of levels"),
        ("hooks = 1", "agent.toml", "there is no key 'hooks'; did you mean hook?"),
        ('endpoint = "a\\u0000"', "endpoint", "a non-empty string"),
        ('endpoint = "ftp://x"', "endpoint", ""),
        ('name = ""', "name", "a non-empty string"),
        ("margin_seconds = true", "margin_seconds", "from 0 to 86400"),
        ("margin_seconds = -1", "margin_seconds", "from 0 to 86400"),
        ("margin_seconds = nan", "margin_seconds", "from 0 to 86400"),
        ('listen = "localhost"', "listen", "HOST:PORT"),
        ('listen = ":80"', "listen", "HOST:PORT"),
        ('listen = "localhost:\u0663"', "listen", "HOST:PORT"),
        ('listen = "127.0.0.1:99999"', "listen", ""),
        ('listen = "a..b:80"', "listen", "a part of the host name is empty or too long"),
        (f'listen = "{80 * "a"}:80"', "listen", "a part of the host name is empty or too long"),
        ('approve = "sometimes"', "approve", "when done, at once, never, user events only"),
        ('approve.Boot = "never"', "approve", "did you mean Reboot?"),
        ('approve.Freeze = "x"', "approve, Freeze", "when done"),
        ("group = 1", "group", "a table, not 1"),
        ("[group]", "group", "one of folder, kubernetes"),
        ('group = { folder = "/a", kubernetes = true }', "group", "one of folder, kubernetes"),
        ("group.kubernetes = false", "group", "kubernetes"),
        ("group.kubernetes = 1", "group, kubernetes", "true or false"),
        ("group.approve_over_failures = true", "group", "one of folder, kubernetes"),
        ("group.x = 1", "group", "no key 'x'; known here: folder, kubernetes"),
        ("[hook]\nname = 'x'", "hook", "[[...]]"),
        ("hook = [1]", "hook 1", "a table"),
        ('[[hook]]\nphase = "over"', "hook 1", "name is missing"),
        ('[[hook]]\nname = "a"', 'hook 1 ("a")', "phase is missing"),
        (COMMAND + "\n[[hook]]\nname = 1\nphase = 1", "hook 2, name", "a non-empty string"),
        (COMMAND + COMMAND, "agent.toml", "two hooks have the name 'drain'"),
        (HOOK, 'hook 1 ("drain")', "one of command, url, call"),
        (COMMAND + 'url = "http://a"', 'hook 1 ("drain")', "one of command, url, call"),
        (
            '[[hook]]\nname = "a"\nphase = "changed"',
            'hook 1 ("a"), phase',
            "scheduled, started, over",
        ),
        (HOOK + 'command = "true"', 'hook 1 ("drain"), command', "a non-empty array"),
        (HOOK + "command = []", 'hook 1 ("drain"), command', "a non-empty array"),
        (HOOK + "command = [1]", 'hook 1 ("drain"), command', "a non-empty string"),
        (HOOK + 'url = "file:///etc/passwd"', 'hook 1 ("drain"), url', "a URL"),
        (HOOK + 'call = "module"', 'hook 1 ("drain"), call', "module:function"),
        (HOOK + 'call = "os:path.join"', 'hook 1 ("drain"), call', "module:function"),
        (COMMAND + 'on = "Reboot"', 'hook 1 ("drain"), on', "a non-empty array"),
        (COMMAND + 'on = ["Boot"]', 'hook 1 ("drain"), on', "Freeze, Reboot"),
        (COMMAND + 'source = "Me"', 'hook 1 ("drain"), source', "Platform, User"),
        (COMMAND + "required = 1", 'hook 1 ("drain"), required', "true or false"),
        (COMMAND + "boot = true", 'hook 1 ("drain")', "only a hook of phase over has boot"),
        (COMMAND + "order = -1", 'hook 1 ("drain"), order', "a whole number"),
        (COMMAND + "order = true", 'hook 1 ("drain"), order', "a whole number"),
        (COMMAND + "timeout_seconds = 0", 'hook 1 ("drain"), timeout_seconds', "more than 0"),
        (
            COMMAND + "timeout_seconds = 90000",
            'hook 1 ("drain"), timeout_seconds',
            "from 0 to 86400",
        ),
        (COMMAND + "timeout = 1", 'hook 1 ("drain")', "did you mean timeout_seconds?"),
        (COMMAND + "timeout_seconds = 1e-9", 'hook 1 ("drain"), timeout_seconds', "more than 0"),
        (HOOK + 'url = "http://me:secret@a b/"', 'hook 1 ("drain"), url', "such as http://HOST"),
        (SLACK + 'text = "{when}"', TEAM, "text: unknown field {when}; use {type}, {machine}"),
        (SLACK + 'text = "{type.name}"', TEAM, "unknown field {type.name}"),
        (SLACK + 'text = "{type:>9}"', TEAM, "unknown field {type:>9}"),
        (SLACK + 'text = "{type"', TEAM, "is not a template"),
        (SLACK + 'phases = ["begun"]', TEAM, "one of scheduled, approved, started, over, failed"),
        (SLACK + 'url_env = "X"', TEAM, "must have one of url, url_file, url_env"),
        (SLACK + SLACK, "agent.toml", "two notifications have the name 'team'"),
        (NOTIFY, TEAM, "kind is missing"),
        (NOTIFY + 'kind = "irc"', TEAM, "kind: must be one of slack, teams, webhook"),
        (NOTIFY + 'kind = "slack"', TEAM, "must have one of url, url_file, url_env"),
        (NOTIFY + 'kind = "slack"\nurl = "htps://secret"', TEAM, "url"),
        (NOTIFY + 'kind = "slack"\nurl = "https://a b/secret"', TEAM, "url"),
        ('[notify]\nname = "a"', "notify: must be an array of tables", "in double brackets"),
    ],
)
@pytest.mark.spec("G8")
def test_every_error_has_its_place(text: str, place: str, says: str) -> None:
    """The text also lists what is allowed, and shows no secret."""
    with pytest.raises(Refused) as refused:
        parse(text)
    message = refused.value.message
    assert refused.value.code == "BadConfig"
    assert message.startswith("agent.toml: ")
    assert place in message
    assert says in message
    assert "secret" not in message


def test_reading_a_file(tmp_path: Path) -> None:
    """Errors contain the file's name."""
    path = tmp_path / "mine.toml"
    path.write_text('name = "vm-1"', "utf-8")
    assert read(path) == AgentConfig(name="vm-1")
    path.write_text("name = 1", "utf-8")
    with pytest.raises(Refused, match=r"mine\.toml: name: must be"):
        read(path)


def test_the_files_of_a_folder(tmp_path: Path) -> None:
    """Together they are one configuration: hooks follow each other, and each key is set once."""
    (tmp_path / "1.toml").write_text(f'listen = "127.0.0.1:1"\n{COMMAND}', "utf-8")
    (tmp_path / "2.toml").write_text(COMMAND.replace("drain", "save"), "utf-8")
    (tmp_path / "save.sh").write_text("not TOML", "utf-8")
    assert [hook.name for hook in read(tmp_path).hooks] == ["drain", "save"]
    assert read(tmp_path).listen == "127.0.0.1:1"
    (tmp_path / "3.toml").write_text('listen = "127.0.0.1:2"\n', "utf-8")
    with pytest.raises(Refused, match=r"3\.toml: another file sets listen"):
        read(tmp_path)
    (tmp_path / "3.toml").write_text(COMMAND, "utf-8")
    with pytest.raises(Refused, match="two hooks have the name 'drain'"):
        read(tmp_path)


def test_a_folder_without_files(tmp_path: Path) -> None:
    """It is a mistake, and not an agent that approves nothing."""
    with pytest.raises(Refused, match=r"the folder has no file that ends in \.toml"):
        read(tmp_path)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_an_unreadable_file(tmp_path: Path, content: bytes | None) -> None:
    """It is missing, or is not UTF-8."""
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Refused, match=r"cannot read .*mine\.toml"):
        read(path)
