"""What holds for every command: help with examples, quick starts, words for wrong input."""

import json
import os
from importlib import import_module
from pathlib import Path

import click
import pytest

from tests.fixtures.programs import run_program, run_python
from tests.fixtures.service import PROGRAM, ServiceProcess, run_command

NOUNS = (
    *("machine", "set", "event", "operation", "rollout", "clock", "fault", "webhook"),
    "completion",
)


def commands(noun: str) -> list[tuple[str, click.Command]]:
    """A noun and all its verbs."""
    top: click.Command = import_module(f"fairwarning.cli.{noun}").command
    below = top.commands.items() if isinstance(top, click.Group) else ()
    return [(noun, top), *((f"{noun} {name}", verb) for name, verb in below)]


ALL = [pytest.param(name, one, id=name) for noun in NOUNS for name, one in commands(noun)]


@pytest.mark.parametrize(("name", "one"), ALL)
def test_help_shows_examples_that_fit_and_are_right(name: str, one: click.Command) -> None:
    """Each --help ends with examples of that very command, in 80 columns; nothing is cut off."""
    shown = one.get_help(click.Context(one, info_name=f"fairwarning {name}", terminal_width=80))
    _, _, examples = shown.partition("Examples")
    assert f"fairwarning {name}" in examples
    assert max(map(len, shown.splitlines())) <= 80
    assert not [line for line in shown.splitlines()[1:] if line.endswith("...")]


@pytest.mark.parametrize(("name", "one"), ALL)
def test_every_read_gives_json(name: str, one: click.Command) -> None:
    """Whatever only looks takes --json; what goes on takes --watch beside it."""
    words = {word for parameter in one.params for word in parameter.opts}
    if name.rsplit(maxsplit=1)[-1] in {"list", "show", "status", "explain", "watch"}:
        assert "--json" in words
    assert "--watch" not in words or "--json" in words


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    """A --help or a Tab waits neither for rich, nor for the service, nor for HTTP."""
    code = f"import sys; sys.argv = ['fairwarning', *{('machine', 'list', '--help')!r}]\n"
    code += "".join(f"import fairwarning.cli.{noun}\n" for noun in NOUNS)
    code += "slow = 'rich', 'http.client', 'fairwarning.server.wiring'\n"
    code += "print([name for name in slow if name in sys.modules])"
    assert run_python(code, check=True).stdout == "[]\n"


def test_nobody_is_there(tmp_path: Path) -> None:
    """Without a service: a sentence that says how to start one, and exit code 1."""
    for words in (("machine", "list"), ("event", "watch"), ("set", "scale", "web", "1")):
        done = run_command(*words, "--data", str(tmp_path / "none"))
        assert (done.returncode, done.stdout) == (1, "")
        assert "start one with `fairwarning up`" in done.stderr


# --- Tab -----------------------------------------------------------------------------------------


def tab(data: Path, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    line = ["fairwarning", *words[:2], "--data", str(data), *words[2:]]
    asked = os.environ | {
        "_FAIRWARNING_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    done = run_command(env=asked)
    assert done.stderr == ""
    return [one.partition(",")[2] for one in done.stdout.splitlines() if one]


def test_tab_knows_the_names_of_the_service(tmp_path: Path) -> None:
    """Machines, sets, scopes, events and rollouts while it is up; nothing, silently, when not."""
    data = tmp_path / "data"
    with ServiceProcess(data, "--demo", "--memory", "--clock", "virtual") as service:
        service.poll("web_0")
        event = service.json("machine", "restart", "web_0")[0]["events"][0]["id"]
        service.json("rollout", "start", "db", "--id", "autumn")
        assert tab(data, "machine", "restart", "we") == ["web_0", "web_1", "web_2"]
        assert tab(data, "set", "show", "w") == ["web"]
        assert tab(data, "event", "approve", event[:5].lower()) == [event]
        assert tab(data, "rollout", "pause", "a") == ["autumn"]
        assert "web/0" in tab(data, "event", "list", "--scope", "web")
        assert tab(data, "machine", "restart", "--wa") == ["--wait"]
    assert tab(data, "machine", "restart", "we") == []


def test_bash_takes_the_script(tmp_path: Path) -> None:
    """The printed script is loaded by a real bash, which then asks the program."""
    here = tmp_path / "bin"
    here.mkdir()
    (here / "fairwarning").write_text(f'#!/bin/sh\nexec {" ".join(PROGRAM)} "$@"\n')
    (here / "fairwarning").chmod(0o755)
    script = """eval "$(fairwarning completion bash)"
COMP_WORDS=(fairwarning clock adv) COMP_CWORD=2
_fairwarning_completion fairwarning adv clock && echo "${COMPREPLY[@]}"
"""
    asked = os.environ | {"PATH": f"{here}:{os.environ['PATH']}"}
    done = run_program("bash", "--norc", "-c", script, env=asked)
    assert (done.stdout, done.stderr) == ("advance\n", "")
    for shell in ("zsh", "fish"):
        printed = run_command("completion", shell)
        assert "_FAIRWARNING_COMPLETE" in printed.stdout
        assert printed.returncode == 0
    assert run_command("completion", "csh").returncode == 2


def test_colour_only_on_a_terminal(tmp_path: Path) -> None:
    """A pipe gets no escapes, nor does --json."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory", "--clock", "virtual") as service:
        service.poll("web_0")
        service.run("machine", "restart", "web_0")
        for words in (("machine", "list"), ("event", "list"), ("machine", "show", "web_0")):
            plain, scripts = service.run(*words).stdout, service.run(*words, "--json").stdout
            assert "\x1b" not in plain + scripts
            assert max(map(len, plain.splitlines())) <= 80
            json.loads(scripts)
