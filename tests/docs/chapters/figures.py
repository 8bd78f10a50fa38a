"""Exit codes and metrics, from the program and from a service created for this page."""

import re
import tempfile
from pathlib import Path

from fairwarning.cli.output import errors
from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.agent_metrics import MetricFamily
from fairwarning.server.options import ServerOptions
from fairwarning.server.wiring import ServerProcess
from fairwarning.service.config.fleet_file import FleetFile
from fairwarning.service.metrics import Metric
from fairwarning.service.webhooks.targets import AllowedTargets
from fairwarning.service.webhooks.webhooks import WebhookService
from tests.docs.chapters.cli import helps
from tests.docs.chapters.page import page, table

_USAGE = 2


def exit_codes() -> str:
    """Return the page of exit codes."""
    rows = [
        ["0", "success"],
        [str(errors.FAILED), "failure: the service is not running, or the operation failed"],
        [str(_USAGE), "wrong usage: an invalid argument, option or file"],
        [
            str(errors.NOT_FOUND),
            "not found: no machine, set, event, operation or rollout has this name",
        ],
        [str(errors.REFUSED), "refused by the service; the error says what is allowed"],
    ]
    own = [
        [f"`fairwarning {words}`", re.sub(r"\s+", " ", match[0]).strip()]
        for words, text in helps().items()
        if (match := re.search(r"(Exits with|Exit codes)[^.]*\.", text))
        and "--wait" not in text
        and "COMMAND [ARGS]" not in text
    ]
    return page(
        "Exit codes",
        "Exit codes are the same for all commands. An error is one sentence on stderr.",
        table(["code", "meaning"], rows),
        "With `--wait` a command exits when its operation has ended, with 1 if it failed.",
        "## Commands with other exit codes",
        table(["command", "exit codes"], own),
    )


def metrics() -> str:
    """Return the page of metrics."""
    with tempfile.TemporaryDirectory() as folder:
        local = ServerProcess(ServerOptions(data=Path(folder), fleet=FleetFile(), memory=True))
        figures = [*local.ports.metrics(), *WebhookService(local.fleet, AllowedTargets()).metrics()]
    return page(
        "Metrics",
        "The service serves these metrics for Prometheus at `/metrics` on the console's address "
        "(`--console`, 127.0.0.1:8170). They need no token. "
        "[Run in production](../production.md#alerts) says which of them to alert on.",
        table(["metric", "type", "label", "meaning"], [_row(metric) for metric in figures]),
        "The standard process metrics are included too: `process_cpu_seconds_total`, "
        "`process_resident_memory_bytes`, `process_open_fds` and so on.",
        "## Metrics of the agent",
        "With `listen` in [its configuration](../agent-service.md#metrics), at `/metrics`:",
        table(["metric", "type", "labels", "meaning"], _agent()),
    )


def _row(metric: Metric) -> list[str]:
    name = metric.name if metric.gauge else metric.name.removesuffix("_total") + "_total"
    kind = "gauge" if metric.gauge else "counter"
    return [f"`{name}`", kind, f"`{metric.label}`" if metric.label else "", metric.help]


def _agent() -> list[list[str]]:
    return [
        [f"`{family.name}`", family.kind, _names(family.labels), family.meaning]
        for family in agent_families()
    ]


def agent_families() -> list[MetricFamily]:
    """Return the agent's metrics."""
    return sorted(agent_metrics.FAMILIES, key=lambda family: family.name)


def _names(labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{label}`" for label in labels)
