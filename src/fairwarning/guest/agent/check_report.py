"""The output of `fairwarning agent check`: lines for people, or one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairwarning.guest.agent.check import AgentCheck
from fairwarning.guest.agent.drill import EventPreview
from fairwarning.guest.events import date_text


def check_text(result: AgentCheck) -> str:
    """Return the line of a check, and the next step if there is one."""
    word = "FAILED" if not result.ok else "warning" if result.next_step else "ok"
    line = f"{word:8}{result.what:10} {result.detail}"
    return f"{line}\n{'':8}next step: {result.next_step}" if result.next_step else line


def check_json(results: Sequence[AgentCheck], preview: EventPreview | None) -> dict[str, Any]:
    """Return all checks, and what would happen for an event, as a JSON object."""
    body: dict[str, Any] = {"ok": all(result.ok for result in results)}
    body["checks"] = [
        {
            "ok": result.ok,
            "check": result.what,
            "detail": result.detail,
            "next_step": result.next_step,
        }
        for result in results
    ]
    if preview is not None:
        body["event"] = {
            "type": str(preview.event.type),
            "not_before": date_text(preview.event.not_before),
            "decision": preview.decision,
            "hooks": [
                {
                    "name": run.hook.name,
                    "phase": str(run.phase),
                    "required": run.hook.required,
                    "deadline": date_text(run.deadline),
                }
                for run in preview.hooks
            ],
        }
    return body


def preview_text(preview: EventPreview) -> str:
    """Return what would happen for an event."""
    event = preview.event
    when = date_text(event.not_before)
    lines = [f"\nFor a {event.type} with source {event.source}, not before {when}:"]
    for run in preview.hooks:
        required = ", required" if run.hook.required and run.phase == "scheduled" else ""
        lines.append(
            f"  {run.phase:9}  hook {run.hook.name}, until {date_text(run.deadline)}{required}"
        )
    if not preview.hooks:
        lines.append("  no hook would run")
    return "\n".join([*lines, f"  decision   {preview.decision}"])
