"""Ids that users may abbreviate to their first characters."""

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.core.errors import NotFound

SHORTEST = 4  # characters of an abbreviated id
_LENGTHS = {"event": 36, "operation": 32, "token": 16}
_MATCHES = 5  # named if an id is ambiguous


def full_id(service: ServiceTarget, noun: str, prefix: str) -> str:
    """Return the id of the event, operation, rollout or token that begins so.

    Ids of full length are not looked up: an event may be over.
    """
    if len(prefix) >= _LENGTHS.get(noun, 10**6):
        return prefix.upper() if noun == "event" else prefix
    if len(prefix) < SHORTEST and noun != "rollout":  # users name rollouts
        text = f"{noun} id {prefix!r} is too short; give at least {SHORTEST} characters"
        raise click.UsageError(text)
    if noun == "token":
        items = client.list_all(service, "tokens")
    else:
        items = client.read_list(service, f"{noun}s", _MATCHES, prefix=prefix).items
    matches = [str(item["id"]) for item in items if item["id"].lower().startswith(prefix.lower())]
    if prefix in matches:
        return prefix
    if len(matches) > 1:
        text = f"{noun} id {prefix!r} is ambiguous; it matches {', '.join(matches[:_MATCHES])}"
        raise click.UsageError(text)
    if not matches:
        active = "active " if noun == "event" else ""
        hint = service.command_line(f"{noun} list")
        text = f"no {active}{noun} has an id starting with {prefix!r}; run `{hint}`"
        raise NotFound(f"Unknown{noun.title()}", text)
    return matches[0]
