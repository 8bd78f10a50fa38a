"""The service itself: its version, its control plane, and who asks."""

from dataclasses import dataclass
from importlib.metadata import version

from fairwarning.console.api import responses
from fairwarning.console.api.endpoints import endpoint
from fairwarning.console.api.section import ApiSection
from fairwarning.console.api.tokens import token_info
from fairwarning.service.issued_tokens import TokenRecord
from fairwarning.service.tokens import TokenClaims


@dataclass(frozen=True)
class ControlPlane:
    """The Azure Resource Manager API that runs beside the console."""

    url: str = ""
    ca: str = ""  # PEM


class AboutApi(ApiSection):
    """What a client needs to know before it uses the rest."""

    control_plane: ControlPlane

    @endpoint("GET", "/api/service")
    def about(self, caller: TokenClaims) -> responses.ServiceInfo:
        """Get the service's version and control plane, and who you are."""
        return responses.ServiceInfo(
            version=version("fairwarning"),
            subscription=self.cloud.subscription,
            arm=self.control_plane.url,
            ca=self.control_plane.ca,
            token=token_info(TokenRecord(claims=caller, revoked_at=None)),
        )
