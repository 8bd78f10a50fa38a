"""The endpoint table of the operator API: methods, paths, bodies and responses (C4)."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from fairwarning.console.api import Api, bodies, responses
from fairwarning.console.api.filters import (
    EVENT_FILTERS,
    JOURNAL_FILTERS,
    MACHINE_FILTERS,
    OPERATION_FILTERS,
    ROLLOUT_FILTERS,
    event_filter,
    journal_filter,
    machine_filter,
    operation_status,
    rollout_status,
)
from fairwarning.console.api.machines import ACTIONS, SET_ACTIONS
from fairwarning.console.api.rollouts import ROLLOUT_ACTIONS
from fairwarning.console.api.section import MAX_PAGE_SIZE, PAGE_SIZE
from fairwarning.core.errors import Refused
from fairwarning.service.tokens import TokenClaims

_MAX_DIGITS = 18
_DAY_SECONDS = 24 * 3600


@dataclass(frozen=True)
class ApiRequest:
    """A request as endpoints see it: path, query, settings and actor."""

    request: Request
    settings: Mapping[str, Any]
    token: TokenClaims

    @property
    def actor(self) -> str:
        """The name that the journal records."""
        return self.token.principal.name

    def path_param(self, name: str) -> str:
        """Return a path parameter."""
        return str(self.request.path_params[name])

    @property
    def key(self) -> str:
        """The idempotency key."""
        return self.request.headers.get("idempotency-key", "")

    def query(self, name: str) -> str:
        """Return a query parameter; empty if it is missing."""
        return self.request.query_params.get(name, "")

    def query_number(
        self, name: str, default: int = 0, least: int = 0, most: int = 10**_MAX_DIGITS
    ) -> int:
        """Return a query parameter that is a whole number."""
        text = self.query(name) or str(default)
        if re.fullmatch(f"[0-9]{{1,{_MAX_DIGITS}}}", text, re.ASCII) and least <= int(text) <= most:
            return int(text)
        raise Refused("BadQuery", f"{name} must be a whole number from {least} to {most}")

    @property
    def limit(self) -> int:
        """The requested page size."""
        return self.query_number("limit", PAGE_SIZE, 1, MAX_PAGE_SIZE)


EndpointHandler = Callable[[Api, ApiRequest], Awaitable[Any]]


@dataclass(frozen=True)
class ApiEndpoint:
    """An endpoint: its method, path, summary, handler, body and response."""

    method: str
    path: str
    summary: str
    handle: EndpointHandler
    response: type | None = None
    body: type[bodies.Body] | None = None
    status: int = 200
    query: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of path parameters


async def _clock(api: Api, _: ApiRequest) -> responses.ClockInfo:
    return api.clock()


async def _about(api: Api, request: ApiRequest) -> responses.ServiceInfo:
    return api.about(request.token)


async def _faults(api: Api, _: ApiRequest) -> responses.FaultList:
    return api.faults()


async def _journal(api: Api, request: ApiRequest) -> responses.JournalPage:
    if request.query("newest") == "true":
        return await api.newest_lines(
            request.query_number("before") or None,
            request.limit,
            request.query("scope"),
            journal_filter(request.query),
        )
    for name in ("scope", *JOURNAL_FILTERS):
        if request.query(name):
            raise Refused("BadQuery", f"the {name} filter needs newest=true")
    return await api.journal(request.query_number("after"), request.limit, request.query("event"))


_LIMIT = {"limit": f"Page size, 1 to {MAX_PAGE_SIZE}."}
_NEXT = {"after": "`next` of the previous page.", **_LIMIT}
_ACTION = {"action": tuple(ACTIONS)}

ENDPOINTS = (
    # --- The whole fleet ---
    ApiEndpoint(
        "GET", "/api/summary", "Count machines, scopes, events and rollouts by their states.",
        lambda api, _: api.summary(), responses.SummaryInfo,
    ),
    # --- Machines and scopes ---
    ApiEndpoint(
        "GET", "/api/machines", "List machines by number.",
        lambda api, req: api.machines(
            req.query_number("after"), req.limit, machine_filter(req.query)
        ),
        responses.MachineList, query={**_NEXT, **MACHINE_FILTERS},
    ),
    ApiEndpoint(
        "POST", "/api/machines", "Create one or more standalone machines.",
        lambda api, req: api.create_machines(req.settings, req.key, req.actor),
        responses.MachineList, bodies.NewMachine, 201,
    ),
    ApiEndpoint(
        "GET", "/api/machines/{name:path}/explain", "Explain a machine's recent activity.",
        lambda api, req: api.explain_machine(req.path_param("name")), responses.ExplanationInfo,
    ),
    ApiEndpoint(
        "GET", "/api/machines/{name:path}", "Get a machine.",
        lambda api, req: api.machine(req.path_param("name")), responses.MachineInfo,
    ),
    ApiEndpoint(
        "PATCH", "/api/machines/{name:path}", "Change a machine's address.",
        lambda api, req: api.update_machine(req.path_param("name"), req.settings, req.actor),
        responses.MachineInfo, bodies.MachineChanges,
    ),
    ApiEndpoint(
        "POST", "/api/machines/{name:path}/{action}", "Start an action on a machine.",
        lambda api, req: api.act(
            req.path_param("name"), req.path_param("action"), req.settings, req.key, req.actor
        ),
        responses.AcceptedOperation, bodies.ActSettings, 202, choices=_ACTION,
    ),
    ApiEndpoint(
        "GET", "/api/scopes", "List scopes with their machines, by scope id.",
        lambda api, req: api.scopes(req.query("after"), req.limit),
        responses.ScopeList, query=_NEXT,
    ),
    ApiEndpoint(
        "GET", "/api/scopes/{id:path}", "Get a scope.",
        lambda api, req: api.scope(req.path_param("id")), responses.ScopeInfo,
    ),
    # --- Scale sets ---
    ApiEndpoint(
        "GET", "/api/sets", "List scale sets by name.",
        lambda api, req: api.sets(req.query("after"), req.limit),
        responses.ScaleSetList, query=_NEXT,
    ),
    ApiEndpoint(
        "POST", "/api/sets", "Create a scale set.",
        lambda api, req: api.create_set(req.settings, req.key, req.actor),
        responses.ScaleSetInfo, bodies.NewSet, 201,
    ),
    ApiEndpoint(
        "GET", "/api/sets/{name}", "Get a scale set.",
        lambda api, req: api.set(req.path_param("name")), responses.ScaleSetInfo,
    ),
    ApiEndpoint(
        "PATCH", "/api/sets/{name}", "Change a scale set's model.",
        lambda api, req: api.update_set(req.path_param("name"), req.settings, req.actor),
        responses.ScaleSetInfo, bodies.SetChanges,
    ),
    ApiEndpoint(
        "DELETE", "/api/sets/{name}", "Delete a scale set; each instance gets its notice first.",
        lambda api, req: api.delete_set(req.path_param("name"), req.key, req.actor),
        responses.AcceptedOperation, status=202,
    ),
    ApiEndpoint(
        "POST", "/api/sets/{name}/scale", "Set the number of instances.",
        lambda api, req: api.scale_set(req.path_param("name"), req.settings, req.key, req.actor),
        responses.AcceptedOperation, bodies.Capacity, 202,
    ),
    ApiEndpoint(
        "POST", "/api/sets/{name}/upgrade", "Upgrade instances to the latest model.",
        lambda api, req: api.upgrade_set(req.path_param("name"), req.settings, req.actor),
        responses.ScaleSetInfo, bodies.Instances,
    ),
    ApiEndpoint(
        "POST", "/api/sets/{name}/{action}", "Start an action on instances of a scale set.",
        lambda api, req: api.act_on_set(
            req.path_param("name"), req.path_param("action"), req.settings, req.key, req.actor
        ),
        responses.AcceptedOperation, bodies.Instances, 202, choices={"action": SET_ACTIONS},
    ),
    # --- Events and operations ---
    ApiEndpoint(
        "GET", "/api/events", "List live events by their start, or events that are over.",
        lambda api, req: api.events(
            req.query("after"), req.limit, event_filter(req.query, api.fleet.clock.now())
        ),
        responses.EventList, query={**_NEXT, **EVENT_FILTERS},
    ),
    ApiEndpoint(
        "GET", "/api/events/{id}", "Get an event, live or over.",
        lambda api, req: api.event(req.path_param("id")), responses.EventInfo,
    ),
    ApiEndpoint(
        "GET", "/api/events/{id}/explain",
        "Explain an event: deliveries, approvals, what it waits for, and why.",
        lambda api, req: api.explain_event(req.path_param("id")), responses.ExplanationInfo,
    ),
    ApiEndpoint(
        "POST", "/api/events/{id}/approve", "Approve an event, so that it starts now.",
        lambda api, req: api.approve(req.path_param("id"), req.actor), responses.EventInfo,
        bodies.NoSettings,
    ),
    ApiEndpoint(
        "POST", "/api/events/{id}/cancel", "Cancel an event.",
        lambda api, req: api.cancel(req.path_param("id"), req.actor), responses.EventInfo,
        bodies.NoSettings,
    ),
    ApiEndpoint(
        "GET", "/api/operations", "List operations, the newest first.",
        lambda api, req: api.operations(
            req.query("after"), req.limit, operation_status(req.query), req.query("prefix")
        ),
        responses.OperationList, query={**_NEXT, **OPERATION_FILTERS},
    ),
    ApiEndpoint(
        "GET", "/api/operations/{id:path}/explain", "Explain an operation.",
        lambda api, req: api.explain_operation(req.path_param("id")), responses.ExplanationInfo,
    ),
    ApiEndpoint(
        "GET", "/api/operations/{id:path}", "Get an operation.",
        lambda api, req: api.operation(req.path_param("id")), responses.OperationInfo,
    ),
    ApiEndpoint(
        "GET", "/api/timeline", "List events that are scheduled, in progress or recently ended.",
        lambda api, req: api.timeline(req.query_number("seconds", 3600, 1, 7 * _DAY_SECONDS)),
        responses.TimelineInfo, query={"seconds": "How many seconds to look back, up to a week."},
    ),
    # --- Rollouts ---
    ApiEndpoint(
        "GET", "/api/rollouts", "List rollouts by id.",
        lambda api, req: api.rollouts(
            req.query("after"), req.limit, rollout_status(req.query), req.query("prefix")
        ),
        responses.RolloutList, query={**_NEXT, **ROLLOUT_FILTERS},
    ),
    ApiEndpoint(
        "POST", "/api/rollouts", "Start a rollout, one update domain or one host at a time.",
        lambda api, req: api.start_rollout(req.settings, req.key, req.actor),
        responses.RolloutDetails, bodies.NewRollout, 201,
    ),
    ApiEndpoint(
        "POST", "/api/rollouts/plan", "Plan a rollout without starting it.",
        lambda api, req: api.plan_rollout(req.settings),
        responses.RolloutPlan, bodies.NewRollout,
    ),
    ApiEndpoint(
        "GET", "/api/rollouts/{id}", "Get a rollout with its progress and what it waits for.",
        lambda api, req: api.rollout(req.path_param("id")), responses.RolloutDetails,
    ),
    ApiEndpoint(
        "GET", "/api/rollouts/{id}/lanes", "List the lanes of a rollout by number.",
        lambda api, req: api.lanes(req.path_param("id"), req.query_number("after"), req.limit),
        responses.LaneList, query=_NEXT,
    ),
    ApiEndpoint(
        "POST", "/api/rollouts/{id}/{action}", "Pause, resume or abort a rollout.",
        lambda api, req: api.control_rollout(
            req.path_param("id"), req.path_param("action"), req.actor
        ),
        responses.RolloutDetails, bodies.NoSettings, choices={"action": tuple(ROLLOUT_ACTIONS)},
    ),
    # --- Time and faults ---
    ApiEndpoint("GET", "/api/clock", "Get the fleet's time.", _clock, responses.ClockInfo),
    ApiEndpoint(
        "POST", "/api/clock", "Advance the virtual clock, or set its rate.",
        lambda api, req: api.set_clock(req.settings), responses.ClockInfo, bodies.ClockChange,
    ),
    ApiEndpoint("GET", "/api/faults", "List the active faults.", _faults, responses.FaultList),
    ApiEndpoint(
        "POST", "/api/faults", "Inject a fault into the metadata endpoint.",
        lambda api, req: api.put_fault(req.settings), None, bodies.NewFault, 204,
    ),
    ApiEndpoint(
        "DELETE", "/api/faults", "Clear all faults.",
        lambda api, _: api.clear_faults(), status=204,
    ),
    # --- The journal ---
    ApiEndpoint(
        "GET", "/api/journal", "List journal lines: who did what, when and why.",
        _journal, responses.JournalPage,
        query={
            **_NEXT,
            "event": "Only of this event.",
            "newest": "`true`: newest first.",
            "before": "With `newest`: `next` of the previous page.",
            "scope": "With `newest`: only of this scope.",
            **{name: f"With `newest`: {text[0].lower()}{text[1:]}"
               for name, text in JOURNAL_FILTERS.items()},
        },
    ),
    # --- Scenarios and webhooks ---
    ApiEndpoint(
        "GET", "/api/scenarios", "List the bundled scenarios.",
        lambda api, _: api.scenarios(), responses.ScenarioList,
    ),
    ApiEndpoint(
        "POST", "/api/scenarios/{name}/run", "Run a scenario on a separate fleet.",
        lambda api, req: api.run_scenario(req.path_param("name")),
        responses.ScenarioResultInfo, bodies.NoSettings,
    ),
    ApiEndpoint(
        "GET", "/api/webhooks", "List webhooks.",
        lambda api, _: api.webhooks(), responses.WebhookList,
    ),
    ApiEndpoint(
        "POST", "/api/webhooks", "Create a webhook that receives every event change.",
        lambda api, req: api.create_webhook(req.settings, req.actor),
        responses.CreatedWebhook, bodies.NewWebhook, 201,
    ),
    ApiEndpoint(
        "DELETE", "/api/webhooks/{name}", "Delete a webhook.",
        lambda api, req: api.remove_webhook(req.path_param("name"), req.actor), status=204,
    ),
    ApiEndpoint(
        "POST", "/api/webhooks/{name}/test", "Send a test message to a webhook.",
        lambda api, req: api.test_webhook(req.path_param("name")),
        responses.WebhookTestResult, bodies.NoSettings,
    ),
    # --- The service and its tokens ---
    ApiEndpoint(
        "GET", "/api/service", "Get the service's version and control plane, and who you are.",
        _about, responses.ServiceInfo,
    ),
    ApiEndpoint(
        "GET", "/api/tokens", "List tokens that have not expired, by id.",
        lambda api, req: api.tokens(req.query("after"), req.limit),
        responses.TokenList, query=_NEXT,
    ),
    ApiEndpoint(
        "POST", "/api/tokens", "Create a token, or a client secret. Needs a bearer token.",
        lambda api, req: api.create_token(req.settings, req.token),
        responses.CreatedToken, bodies.NewToken, 201,
    ),
    ApiEndpoint(
        "GET", "/api/tokens/{id}", "Get a token, without its text.",
        lambda api, req: api.token(req.path_param("id")), responses.TokenInfo,
    ),
    ApiEndpoint(
        "POST", "/api/tokens/revoke",
        "Revoke tokens, and those that were got with them: all of them or none.",
        lambda api, req: api.revoke_tokens(req.settings, req.actor),
        responses.RevokedTokens, bodies.TokenIds,
    ),
)  # fmt: skip
