"""The operator API as plain async methods, for the HTTP routes and the page (C4)."""

from fairwarning.console.api.conditions import ClockAndFaultsApi
from fairwarning.console.api.endpoints import endpoints_of
from fairwarning.console.api.events import EventsApi
from fairwarning.console.api.history import JournalApi
from fairwarning.console.api.rollouts import RolloutsApi
from fairwarning.console.api.service import OtherPorts, ServiceApi
from fairwarning.console.api.sets import ScaleSetsApi
from fairwarning.console.api.tokens import TokensApi
from fairwarning.console.api.webhooks import LoadWebhooks, WebhooksApi
from fairwarning.console.readers import FindUrls, no_urls
from fairwarning.service.config.settings import CloudSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.health import HealthSource
from fairwarning.service.issued_tokens import IssuedTokens

__all__ = ["ENDPOINTS", "Api"]


class Api(
    ServiceApi,
    ScaleSetsApi,
    EventsApi,
    RolloutsApi,
    ClockAndFaultsApi,
    JournalApi,
    WebhooksApi,
    TokensApi,
):
    """The whole operator API of one fleet."""

    def __init__(
        self,
        fleet: Fleet,
        cloud: CloudSettings,
        webhooks: LoadWebhooks,
        tokens: IssuedTokens,
        *,
        health: HealthSource = tuple,
        machine_urls: FindUrls = no_urls,
        other_ports: OtherPorts | None = None,
    ) -> None:
        super().__init__(fleet, cloud)
        self.load_webhooks = webhooks
        self.other_parts = health
        self.machine_urls = machine_urls
        self.issued_tokens = tokens
        self.other_ports = other_ports or OtherPorts()


ENDPOINTS = tuple(endpoints_of(Api))
