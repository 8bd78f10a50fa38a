"""Entities that are set aside because of a bug (IB1)."""

from fairwarning.console.api import responses, views
from fairwarning.console.api.endpoints import endpoint
from fairwarning.console.api.section import OPERATOR, ApiSection
from fairwarning.core.commands import Release


class SetAsideApi(ApiSection):
    """Show entities that are set aside, and release them."""

    @endpoint("GET", "/api/set-aside")
    async def set_aside(self) -> responses.SetAsideList:
        """List entities that are set aside because of a bug."""
        return responses.SetAsideList(
            set_aside=[
                responses.SetAsideInfo(
                    entity=entity.id,
                    reason=entity.reason,
                    since=views.time(entity.since),
                    attempts=entity.attempts,
                    retry_at=views.time(entity.retry_at),
                )
                for entity in self.fleet.set_aside.all()
            ]
        )

    @endpoint("DELETE", "/api/set-aside/{entity:path}", status=204)
    async def release(self, entity: str, actor: str = OPERATOR) -> None:
        """Release an entity: what is due on it is tried again at once."""
        await self.fleet.submit(Release(entity=entity, actor=actor))
