"""`fairwarning agent ...`: the agent inside a machine. Uses only the standard library."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairwarning.core import times
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.guest.agent import config, system
from fairwarning.guest.agent.agent import Agent
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.log_format import LogFormat, configure_logging
from fairwarning.guest.events import Event, EventSource, EventType

if TYPE_CHECKING:
    from fairwarning.guest.agent.check import AgentCheck
    from fairwarning.guest.agent.drill import EventPreview

_PROGRAM = "fairwarning agent"
_FAILED = 1
_ENDPOINT_SECONDS = 5.0  # a drill can do without it
_SLOW_SECONDS = 5.0  # a check of an endpoint that takes longer says why

_EXAMPLES = """examples:
  fairwarning agent check                          prove that the agent can do its work
  fairwarning agent check --event Reboot           show what would run for such an event
  fairwarning agent simulate --event Reboot        run the hooks for an invented event
  fairwarning agent run --config agent.toml
"""
log = logging.getLogger(__name__)


def main(words: list[str], program: str = _PROGRAM) -> None:
    """Run `fairwarning agent`, or the program of another name that is the agent alone."""
    arguments = _parser(program).parse_args(words)
    if arguments.verb == "run":
        system.reap_as_init()  # it forks, and no thread survives that: the log has one
    log_format = LogFormat(getattr(arguments, "log_format", LogFormat.TEXT))
    writer = configure_logging(log_format, verbose=arguments.verbose)
    try:
        settings = _read_config(arguments.config)
        {"run": _run, "check": _check, "simulate": _simulate}[arguments.verb](settings, arguments)
    except FairwarningError as error:
        if log_format is LogFormat.JSON:
            log.error("%s", error.message)  # noqa: TRY400  (the message says it all)
        else:
            writer.put(f"Error: {error.message}")
        raise SystemExit(_FAILED) from error


def _parser(program: str = _PROGRAM) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Run hooks before, during and after events of this machine, and approve them.",
        epilog=_EXAMPLES.replace(_PROGRAM, program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="run|check|simulate")
    run = _add_verb(verbs, "run", "handle events until stopped")
    run.add_argument(
        "--log-format",
        choices=[str(log_format) for log_format in LogFormat],
        default=str(LogFormat.TEXT),
        help="write plain lines or one JSON object per line (default: text)",
    )
    check = _add_verb(
        verbs, "check", "prove that the agent can do its work; run and approve nothing"
    )
    check.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    _add_event(check, required=False, purpose="also show what would run for an event of this type")
    simulate = _add_verb(
        verbs, "simulate", "run the hooks for an invented event, as a drill; approve nothing"
    )
    _add_event(simulate, required=True, purpose="the type of the invented event")
    return parser


def _add_verb(verbs: Any, verb: str, summary: str) -> argparse.ArgumentParser:  # noqa: ANN401  (argparse's own type is private)
    parser: argparse.ArgumentParser = verbs.add_parser(
        verb, help=summary, description=summary.capitalize() + ".", allow_abbrev=False
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="PATH",
        help=f"configuration file, or a folder of .toml files (default: {system.config_file()})",
    )
    parser.add_argument("--verbose", action="store_true", help="log debug messages")
    return parser


def _add_event(parser: argparse.ArgumentParser, *, required: bool, purpose: str) -> None:
    parser.add_argument(
        "--event",
        choices=[str(event_type) for event_type in EventType],
        metavar="TYPE",
        required=required,
        help=f"{purpose}: {', '.join(EventType)}",
    )
    parser.add_argument(
        "--source",
        choices=[str(source) for source in EventSource],
        default=str(EventSource.PLATFORM),
        help="the source of that event (default: Platform)",
    )


def _read_config(path: Path | None) -> AgentConfig:
    default = system.config_file()
    if path is None and not default.exists():
        return AgentConfig()
    return config.read(path or default)


# --- run ------------------------------------------------------------------------------------------


def _run(settings: AgentConfig, arguments: argparse.Namespace) -> None:
    agent = Agent(settings, lambda: _read_config(arguments.config))
    for number in system.STOP_SIGNALS:
        signal.signal(number, lambda *_: agent.stop())
    for number in system.RELOAD_SIGNALS:
        signal.signal(number, lambda *_: agent.reload())
    agent.run()


# --- check ----------------------------------------------------------------------------------------


def _check(settings: AgentConfig, arguments: argparse.Namespace) -> None:
    from fairwarning.guest.agent import check  # noqa: PLC0415  (a running agent needs none)

    results = []
    file = arguments.config or system.config_file()
    slow = "waiting for the endpoint: the first response to a machine may take two minutes"
    waiting = threading.Timer(_SLOW_SECONDS, log.warning, (slow,))
    waiting.daemon = True
    waiting.start()
    for result in check.check_agent(settings, file if file.exists() else None):
        if result.what == "endpoint":
            waiting.cancel()
        results.append(result)
        if not arguments.as_json:
            _print(check.check_text(result))
    preview = _preview(settings, results, arguments) if arguments.event else None
    if arguments.as_json:
        _print(json.dumps(check.check_json(results, preview)))
    elif preview:
        _print(check.preview_text(preview))
    if not all(result.ok for result in results):
        raise SystemExit(_FAILED)


def _preview(
    settings: AgentConfig, results: list[AgentCheck], arguments: argparse.Namespace
) -> EventPreview:
    from fairwarning.guest.agent.drill import invent_event, preview_event  # noqa: PLC0415  (as above)

    names = [result.detail for result in results if result.what == "machine" and result.ok]
    machine = (names or [settings.name or "this machine"])[0]
    now = datetime.now(timezone.utc)
    source = EventSource(arguments.source)
    event = invent_event(EventType(arguments.event), machine, source, now)
    return preview_event(settings, machine, event, now)


# --- simulate -------------------------------------------------------------------------------------


def _simulate(settings: AgentConfig, arguments: argparse.Namespace) -> None:
    from fairwarning.guest.agent.drill import AgentDrill, invent_event  # noqa: PLC0415  (as above)

    for number in system.STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)
    machine = _drill_machine(settings)
    now = datetime.now(timezone.utc)
    event = invent_event(EventType(arguments.event), machine, EventSource(arguments.source), now)
    when = times.iso(int((event.not_before or now).timestamp()))
    _print(f"drill      {event.type} of {machine}, not before {when}")
    try:
        succeeded = AgentDrill(settings, machine, _print).run(event)
    except KeyboardInterrupt:
        _print("drill      interrupted; later hooks, such as those of phase over, have not run")
        succeeded = False
    if not succeeded:
        raise SystemExit(_FAILED)


def _drill_machine(settings: AgentConfig) -> str:
    """Return this machine's name; its host name if the endpoint does not answer.

    Raise `Refused` during a real event: a drill would undo the preparation for it.
    """
    from fairwarning.guest.agent.check import describe_event  # noqa: PLC0415  (as above)
    from fairwarning.guest.client import ScheduledEvents  # noqa: PLC0415  (as above)
    from fairwarning.guest.discover import discover  # noqa: PLC0415  (as above)

    name, events = settings.name, tuple[Event, ...]()
    try:
        with ScheduledEvents(
            discover(settings.endpoint or None), patience=_ENDPOINT_SECONDS
        ) as client:
            name = name or client.me()
            events = client.document().events
    except FairwarningError as error:
        import socket  # noqa: PLC0415  (as above)

        name = name or socket.gethostname()
        log.warning("the drill is for %s; real events are not known: %s", name, error)
    for event in events:
        if event.concerns(name):
            text = f"a drill would undo the preparation for a real event: {describe_event(event)}"
            raise Refused("EventPending", f"{text}; repeat it when the event is over")
    return name


def _print(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"  # of which a file's name may be no text
    sys.stdout.write(f"{text.encode(encoding, 'backslashreplace').decode(encoding)}\n")
    sys.stdout.flush()
