"""Every command of the command line with its arguments and options, as an outline."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path

import click

from fairwarning.cli import agent
from fairwarning.cli.commands import listing, program
from fairwarning.cli.commands.listing import Listing
from fairwarning.cli.parameters import options
from tests.docs.chapters.cli import tree
from tests.release.promises.outline import REQUIRED, Outline, outline_of

_COLUMNS = re.compile(r"Columns to show, separated by commas: (.*)\.")


def commands() -> Outline:
    """Return the outline of all commands; options that many commands share are listed once."""
    shared = {
        "[options of lists]": _added_by(listing.list_options(Listing("", "", ()))),
        "[options that name a service]": _added_by(options.service),
    }
    outline: Outline = {"fairwarning": _parameters(program.params), **shared}
    for words, command in tree().items():
        outline[words] = _shortened(_parameters(command.params), shared)
    return outline | _agent()


def _added_by(decorate: Callable[[Callable[..., None]], Callable[..., None]]) -> Outline:
    """Return the options that a decorator adds to a command, but for those that differ."""
    decorated = decorate(lambda **_: None)
    parameters: list[click.Parameter] = vars(decorated)["__click_params__"]
    return _parameters(param for param in parameters if param.name != "columns")


def _shortened(parameters: Outline, shared: Mapping[str, Outline]) -> Outline:
    """Replace each group of shared options by one line."""
    for name, group in shared.items():
        if group.items() <= parameters.items():
            own = {line: parts for line, parts in parameters.items() if line not in group}
            parameters = own | {name: {}}
    return parameters


def _parameters(parameters: Iterable[click.Parameter]) -> Outline:
    shown = [param for param in parameters if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if isinstance(param, click.Argument)]
    others = [param for param in shown if isinstance(param, click.Option)]
    outline: Outline = {}
    for number, argument in enumerate(arguments, 1):
        outline[f"{number}. {_argument(argument)}"] = outline_of(_choices(argument.type))
    for option in sorted(others, key=lambda option: _longest(option.opts)):
        outline[f"{_longest(option.opts)}: {_option(option)}"] = outline_of(_option_parts(option))
    return outline


def _argument(argument: click.Argument) -> str:
    several = "..." if argument.nargs == -1 else ""
    name = (argument.name or "").upper().strip("_")
    return f"{name}{several}: {_type(argument.type)}" + (
        f" {REQUIRED}" if argument.required else ""
    )


def _option(option: click.Option) -> str:
    text = "flag" if option.is_flag else _type(option.type)
    text += ", repeatable" if option.multiple else ""
    if option.required:
        return f"{text} {REQUIRED}"
    computed = option.show_default if isinstance(option.show_default, str) else ""
    default = computed or _default(option.default)
    return f"{text} = {default}" if default and not option.is_flag else text


def _option_parts(option: click.Option) -> Iterator[str]:
    name = _longest(option.opts)
    yield from (f"also {other}" for other in sorted(option.opts) if other != name)
    yield from (f"opposite {other}" for other in sorted(option.secondary_opts))
    if option.envvar:
        yield f"variable {option.envvar}"
    yield from _choices(option.type)
    if columns := _COLUMNS.search(option.help or ""):
        yield from (f"column {column}" for column in columns[1].split(", "))


def _longest(names: Iterable[str]) -> str:
    return max(names, key=len)


def _type(kind: click.ParamType[object]) -> str:
    if isinstance(kind, click.Choice):
        return "choice" if kind.case_sensitive else "choice, in any case"
    if isinstance(kind, click.IntRange | click.FloatRange):
        ends = ["" if end is None else f"{end:g}" for end in (kind.min, kind.max)]
        return f"{kind.name.removesuffix(' range')} {ends[0]}..{ends[1]}"
    if isinstance(kind, click.Path | click.File):
        return "path"
    return kind.name


def _choices(kind: click.ParamType[object]) -> list[str]:
    return [f"choice {_text(choice)}" for choice in getattr(kind, "choices", ())]


def _default(value: object) -> str:
    """Return a constant default; empty if there is none, or if it is computed."""
    constant = isinstance(value, str | int | float | Path) and not isinstance(value, bool)
    return _text(value) if constant else ""


def _text(value: object) -> str:
    return str(value.value if isinstance(value, Enum) else value)


# --- The agent, whose parser is argparse's -------------------------------------------------------


def _agent() -> Outline:
    parser = agent._parser()
    (verbs,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    return {
        f"agent {verb}": {
            f"{action.option_strings[-1]}: {_action(action)}": outline_of(
                f"choice {choice}" for choice in action.choices or ()
            )
            for action in sorted(subparser._actions, key=lambda action: action.option_strings[-1])
            if action.dest != "help"
        }
        for verb, subparser in verbs.choices.items()
    }


def _action(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "flag"
    text = "choice" if action.choices else "path" if action.type is Path else "text"
    if action.required:
        return f"{text} {REQUIRED}"
    return f"{text} = {action.default}" if action.default else text
