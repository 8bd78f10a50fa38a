"""Exit codes and metrics, from the program and from a service that was made for it."""

import re
import tempfile
from pathlib import Path

from fairwarning.cli import options
from fairwarning.guest.agent import agent
from fairwarning.server.wiring import ServerOptions, ServerProcess
from fairwarning.service.config.fleet_file import FleetFile
from fairwarning.service.metrics import Metric
from fairwarning.service.webhooks.targets import AllowedTargets
from fairwarning.service.webhooks.webhooks import WebhookService
from tests.docs.chapters.cli import helps
from tests.docs.chapters.page import page, table

_USAGE = 2


def exit_codes() -> str:
    """The page of what scripts are told."""
    rows = [
        ["0", "done"],
        [str(options.FAILED), "failed: the service is not up, or what was waited for went wrong"],
        [str(_USAGE), "wrong usage: a word, an option or a file that is not what it must be"],
        [
            str(options.NOT_FOUND),
            "there is no machine, set, event, operation or rollout of that name",
        ],
        [str(options.REFUSED), "refused by the service; the error says what is allowed"],
    ]
    own = [
        [f"`fairwarning {words}`", re.sub(r"\s+", " ", found[0]).strip()]
        for words, text in helps().items()
        if (found := re.search(r"(Exits with|Exit codes)[^.]*\.", text))
        and "--wait" not in text
        and "COMMAND [ARGS]" not in text
    ]
    return page(
        "Exit codes",
        "They are the same for every command, so that a script can tell what to do next. An error "
        "is one sentence on stderr.",
        table(["code", "means"], rows),
        "With `--wait` a command ends when what it asked for is over, and with 1 if that failed.",
        "## Commands with codes of their own",
        table(["command", "what its help says"], own),
    )


def metrics() -> str:
    """The page of what Prometheus reads."""
    with tempfile.TemporaryDirectory() as folder:
        local = ServerProcess(ServerOptions(data=Path(folder), fleet=FleetFile(), memory=True))
        figures = [*local._figures(), *WebhookService(local.fleet, AllowedTargets()).metrics()]
    return page(
        "Metrics",
        "What `/metrics` on the console's address (`--console`, 127.0.0.1:8170) gives Prometheus. "
        "No token is needed. [Run it as a service](../service.md) says which of them to watch.",
        table(["metric", "kind", "label", "what it counts"], [_row(one) for one in figures]),
        "The process's own are there too: `process_cpu_seconds_total`, "
        "`process_resident_memory_bytes`, `process_open_fds` and so on.",
        "## The agent's",
        "With `listen` in [its configuration](../agent.md#health), at `/metrics`:",
        table(["metric"], [[f"`fairwarning_agent_{name}`"] for name in _agent()]),
    )


def _row(one: Metric) -> list[str]:
    name = one.name if one.gauge else one.name.removesuffix("_total") + "_total"
    kind = "gauge" if one.gauge else "counter"
    return [f"`{name}`", kind, f"`{one.label}`" if one.label else "", one.help]


def _agent() -> list[str]:
    """What the agent counts, and what it measures."""
    return sorted({*agent.FIGURES, "seconds_since_reading"})
