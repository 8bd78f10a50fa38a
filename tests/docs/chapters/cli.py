"""The command line, from the program's own help."""

import os
from collections.abc import Iterator
from importlib import import_module
from unittest import mock

import click

from fairwarning.cli import agent
from fairwarning.cli.commands import COMMANDS, SUMMARIES
from tests.docs.chapters.page import page, table

WIDTH = 80


def tree() -> dict[str, click.Command]:
    """Every command by what is typed for it, a group before its verbs; `agent` is not click's."""
    found: dict[str, click.Command] = {}
    for noun in SUMMARIES:
        if noun != "agent":
            command: click.Command = import_module(f"fairwarning.cli.{noun}").command
            found |= dict(_walk(noun, command))
    return found


def _walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for verb in sorted(command.commands):
            yield from _walk(f"{words} {verb}", command.commands[verb])


def agent_help() -> dict[str, str]:
    """The same of `agent`, which a bare install has."""
    with mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH + 2)}):
        parser = agent._parser()
        (verbs,) = [one for one in parser._actions if hasattr(one, "choices") and one.choices]
        texts = {"agent": parser.format_help()}
        for verb, own in dict(verbs.choices or {}).items():
            texts[f"agent {verb}"] = own.format_help()
        return texts


def helps() -> dict[str, str]:
    """What `--help` says, by command, in the order of the program."""
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
    """The page."""
    return page(
        "The command line",
        "What `--help` says of every command. Each needs the service that `fairwarning up` runs, "
        "but for `scenario`, `certify`, `agent` and `completion`. They find it by the folder of "
        "its data, `.fairwarning` below where you are, or `--data`. What their exit codes mean is "
        "[on a page of its own](exit-codes.md).",
        table(["", "what it is for"], _overview()),
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
