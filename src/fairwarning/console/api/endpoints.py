"""The table of the operator's API: what each request does, takes and gives (C4)."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from fairwarning.console.api import Api, bodies, responses
from fairwarning.console.api.machines import ACTIONS, OF_A_SET
from fairwarning.console.api.part import MOST, PAGE
from fairwarning.console.api.rollouts import STEERING
from fairwarning.core.errors import Refused

_DIGITS = 18
_DAY_SECONDS = 24 * 3600


@dataclass(frozen=True)
class ApiRequest:
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


Call = Callable[[Api, ApiRequest], Awaitable[Any]]


@dataclass(frozen=True)
class ApiEndpoint:
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


async def _clock(api: Api, _: ApiRequest) -> responses.ClockInfo:
    return api.clock()


async def _faults(api: Api, _: ApiRequest) -> responses.FaultList:
    return api.faults()


async def _journal(api: Api, request: ApiRequest) -> responses.JournalPage:
    if request.text("newest") == "true":
        return await api.newest(
            request.number("before") or None, request.limit, request.text("scope")
        )
    if request.text("scope"):
        raise Refused("BadQuery", "the lines of a scope come the newest first: say newest=true")
    return await api.journal(request.number("after"), request.limit, request.text("event"))


_LIMIT = {"limit": f"How many at most, 1 to {MOST}."}
_NEXT = {"after": "`next` of the page before.", **_LIMIT}
_ACT = {"action": tuple(ACTIONS)}

ENDPOINTS = (
    # --- Machines and scopes ---
    ApiEndpoint(
        "GET", "/api/machines", "Machines, in order of their numbers.",
        lambda api, req: api.machines(
            req.number("after"), req.limit, req.text("scope"), req.text("set")
        ),
        responses.MachineList,
        query={**_NEXT, "scope": "All of this scope.", "set": "All of this scale set."},
    ),
    ApiEndpoint(
        "POST", "/api/machines", "Create a machine by itself, or several.",
        lambda api, req: api.create_machines(req.settings, req.key, req.actor),
        responses.MachineList, bodies.NewMachine, 201,
    ),
    ApiEndpoint(
        "GET", "/api/machines/{name:path}/explain", "What happened to a machine lately.",
        lambda api, req: api.explain_machine(req.named("name")), responses.ExplanationInfo,
    ),
    ApiEndpoint(
        "GET", "/api/machines/{name:path}", "One machine.",
        lambda api, req: api.machine(req.named("name")), responses.MachineInfo,
    ),
    ApiEndpoint(
        "POST", "/api/machines/{name:path}/{action}", "Let something happen to a machine.",
        lambda api, req: api.act(
            req.named("name"), req.named("action"), req.settings, req.key, req.actor
        ),
        responses.AcceptedOperation, bodies.ActSettings, 202, words=_ACT,
    ),
    ApiEndpoint(
        "GET", "/api/scopes", "Scopes with their machines, in order of their ids.",
        lambda api, req: api.scopes(req.text("after"), req.limit), responses.ScopeList, query=_NEXT,
    ),
    ApiEndpoint(
        "GET", "/api/scopes/{id:path}", "One scope.",
        lambda api, req: api.scope(req.named("id")), responses.ScopeInfo,
    ),
    # --- Scale sets ---
    ApiEndpoint(
        "GET", "/api/sets", "Scale sets, in order of their names.",
        lambda api, req: api.sets(req.text("after"), req.limit),
        responses.ScaleSetList, query=_NEXT,
    ),
    ApiEndpoint(
        "POST", "/api/sets", "Create a scale set.",
        lambda api, req: api.create_set(req.settings, req.key, req.actor),
        responses.ScaleSetInfo, bodies.NewSet, 201,
    ),
    ApiEndpoint(
        "GET", "/api/sets/{name}", "One scale set.",
        lambda api, req: api.set(req.named("name")), responses.ScaleSetInfo,
    ),
    ApiEndpoint(
        "PATCH", "/api/sets/{name}", "Change a scale set's model.",
        lambda api, req: api.update_set(req.named("name"), req.settings, req.actor),
        responses.ScaleSetInfo, bodies.SetChanges,
    ),
    ApiEndpoint(
        "DELETE", "/api/sets/{name}", "Delete a scale set, each instance with its notice.",
        lambda api, req: api.delete_set(req.named("name"), req.key, req.actor),
        responses.AcceptedOperation, status=202,
    ),
    ApiEndpoint(
        "POST", "/api/sets/{name}/scale", "So many instances from now on.",
        lambda api, req: api.scale_set(req.named("name"), req.settings, req.key, req.actor),
        responses.AcceptedOperation, bodies.Capacity, 202,
    ),
    ApiEndpoint(
        "POST", "/api/sets/{name}/upgrade", "Bring instances to the present model.",
        lambda api, req: api.upgrade_set(req.named("name"), req.settings, req.actor),
        responses.ScaleSetInfo, bodies.Instances,
    ),
    ApiEndpoint(
        "POST", "/api/sets/{name}/{action}", "Let something happen to instances of a set.",
        lambda api, req: api.act_on_set(
            req.named("name"), req.named("action"), req.settings, req.key, req.actor
        ),
        responses.AcceptedOperation, bodies.Instances, 202, words={"action": OF_A_SET},
    ),
    # --- Events and operations ---
    ApiEndpoint(
        "GET", "/api/events", "Events that are there, scope by scope.",
        lambda api, req: api.events(
            req.text("after"), req.limit, req.text("scope"), req.text("machine")
        ),
        responses.EventList,
        query={**_NEXT, "scope": "Only of this scope.", "machine": "Only of this machine."},
    ),
    ApiEndpoint(
        "GET", "/api/events/{id}", "One event, also when it is over.",
        lambda api, req: api.event(req.named("id")), responses.EventInfo,
    ),
    ApiEndpoint(
        "GET", "/api/events/{id}/explain", "Who was told, who approved, what is awaited, and why.",
        lambda api, req: api.explain_event(req.named("id")), responses.ExplanationInfo,
    ),
    ApiEndpoint(
        "POST", "/api/events/{id}/approve", "Start an event now.",
        lambda api, req: api.approve(req.named("id"), req.actor), responses.EventInfo,
        bodies.NoSettings,
    ),
    ApiEndpoint(
        "POST", "/api/events/{id}/cancel", "An event will not happen after all.",
        lambda api, req: api.cancel(req.named("id"), req.actor), responses.EventInfo,
        bodies.NoSettings,
    ),
    ApiEndpoint(
        "GET", "/api/operations/{id:path}/explain", "What became of an operation.",
        lambda api, req: api.explain_operation(req.named("id")), responses.ExplanationInfo,
    ),
    ApiEndpoint(
        "GET", "/api/operations/{id:path}", "One operation.",
        lambda api, req: api.operation(req.named("id")), responses.OperationInfo,
    ),
    ApiEndpoint(
        "GET", "/api/timeline", "What is planned, under way, and lately over.",
        lambda api, req: api.timeline(req.number("seconds", 3600, 1, 7 * _DAY_SECONDS)),
        responses.TimelineInfo, query={"seconds": "How far back, up to a week."},
    ),
    # --- Rollouts ---
    ApiEndpoint(
        "GET", "/api/rollouts", "Rollouts, in order of their ids.",
        lambda api, req: api.rollouts(req.text("after"), req.limit),
        responses.RolloutList, query=_NEXT,
    ),
    ApiEndpoint(
        "POST", "/api/rollouts", "Work through machines, an update domain or a host at a time.",
        lambda api, req: api.start_rollout(req.settings, req.key, req.actor),
        responses.RolloutInfo, bodies.NewRollout, 201,
    ),
    ApiEndpoint(
        "GET", "/api/rollouts/{id}", "One rollout, and how far it is.",
        lambda api, req: api.rollout(req.named("id")), responses.RolloutInfo,
    ),
    ApiEndpoint(
        "POST", "/api/rollouts/{id}/{action}", "Pause a rollout, let it go on, or end it.",
        lambda api, req: api.steer_rollout(req.named("id"), req.named("action"), req.actor),
        responses.RolloutInfo, bodies.NoSettings, words={"action": tuple(STEERING)},
    ),
    # --- Time and faults ---
    ApiEndpoint("GET", "/api/clock", "The fleet's time.", _clock, responses.ClockInfo),
    ApiEndpoint(
        "POST", "/api/clock", "Let virtual time pass, or run.",
        lambda api, req: api.set_clock(req.settings), responses.ClockInfo, bodies.ClockChange,
    ),
    ApiEndpoint("GET", "/api/faults", "The faults in force.", _faults, responses.FaultList),
    ApiEndpoint(
        "POST", "/api/faults", "Let the metadata endpoint misbehave.",
        lambda api, req: api.put_fault(req.settings), None, bodies.NewFault, 204,
    ),
    ApiEndpoint(
        "DELETE", "/api/faults", "All is well again.",
        lambda api, _: api.clear_faults(), status=204,
    ),
    # --- The journal ---
    ApiEndpoint(
        "GET", "/api/journal", "Who did what, when and why.", _journal, responses.JournalPage,
        query={
            **_NEXT,
            "event": "Only of this event.",
            "newest": "`true`: the newest first.",
            "before": "With `newest`: `next` of the page before.",
            "scope": "With `newest`: only of this scope.",
        },
    ),
    # --- Scenarios and webhooks ---
    ApiEndpoint(
        "GET", "/api/scenarios", "The scenarios that ship with it.",
        lambda api, _: api.scenarios(), responses.ScenarioList,
    ),
    ApiEndpoint(
        "POST", "/api/scenarios/{name}/run", "Run a scenario in a cloud of its own.",
        lambda api, req: api.run_scenario(req.named("name")),
        responses.ScenarioResultInfo, bodies.NoSettings,
    ),
    ApiEndpoint(
        "GET", "/api/webhooks", "Whom every change of an event is sent to.",
        lambda api, _: api.webhooks(), responses.WebhookList,
    ),
    ApiEndpoint(
        "POST", "/api/webhooks", "Send every change of an event there.",
        lambda api, req: api.create_webhook(req.settings, req.actor),
        responses.CreatedWebhook, bodies.NewWebhook, 201,
    ),
    ApiEndpoint(
        "DELETE", "/api/webhooks/{name}", "Send nothing more there.",
        lambda api, req: api.remove_webhook(req.named("name"), req.actor), status=204,
    ),
    ApiEndpoint(
        "POST", "/api/webhooks/{name}/test", "Send a message that is about nothing.",
        lambda api, req: api.test_webhook(req.named("name")),
        responses.WebhookTestResult, bodies.NoSettings,
    ),
)  # fmt: skip
