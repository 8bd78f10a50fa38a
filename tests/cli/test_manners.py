"""Rules for every command: help with examples, fast start, clear errors, shell completion."""

import json
import os
from importlib import import_module
from pathlib import Path

import click
import pytest

from tests.fixtures.programs import run_program, run_python
from tests.fixtures.service import PROGRAM, ServiceProcess, run_command

GROUPS = (
    *("machine", "set", "event", "operation", "rollout", "clock", "fault", "webhook"),
    *("completion", "context", "healthcheck"),
)


def commands(group: str) -> list[tuple[str, click.Command]]:
    """Return a command and all its subcommands."""
    top: click.Command = import_module(f"fairwarning.cli.commands.{group}").command
    below = top.commands.items() if isinstance(top, click.Group) else ()
    return [(group, top), *((f"{group} {name}", command) for name, command in below)]


ALL = [
    pytest.param(name, command, id=name) for group in GROUPS for name, command in commands(group)
]


@pytest.mark.parametrize(("name", "command"), ALL)
def test_help_has_examples(name: str, command: click.Command) -> None:
    """Each --help ends with examples of that command; lines fit in 80 columns, none is cut."""
    context = click.Context(command, info_name=f"fairwarning {name}", terminal_width=80)
    text = command.get_help(context)
    _, _, examples = text.partition("Examples")
    assert f"fairwarning {name}" in examples
    assert max(map(len, text.splitlines())) <= 80
    assert not [line for line in text.splitlines()[1:] if line.endswith("...")]


@pytest.mark.parametrize(("name", "command"), ALL)
def test_every_read_has_json(name: str, command: click.Command) -> None:
    """Commands that read have --json; commands with --watch have it too."""
    words = {word for parameter in command.params for word in parameter.opts}
    if name.rsplit(maxsplit=1)[-1] in {"list", "show", "explain", "watch"}:
        assert "--json" in words
    assert "--watch" not in words or "--json" in words


def test_slow_modules_are_imported_late() -> None:
    """Help and shell completion import neither rich, nor the service, nor HTTP."""
    code = f"import sys; sys.argv = ['fairwarning', *{('machine', 'list', '--help')!r}]\n"
    code += "".join(f"import fairwarning.cli.commands.{group}\n" for group in GROUPS)
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


def test_colour_only_on_a_terminal(service: ServiceProcess) -> None:
    """A pipe gets no escape sequences, nor does --json."""
    service.poll("web_0")
    service.run("machine", "restart", "web_0")
    for words in (("machine", "list"), ("event", "list"), ("machine", "show", "web_0")):
        text, json_text = service.run(*words).stdout, service.run(*words, "--json").stdout
        assert "\x1b" not in text + json_text
        json.loads(json_text)
