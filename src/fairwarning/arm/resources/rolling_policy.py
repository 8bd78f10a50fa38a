"""The rolling upgrade policy of a scale set, checked and with Azure's defaults."""

from dataclasses import dataclass

from fairwarning.arm.http.request import Body
from fairwarning.arm.resources.documents import invalid_value, typed_value
from fairwarning.core import limits, times
from fairwarning.core.errors import Refused
from fairwarning.core.model import ScaleSet

_POLICY = "properties.upgradePolicy.rollingUpgradePolicy"
_PERCENT = 20  # Azure's default of each share
_PERCENT_MIN = 5


@dataclass(frozen=True)
class RollingPolicy:
    """How a rolling upgrade goes through the instances."""

    batch_percent: int = _PERCENT
    unhealthy_percent: int = _PERCENT
    unhealthy_upgraded_percent: int = _PERCENT
    pause_seconds: int = 0

    def document(self) -> Body:
        """Return the policy in Azure's form."""
        return {
            "maxBatchInstancePercent": self.batch_percent,
            "maxUnhealthyInstancePercent": self.unhealthy_percent,
            "maxUnhealthyUpgradedInstancePercent": self.unhealthy_upgraded_percent,
            "pauseTimeBetweenBatches": times.format_duration(self.pause_seconds),
        }

    def lanes(self, scale_set: ScaleSet) -> int:
        """Return how many placement groups are upgraded at once, an update domain of each."""
        groups = len(scale_set.groups)
        domains = groups * scale_set.update_domains * self.batch_percent // 100
        return max(1, min(domains, groups, limits.ROLLOUT_BATCH_MAX))


def parse(body: Body) -> RollingPolicy:
    """Return the policy of a set's body; refuse values that Azure does not allow."""
    policy = typed_value(body, _POLICY, dict, {})
    return RollingPolicy(
        batch_percent=_percent(policy, "maxBatchInstancePercent"),
        unhealthy_percent=_percent(policy, "maxUnhealthyInstancePercent"),
        unhealthy_upgraded_percent=_percent(policy, "maxUnhealthyUpgradedInstancePercent", 0),
        pause_seconds=_pause(policy),
    )


def _percent(policy: Body, name: str, least: int = _PERCENT_MIN) -> int:
    percent: int = typed_value(policy, name, int, _PERCENT)
    if not least <= percent <= 100:  # noqa: PLR2004  (percent)
        text = f"a whole number from {least} to 100"
        raise invalid_value(f"{_POLICY}.{name}", percent, text)
    return percent


def _pause(policy: Body) -> int:
    text: str = typed_value(policy, "pauseTimeBetweenBatches", str, "PT0S")
    most = limits.ROLLOUT_PAUSE_MAX_SECONDS
    allowed = f"an ISO 8601 duration, PT0S to {times.format_duration(most)}"
    try:
        seconds = times.parse_duration(text)
    except Refused as refused:
        raise invalid_value(f"{_POLICY}.pauseTimeBetweenBatches", text, allowed) from refused
    if seconds > most:
        raise invalid_value(f"{_POLICY}.pauseTimeBetweenBatches", text, allowed)
    return seconds
