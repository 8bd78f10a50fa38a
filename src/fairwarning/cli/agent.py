"""`fairwarning agent ...`: the agent inside a machine. Uses only the standard library."""

import argparse
import logging
import signal
import sys
from pathlib import Path

from fairwarning.core.errors import FairwarningError
from fairwarning.guest.agent import config, system
from fairwarning.guest.agent.agent import Agent
from fairwarning.guest.agent.config import AgentConfig, HookSettings
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.discover import discover
from fairwarning.guest.events import Event

_FAILED = 1
_CHECK_SECONDS = 10.0

_EXAMPLES = """examples:
  fairwarning agent check                          show the endpoint, this machine and the hooks
  fairwarning agent run --config agent.toml
  fairwarning agent run --dry-run --config agent.toml
"""


def main(words: list[str]) -> None:
    """Run `fairwarning agent`."""
    arguments = _parser().parse_args(words)
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    try:
        settings = _read_config(arguments.config)
        if arguments.verb == "check":
            _check(settings)
        else:
            _run(settings, dry=arguments.dry_run)
    except FairwarningError as error:
        sys.stderr.write(f"Error: {error.message}\n")
        raise SystemExit(_FAILED) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairwarning agent",
        description="Run hooks before, during and after events of this machine, and approve them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="run|check")
    for verb, summary in (
        ("run", "handle events until stopped"),
        ("check", "show the endpoint, the name of this machine and the configured hooks"),
    ):
        subparser = verbs.add_parser(verb, help=summary, description=summary.capitalize() + ".")
        subparser.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help=f"configuration file (default: {system.config_file()})",
        )
        subparser.add_argument("--verbose", action="store_true", help="log debug messages")
        subparser.add_argument(
            "--dry-run",
            action="store_true",
            help="log the hooks that would run; run and approve nothing",
        )
    return parser


def _read_config(path: Path | None) -> AgentConfig:
    default = system.config_file()
    if path is None and not default.exists():
        return AgentConfig()
    return config.read(path or default)


# --- check ----------------------------------------------------------------------------------------


def _check(settings: AgentConfig) -> None:
    """Print each step as it succeeds, so that the output shows where an agent would fail."""
    endpoint = discover(settings.endpoint or None)
    sys.stdout.write(f"endpoint   {endpoint}\n")
    with ScheduledEvents(endpoint, patience=_CHECK_SECONDS) as client:
        sys.stdout.write(f"machine    {settings.name or client.me()}\n")
        document = client.document()
    sys.stdout.write(f"document   incarnation {document.incarnation}\n")
    for event in document.events:
        sys.stdout.write(f"  {_describe_event(event)}\n")
    sys.stdout.write(f"journal    {settings.state}\n")
    if not settings.hooks:
        sys.stdout.write("hooks      none; events are approved immediately\n")
    for hook in settings.hooks:
        sys.stdout.write(f"hook       {_describe_hook(hook)}\n")


def _describe_event(event: Event) -> str:
    when = f"not before {event.not_before:%H:%M:%S} UTC" if event.not_before else event.status
    return f"{event.type} of {', '.join(event.resources)}, {when} ({event.id})"


def _describe_hook(hook: HookSettings) -> str:
    types = ", ".join(sorted(hook.types)) or "any event"
    target = " ".join(hook.command) or hook.url or hook.call
    return f"{hook.name}: when {hook.phase}, for {types}: {target}"


# --- run ------------------------------------------------------------------------------------------


def _run(settings: AgentConfig, *, dry: bool) -> None:
    agent = Agent(settings, dry=dry)
    for number in system.STOP_SIGNALS:
        signal.signal(number, lambda *_: agent.stop())
    agent.run()
