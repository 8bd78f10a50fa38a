"""The page of webhooks: their delivery state; create, test and remove them."""

from typing import Any

from fairwarning.console.api import bodies
from fairwarning.console.page.form_data import FormDone
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views
from fairwarning.core.errors import Conflict

_SUCCESS = range(200, 300)  # HTTP statuses


async def show(request: PageRequest) -> PageContent:
    """Show all webhooks and a form to create another."""
    return PageContent("webhooks.html", {"webhooks": (await request.api.webhooks()).webhooks})


async def create(request: PageRequest) -> FormDone:
    """Create a webhook; its secret is shown once, in the notice."""
    form = request.form
    settings: dict[str, Any] = {"name": form.text("name"), "url": form.text("url")}
    created = await request.api.create_webhook(bodies.NewWebhook(**settings), request.actor)
    notice = f"Webhook {created.name} created. Its secret, shown only now: {created.secret}"
    return FormDone(notice, "/webhooks")


async def test(request: PageRequest) -> FormDone:
    """Send a test message; a refusal by the receiver is shown beside the button."""
    name = request.path_param("name")
    status = (await request.api.test_webhook(name)).status
    if status not in _SUCCESS:
        raise Conflict("TestFailed", f"the receiver of {name!r} answered with status {status}")
    return FormDone(f"The receiver of {name} answered with status {status}.", "/webhooks")


async def remove(request: PageRequest) -> FormDone:
    """Remove a webhook."""
    name = request.path_param("name")
    await request.api.remove_webhook(name, request.actor)
    return FormDone(f"Webhook {name} removed.", "/webhooks")


VIEWS: Views = [("/webhooks", show)]
FORMS: FormRoutes = [
    ("/webhooks", create, show),
    ("/webhooks/{name}/test", test, show),
    ("/webhooks/{name}/remove", remove, show),
]
