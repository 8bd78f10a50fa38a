"""Rules for every command: help with examples, fast start, clear errors, shell completion."""

import os
import re
from pathlib import Path

import click
import pytest

from fairwarning.cli.command_list import SUMMARIES
from tests.docs.chapters.cli import helps, tree
from tests.fixtures.programs import run_program, run_python
from tests.fixtures.service import PROGRAM, ServiceProcess, run_command

SLOW = {"agent", "certify", "exec", "up"}
"""Commands that import what they run."""
ALL = [pytest.param(name, command, id=name) for name, command in tree().items()]
HELPS = helps()


@pytest.mark.parametrize("name", tree())
def test_help_has_examples(name: str) -> None:
    """Each --help ends with examples of that command; lines fit in 80 columns, none is cut."""
    text = HELPS[name]
    _, _, examples = text.partition("Examples")
    assert f"fairwarning {name}" in examples
    copied = re.compile(r"    (fairwarning|eval|\"http)")
    folded = [line for line in text.splitlines() if not copied.match(line)]
    assert max(map(len, folded)) <= 80
    assert not [line for line in folded if line.startswith("  -") and line.endswith("...")]


@pytest.mark.parametrize("name", tree())
def test_own_options_come_first(name: str) -> None:
    """Those that name a service are the same everywhere, in a section of their own."""
    own, _, connection = HELPS[name].partition("Connection options:")
    assert "  -h, --help" in own
    if connection:
        shared = [word for word in ("--server", "--context", "--data") if f"  {word} " in own]
        assert not shared


@pytest.mark.parametrize("words", [(), ("machine",), ("machine", "list"), ("agent", "run")])
def test_the_short_option_for_help(words: tuple[str, ...]) -> None:
    """-h prints what --help does."""
    short, long = run_command(*words, "-h"), run_command(*words, "--help")
    assert (short.returncode, short.stdout) == (0, long.stdout)


def test_the_version() -> None:
    """The command prints what the option does."""
    assert run_command("version").stdout == run_command("--version").stdout


RENAMED = [
    (("machine", "freeze", "web_0", "--seconds", "5"), "--seconds is now --duration"),
    (("machine", "migrate", "web_0", "--seconds", "5"), "--seconds is now --duration"),
    (("rollout", "start", "--seconds", "5"), "--seconds is now --duration"),
    (("fault", "set", "500", "--seconds", "5"), "--seconds is now --duration"),
    (("webhook", "remove", "pager"), "It is now `fairwarning webhook delete`."),
    (("rollout", "show", "autumn"), "It is now `fairwarning rollout status`."),
    (("token", "a b"), "run `fairwarning token create 'a b' --role ROLE`."),
]


@pytest.mark.parametrize(("words", "answer"), RENAMED)
def test_an_old_name(words: tuple[str, ...], answer: str) -> None:
    """An option or a command that had another name is answered with the new one."""
    done = run_command(*words)
    assert done.returncode == 2
    assert answer in done.stderr


@pytest.mark.parametrize(("name", "command"), ALL)
def test_every_read_has_json(name: str, command: click.Command) -> None:
    """Commands that read have --json; commands with --watch have it too."""
    words = {word for parameter in command.params for word in parameter.opts}
    reads = name.rsplit(maxsplit=1)[-1] in {"list", "show", "explain", "watch"}
    if reads and name != "scenario show":  # prints a file
        assert "--json" in words
    assert "--watch" not in words or "--json" in words


def test_slow_modules_are_imported_late() -> None:
    """Help and shell completion import neither rich, nor the service, nor HTTP."""
    code = f"import sys; sys.argv = ['fairwarning', *{('machine', 'list', '--help')!r}]\n"
    names = sorted(SUMMARIES.keys() - SLOW)
    code += "".join(f"import fairwarning.cli.commands.{name}\n" for name in names)
    code += "slow = 'rich', 'http.client', 'fairwarning.server.wiring'\n"
    code += "print([name for name in slow if name in sys.modules])"
    assert run_python(code, check=True).stdout == "[]\n"


# --- Shell completion ----------------------------------------------------------------------------


def complete(data: Path, *words: str) -> list[str]:
    """Return the completions of the last word in bash."""
    line = ["fairwarning", *words[:2], "--data", str(data), *words[2:]]
    env = os.environ | {
        "_FAIRWARNING_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    done = run_command(env=env)
    assert done.stderr == ""
    return [item.partition(",")[2] for item in done.stdout.splitlines() if item]


def test_completion_of_names(tmp_path: Path) -> None:
    """Names from the service are completed while it is up; otherwise there are none."""
    data = tmp_path / "data"
    with ServiceProcess(data, "--sample", "--memory", "--clock", "virtual") as service:
        service.poll("web_0")
        event = service.json("machine", "restart", "web_0")[0]["events"][0]["id"]
        service.json("rollout", "start", "db", "--id", "autumn")
        assert complete(data, "machine", "restart", "we") == ["web_0", "web_1", "web_2"]
        assert complete(data, "set", "show", "w") == ["web"]
        assert complete(data, "event", "approve", event[:5].lower()) == [event]
        assert complete(data, "rollout", "pause", "a") == ["autumn"]
        assert "web/0" in complete(data, "event", "list", "--scope", "web")
        assert complete(data, "machine", "restart", "--wa") == ["--wait"]
    assert complete(data, "machine", "restart", "we") == []


def test_the_completion_scripts(tmp_path: Path) -> None:
    """The script works in a real bash; the others are printed."""
    here = tmp_path / "bin"
    here.mkdir()
    (here / "fairwarning").write_text(f'#!/bin/sh\nexec {" ".join(PROGRAM)} "$@"\n')
    (here / "fairwarning").chmod(0o755)
    script = """eval "$(fairwarning completion bash)"
COMP_WORDS=(fairwarning clock adv) COMP_CWORD=2
_fairwarning_completion fairwarning adv clock && echo "${COMPREPLY[@]}"
"""
    env = os.environ | {"PATH": f"{here}:{os.environ['PATH']}"}
    done = run_program("bash", "--norc", "-c", script, env=env)
    assert (done.stdout, done.stderr) == ("advance\n", "")
    for shell in ("zsh", "fish"):
        printed = run_command("completion", shell)
        assert "_FAIRWARNING_COMPLETE" in printed.stdout
        assert printed.returncode == 0
    assert run_command("completion", "csh").returncode == 2
