"""`fairwarning agent ...`: the agent inside a machine. Needs the standard library only."""

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
  fairwarning agent check                          find the endpoint, say who I am, what would run
  fairwarning agent run --config agent.toml
  fairwarning agent run --dry-run --config agent.toml
"""


def main(words: list[str]) -> None:
    """The noun `agent`."""
    given = _parser().parse_args(words)
    logging.basicConfig(
        level=logging.DEBUG if given.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    try:
        chosen = _config(given.config)
        if given.verb == "check":
            _check(chosen)
        else:
            _run(chosen, dry=given.dry_run)
    except FairwarningError as error:
        sys.stderr.write(f"Error: {error.message}\n")
        raise SystemExit(_FAILED) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairwarning agent",
        description="Run hooks before, at and after what happens to this machine, and approve it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="run|check")
    for verb, about in (
        ("run", "watch for events until it is stopped"),
        ("check", "find the endpoint, say who this machine is, and what would run"),
    ):
        one = verbs.add_parser(verb, help=about, description=about.capitalize() + ".")
        one.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help=f"what to do about events (default: {system.config_file()})",
        )
        one.add_argument("--verbose", action="store_true", help="log everything")
        one.add_argument(
            "--dry-run", action="store_true", help="say what would run, run and approve nothing"
        )
    return parser


def _config(path: Path | None) -> AgentConfig:
    usual = system.config_file()
    if path is None and not usual.exists():
        return AgentConfig()
    return config.read(path or usual)


# --- check ----------------------------------------------------------------------------------------


def _check(chosen: AgentConfig) -> None:
    """What an agent would do here, step by step, and where it would fail."""
    where = discover(chosen.endpoint or None)
    sys.stdout.write(f"endpoint   {where}\n")
    with ScheduledEvents(where, patience=_CHECK_SECONDS) as client:
        sys.stdout.write(f"machine    {chosen.name or client.me()}\n")
        document = client.document()
    sys.stdout.write(f"document   incarnation {document.incarnation}\n")
    for event in document.events:
        sys.stdout.write(f"  {_told(event)}\n")
    sys.stdout.write(f"journal    {chosen.state}\n")
    if not chosen.hooks:
        sys.stdout.write("hooks      none: events are approved as they come\n")
    for hook in chosen.hooks:
        sys.stdout.write(f"hook       {_shown(hook)}\n")


def _told(event: Event) -> str:
    when = f"not before {event.not_before:%H:%M:%S} UTC" if event.not_before else event.status
    return f"{event.type} of {', '.join(event.resources)}, {when} ({event.id})"


def _shown(hook: HookSettings) -> str:
    kinds = ", ".join(sorted(hook.types)) or "any event"
    what = " ".join(hook.command) or hook.url or hook.call
    return f"{hook.name}: when {hook.phase}, for {kinds}: {what}"


# --- run ------------------------------------------------------------------------------------------


def _run(chosen: AgentConfig, *, dry: bool) -> None:
    agent = Agent(chosen, dry=dry)
    for one in system.STOP_SIGNALS:
        signal.signal(one, lambda *_: agent.stop())
    agent.run()
