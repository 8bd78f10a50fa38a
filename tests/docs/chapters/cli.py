"""The command-line reference, from the program's own help."""

import os
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from unittest import mock

import click

from fairwarning.cli import agent
from fairwarning.cli.command_list import COMMANDS, SUMMARIES
from fairwarning.cli.commands import program
from tests.docs.chapters.page import page, table

WIDTH = 80
_CONNECTION = re.compile(r"\nConnection options:\n(?:  .*\n)+")


def tree() -> dict[str, click.Command]:
    """Return every click command by its words, a group before its verbs; without `agent`."""
    commands: dict[str, click.Command] = {}
    for noun in SUMMARIES:
        if noun != "agent":
            command: click.Command = import_module(f"fairwarning.cli.commands.{noun}").command
            commands |= dict(_walk(noun, command))
    return commands


def _walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for verb in sorted(command.commands):
            yield from _walk(f"{words} {verb}", command.commands[verb])


def agent_help() -> dict[str, str]:
    """Return the help of `agent` and its verbs; it uses argparse, so that a bare install has it."""
    with mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH + 2)}):
        parser = agent._parser()
        (verbs,) = [action for action in parser._actions if getattr(action, "choices", None)]
        texts = {"agent": parser.format_help()}
        for verb, subparser in dict(verbs.choices or {}).items():
            texts[f"agent {verb}"] = subparser.format_help()
        return texts


@cache
def helps() -> dict[str, str]:
    """Return the output of `--help` by command, in the order of the program."""
    commands, agents = tree(), agent_help()
    above = click.Context(
        program, info_name="fairwarning", terminal_width=WIDTH, **program.context_settings
    )
    texts: dict[str, str] = {}
    for noun in SUMMARIES:
        texts |= agents if noun == "agent" else {}
        for words, command in commands.items():
            if words.split()[0] == noun:
                context = click.Context(command, parent=above, info_name=words)
                texts[words] = command.get_help(context)
    return texts


def write() -> str:
    """Return the overview, with the commands that have no verbs."""
    single = [noun for noun in SUMMARIES if noun not in groups()]
    return page(
        "Command line",
        "The output of `--help`. See also [exit codes](exit-codes.md).",
        table(["command", "purpose"], _overview()),
        "## Connection options",
        "All commands except `up`, `scenario`, `certify`, `agent`, `context`, `completion` and "
        "`version` need a running service (`fairwarning up`). They find it through its data "
        "folder, `.fairwarning` in the current directory or `--data`, or [on another "
        "host](../remote.md) by its URL or a context. Each of them has these options:",
        _block(connection_options()),
        *(part for noun in single for part in _section(noun, helps()[noun])),
    )


def groups() -> list[str]:
    """Return the commands that have verbs."""
    return [noun for noun in SUMMARIES if any(words.startswith(f"{noun} ") for words in helps())]


def write_group(noun: str) -> str:
    """Return the page of a command that has verbs."""
    own, *verbs = [(words, text) for words, text in helps().items() if words.split()[0] == noun]
    connects = any(_CONNECTION.search(text) for _, text in verbs)
    return page(
        f"fairwarning {noun}",
        _block(own[1]),
        *(["See also the [connection options](../cli.md#connection-options)."] if connects else ()),
        *(part for words, text in verbs for part in _section(words, text)),
    )


def _overview() -> Iterator[list[str]]:
    for commands in COMMANDS.values():
        for noun, about in commands.items():
            target = f"cli/{noun}.md" if noun in groups() else f"#{noun}"
            yield [f"[`{noun}`]({target})", about]


def _section(words: str, text: str) -> Iterator[str]:
    yield f"## {words}"
    yield _block(_CONNECTION.sub("", text))


def connection_options() -> str:
    """Return the section about them, which is the same in each help."""
    (section,) = {found[0] for text in helps().values() for found in _CONNECTION.finditer(text)}
    return section


def _block(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```"
