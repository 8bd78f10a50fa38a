"""The table of the operator's API: what each request does, takes and gives (C4)."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from fairwarning.console.api import Api, bodies, shapes
from fairwarning.console.api.machines import ACTIONS, OF_A_SET
from fairwarning.console.api.part import MOST, PAGE
from fairwarning.console.api.rollouts import STEERING
from fairwarning.core.errors import Refused

_DIGITS = 18
_DAY_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Ask:
    """A request, as far as an endpoint wants to know it."""

    request: Request
    settings: Mapping[str, Any]
    actor: str

    def named(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    @property
    def key(self) -> str:
        """What makes a repeat known as one."""
        return self.request.headers.get("idempotency-key", "")

    def text(self, name: str) -> str:
        """A part of the query."""
        return self.request.query_params.get(name, "")

    def number(self, name: str, standing: int = 0, least: int = 0, most: int = 10**_DIGITS) -> int:
        """A whole number of the query."""
        text = self.text(name) or str(standing)
        if re.fullmatch(f"[0-9]{{1,{_DIGITS}}}", text, re.ASCII) and least <= int(text) <= most:
            return int(text)
        raise Refused("BadQuery", f"{name} must be a whole number from {least} to {most}")

    @property
    def limit(self) -> int:
        """How long a page is to be."""
        return self.number("limit", PAGE, 1, MOST)


Call = Callable[[Api, Ask], Awaitable[Any]]


@dataclass(frozen=True)
class Endpoint:
    """A method and a path, what they do, and in which shapes."""

    method: str
    path: str
    about: str
    call: Call
    answer: type | None = None
    body: type[bodies.Body] | None = None
    status: int = 200
    query: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # a path's part is one of


async def _clock(api: Api, _: Ask) -> shapes.Clock:
    return api.clock()


async def _faults(api: Api, _: Ask) -> shapes.Faults:
    return api.faults()


async def _journal(api: Api, ask: Ask) -> shapes.Lines:
    if ask.text("newest") == "true":
        return await api.newest(ask.number("before") or None, ask.limit, ask.text("scope"))
    if ask.text("scope"):
        raise Refused("BadQuery", "the lines of a scope come the newest first: say newest=true")
    return await api.journal(ask.number("after"), ask.limit, ask.text("event"))


_LIMIT = {"limit": f"How many at most, 1 to {MOST}."}
_NEXT = {"after": "`next` of the page before.", **_LIMIT}
_ACT = {"action": tuple(ACTIONS)}

ENDPOINTS = (
    # --- Machines and scopes ---
    Endpoint(
        "GET", "/api/machines", "Machines, in order of their numbers.",
        lambda api, ask: api.machines(
            ask.number("after"), ask.limit, ask.text("scope"), ask.text("set")
        ),
        shapes.Machines,
        query={**_NEXT, "scope": "All of this scope.", "set": "All of this scale set."},
    ),
    Endpoint(
        "POST", "/api/machines", "Create a machine by itself, or several.",
        lambda api, ask: api.create_machines(ask.settings, ask.key, ask.actor),
        shapes.Machines, bodies.NewMachine, 201,
    ),
    Endpoint(
        "GET", "/api/machines/{name:path}/explain", "What happened to a machine lately.",
        lambda api, ask: api.explain_machine(ask.named("name")), shapes.Story,
    ),
    Endpoint(
        "GET", "/api/machines/{name:path}", "One machine.",
        lambda api, ask: api.machine(ask.named("name")), shapes.Machine,
    ),
    Endpoint(
        "POST", "/api/machines/{name:path}/{action}", "Let something happen to a machine.",
        lambda api, ask: api.act(
            ask.named("name"), ask.named("action"), ask.settings, ask.key, ask.actor
        ),
        shapes.Accepted, bodies.ActSettings, 202, words=_ACT,
    ),
    Endpoint(
        "GET", "/api/scopes", "Scopes with their machines, in order of their ids.",
        lambda api, ask: api.scopes(ask.text("after"), ask.limit), shapes.Scopes, query=_NEXT,
    ),
    Endpoint(
        "GET", "/api/scopes/{id:path}", "One scope.",
        lambda api, ask: api.scope(ask.named("id")), shapes.Scope,
    ),
    # --- Scale sets ---
    Endpoint(
        "GET", "/api/sets", "Scale sets, in order of their names.",
        lambda api, ask: api.sets(ask.text("after"), ask.limit), shapes.Sets, query=_NEXT,
    ),
    Endpoint(
        "POST", "/api/sets", "Create a scale set.",
        lambda api, ask: api.create_set(ask.settings, ask.key, ask.actor),
        shapes.Set, bodies.NewSet, 201,
    ),
    Endpoint(
        "GET", "/api/sets/{name}", "One scale set.",
        lambda api, ask: api.set(ask.named("name")), shapes.Set,
    ),
    Endpoint(
        "PATCH", "/api/sets/{name}", "Change a scale set's model.",
        lambda api, ask: api.update_set(ask.named("name"), ask.settings, ask.actor),
        shapes.Set, bodies.SetChanges,
    ),
    Endpoint(
        "DELETE", "/api/sets/{name}", "Delete a scale set, each instance with its notice.",
        lambda api, ask: api.delete_set(ask.named("name"), ask.key, ask.actor),
        shapes.Accepted, status=202,
    ),
    Endpoint(
        "POST", "/api/sets/{name}/scale", "So many instances from now on.",
        lambda api, ask: api.scale_set(ask.named("name"), ask.settings, ask.key, ask.actor),
        shapes.Accepted, bodies.Capacity, 202,
    ),
    Endpoint(
        "POST", "/api/sets/{name}/upgrade", "Bring instances to the present model.",
        lambda api, ask: api.upgrade_set(ask.named("name"), ask.settings, ask.actor),
        shapes.Set, bodies.Instances,
    ),
    Endpoint(
        "POST", "/api/sets/{name}/{action}", "Let something happen to instances of a set.",
        lambda api, ask: api.act_on_set(
            ask.named("name"), ask.named("action"), ask.settings, ask.key, ask.actor
        ),
        shapes.Accepted, bodies.Instances, 202, words={"action": OF_A_SET},
    ),
    # --- Events and operations ---
    Endpoint(
        "GET", "/api/events", "Events that are there, scope by scope.",
        lambda api, ask: api.events(
            ask.text("after"), ask.limit, ask.text("scope"), ask.text("machine")
        ),
        shapes.Events,
        query={**_NEXT, "scope": "Only of this scope.", "machine": "Only of this machine."},
    ),
    Endpoint(
        "GET", "/api/events/{id}", "One event, also when it is over.",
        lambda api, ask: api.event(ask.named("id")), shapes.Event,
    ),
    Endpoint(
        "GET", "/api/events/{id}/explain", "Who was told, who approved, what is awaited, and why.",
        lambda api, ask: api.explain_event(ask.named("id")), shapes.Story,
    ),
    Endpoint(
        "POST", "/api/events/{id}/approve", "Start an event now.",
        lambda api, ask: api.approve(ask.named("id"), ask.actor), shapes.Event,
        bodies.Nothing,
    ),
    Endpoint(
        "POST", "/api/events/{id}/cancel", "An event will not happen after all.",
        lambda api, ask: api.cancel(ask.named("id"), ask.actor), shapes.Event,
        bodies.Nothing,
    ),
    Endpoint(
        "GET", "/api/operations/{id:path}/explain", "What became of an operation.",
        lambda api, ask: api.explain_operation(ask.named("id")), shapes.Story,
    ),
    Endpoint(
        "GET", "/api/operations/{id:path}", "One operation.",
        lambda api, ask: api.operation(ask.named("id")), shapes.Operation,
    ),
    Endpoint(
        "GET", "/api/timeline", "What is planned, under way, and lately over.",
        lambda api, ask: api.timeline(ask.number("seconds", 3600, 1, 7 * _DAY_SECONDS)),
        shapes.Timeline, query={"seconds": "How far back, up to a week."},
    ),
    # --- Rollouts ---
    Endpoint(
        "GET", "/api/rollouts", "Rollouts, in order of their ids.",
        lambda api, ask: api.rollouts(ask.text("after"), ask.limit), shapes.Rollouts, query=_NEXT,
    ),
    Endpoint(
        "POST", "/api/rollouts", "Work through machines, an update domain or a host at a time.",
        lambda api, ask: api.start_rollout(ask.settings, ask.key, ask.actor),
        shapes.Rollout, bodies.NewRollout, 201,
    ),
    Endpoint(
        "GET", "/api/rollouts/{id}", "One rollout, and how far it is.",
        lambda api, ask: api.rollout(ask.named("id")), shapes.Rollout,
    ),
    Endpoint(
        "POST", "/api/rollouts/{id}/{action}", "Pause a rollout, let it go on, or end it.",
        lambda api, ask: api.steer_rollout(ask.named("id"), ask.named("action"), ask.actor),
        shapes.Rollout, bodies.Nothing, words={"action": tuple(STEERING)},
    ),
    # --- Time and faults ---
    Endpoint("GET", "/api/clock", "The fleet's time.", _clock, shapes.Clock),
    Endpoint(
        "POST", "/api/clock", "Let virtual time pass, or run.",
        lambda api, ask: api.set_clock(ask.settings), shapes.Clock, bodies.ClockChange,
    ),
    Endpoint("GET", "/api/faults", "The faults in force.", _faults, shapes.Faults),
    Endpoint(
        "POST", "/api/faults", "Let the metadata endpoint misbehave.",
        lambda api, ask: api.put_fault(ask.settings), None, bodies.NewFault, 204,
    ),
    Endpoint(
        "DELETE", "/api/faults", "All is well again.",
        lambda api, _: api.clear_faults(), status=204,
    ),
    # --- The journal ---
    Endpoint(
        "GET", "/api/journal", "Who did what, when and why.", _journal, shapes.Lines,
        query={
            **_NEXT,
            "event": "Only of this event.",
            "newest": "`true`: the newest first.",
            "before": "With `newest`: `next` of the page before.",
            "scope": "With `newest`: only of this scope.",
        },
    ),
    # --- Scenarios and webhooks ---
    Endpoint(
        "GET", "/api/scenarios", "The scenarios that ship with it.",
        lambda api, _: api.scenarios(), shapes.Scenarios,
    ),
    Endpoint(
        "POST", "/api/scenarios/{name}/run", "Run a scenario in a cloud of its own.",
        lambda api, ask: api.run_scenario(ask.named("name")), shapes.Verdict, bodies.Nothing,
    ),
    Endpoint(
        "GET", "/api/webhooks", "Whom every change of an event is sent to.",
        lambda api, _: api.webhooks(), shapes.Webhooks,
    ),
    Endpoint(
        "POST", "/api/webhooks", "Send every change of an event there.",
        lambda api, ask: api.create_webhook(ask.settings, ask.actor),
        shapes.CreatedWebhook, bodies.NewWebhook, 201,
    ),
    Endpoint(
        "DELETE", "/api/webhooks/{name}", "Send nothing more there.",
        lambda api, ask: api.remove_webhook(ask.named("name"), ask.actor), status=204,
    ),
    Endpoint(
        "POST", "/api/webhooks/{name}/test", "Send a message that is about nothing.",
        lambda api, ask: api.test_webhook(ask.named("name")), shapes.Sent, bodies.Nothing,
    ),
)  # fmt: skip
