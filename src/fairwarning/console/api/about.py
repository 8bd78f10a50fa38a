"""The service itself: its version, its ports, and who asks."""

from dataclasses import dataclass
from importlib.metadata import version

from fairwarning.console.api import responses
from fairwarning.console.api.endpoints import endpoint
from fairwarning.console.api.section import ApiSection
from fairwarning.console.api.tokens import token_info
from fairwarning.service.issued_tokens import TokenRecord
from fairwarning.service.tokens import TokenClaims


@dataclass(frozen=True)
class OtherPorts:
    """The metadata endpoint and the Azure Resource Manager API, which run beside the console."""

    metadata: str = ""
    arm: str = ""
    ca: str = ""  # PEM, of the latter


class AboutApi(ApiSection):
    """What a client needs to know before it uses the rest."""

    other_ports: OtherPorts

    @endpoint("GET", "/api/service")
    def about(self, caller: TokenClaims) -> responses.ServiceInfo:
        """Get the service's version and ports, and who you are."""
        return responses.ServiceInfo(
            version=version("fairwarning"),
            subscription=self.cloud.subscription,
            metadata=self.other_ports.metadata,
            arm=self.other_ports.arm,
            ca=self.other_ports.ca,
            token=token_info(TokenRecord(claims=caller, revoked_at=None)),
        )
