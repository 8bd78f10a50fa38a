"""The command-line reference, from the program's own help."""

import os
from collections.abc import Iterator
from importlib import import_module
from unittest import mock

import click

from fairwarning.cli import agent
from fairwarning.cli.command_list import COMMANDS, SUMMARIES
from tests.docs.chapters.page import page, table

WIDTH = 80


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


def helps() -> dict[str, str]:
    """Return the output of `--help` by command, in the order of the program."""
    commands, agents = tree(), agent_help()
    texts: dict[str, str] = {}
    for noun in SUMMARIES:
        texts |= agents if noun == "agent" else {}
        for words, command in commands.items():
            if words.split()[0] == noun:
                name = f"fairwarning {words}"
                context = click.Context(command, info_name=name, terminal_width=WIDTH)
                texts[words] = command.get_help(context)
    return texts


def write() -> str:
    """Return the page."""
    return page(
        "Command-line reference",
        "The output of `--help` for every command. All commands except `scenario`, `certify`, "
        "`agent` and `completion` need a running service (`fairwarning up`). They find it through "
        "its data folder, `.fairwarning` in the current directory or `--data`, or [on another "
        "host](../remote.md) by its URL or a context. "
        "See also [exit codes](exit-codes.md).",
        table(["command", "purpose"], _overview()),
        *(part for words, text in helps().items() for part in _section(words, text)),
    )


def _overview() -> Iterator[list[str]]:
    for group in COMMANDS.values():
        yield from ([f"[`{noun}`](#{noun})", about] for noun, about in group.items())


def _section(words: str, text: str) -> Iterator[str]:
    level = "##" if " " not in words else "###"
    yield f"{level} {words}"
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    yield "```text\n" + "\n".join(lines) + "\n```"
