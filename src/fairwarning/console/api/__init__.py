"""The operator API as plain async methods, for the HTTP routes and the page (C4)."""

from fairwarning.console.api.about import AboutApi, ControlPlane
from fairwarning.console.api.conditions import ClockAndFaultsApi
from fairwarning.console.api.endpoints import endpoints_of
from fairwarning.console.api.events import EventsApi
from fairwarning.console.api.history import JournalApi
from fairwarning.console.api.integrations import IntegrationsApi, LoadWebhooks, ScenarioRunner
from fairwarning.console.api.rollouts import RolloutsApi
from fairwarning.console.api.sets import ScaleSetsApi
from fairwarning.console.api.summary import SummaryApi
from fairwarning.console.api.tokens import TokensApi
from fairwarning.console.readers import FindUrls, no_urls
from fairwarning.service.config.settings import CloudSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.issued_tokens import IssuedTokens

__all__ = ["ENDPOINTS", "Api"]


class Api(
    SummaryApi,
    ScaleSetsApi,
    EventsApi,
    RolloutsApi,
    ClockAndFaultsApi,
    JournalApi,
    IntegrationsApi,
    AboutApi,
    TokensApi,
):
    """The whole operator API of one fleet."""

    def __init__(
        self,
        fleet: Fleet,
        cloud: CloudSettings,
        webhooks: LoadWebhooks,
        tokens: IssuedTokens,
        scenarios: ScenarioRunner | None = None,
        *,
        machine_urls: FindUrls = no_urls,
        control_plane: ControlPlane | None = None,
    ) -> None:
        IntegrationsApi.__init__(self, fleet, cloud, webhooks, scenarios)
        self.machine_urls = machine_urls
        self.issued_tokens = tokens
        self.control_plane = control_plane or ControlPlane()


ENDPOINTS = tuple(endpoints_of(Api))
