"""The tables `[[notify]]` of the configuration."""

import pytest

from fairwarning.core.errors import Refused
from fairwarning.guest.agent.config import parse
from fairwarning.guest.agent.notices import NotifyKind, NotifySettings

pytestmark = pytest.mark.spec("G8")

SECRET = "T0/B0/the-secret-part"
NOTIFY = '[[notify]]\nname = "team"\n'
SLACK = NOTIFY + 'kind = "slack"\nurl = "https://a/b"\n'
EMAIL = NOTIFY + 'kind = "email"\nfrom = "a@b"\nto = ["c@d"]\n'


def test_every_key() -> None:
    """Every key sets its field."""
    chosen = 'phases = ["failed"]\non = ["Reboot"]\ntext = "{{{type}}} of {machine}"\n'
    (slack,) = parse(SLACK + chosen).notify
    assert slack == NotifySettings(
        name="team",
        kind=NotifyKind.SLACK,
        url="https://a/b",
        phases=frozenset({"failed"}),
        types=frozenset({"Reboot"}),
        text="{{{type}}} of {machine}",
    )
    (email,) = parse(EMAIL + 'smtp = "mail.example:2525"\n').notify
    assert (email.sender, email.recipients) == ("a@b", ("c@d",))
    assert email.smtp_address() == ("mail.example", 2525)
    assert parse(EMAIL).notify[0].smtp_address() == ("localhost", 25)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            SLACK + 'text = "{when}"',
            'notify 1 ("team"), text: unknown field {when}; use {type}, {machine}',
        ),
        (SLACK + 'text = "{type.name}"', "unknown field {type.name}"),
        (SLACK + 'text = "{type!r}"', "unknown field {type!r}"),
        (SLACK + 'text = "{type:>9}"', "unknown field {type:>9}"),
        (SLACK + 'text = "{}"', "unknown field {}"),
        (SLACK + 'text = "{type"', "is not a template"),
        (SLACK + 'phases = ["begun"]', "must be one of scheduled, approved, started, over, failed"),
        (SLACK + 'url_env = "X"', 'notify 1 ("team"): must have one of url, url_file, url_env'),
        (SLACK + 'to = ["a@b"]', 'notify 1 ("team"): only kind email has to'),
        (SLACK + SLACK, "two notifications have the name 'team'"),
        (NOTIFY, 'notify 1 ("team"): kind is missing'),
        (
            NOTIFY + 'kind = "irc"',
            'notify 1 ("team"), kind: must be one of slack, teams, webhook, email',
        ),
        (NOTIFY + 'kind = "slack"', "must have one of url, url_file, url_env"),
        (NOTIFY + 'kind = "email"\nto = ["a@b"]', 'notify 1 ("team"): from is missing'),
        (EMAIL + 'url = "https://a/b"', "kind email has no url; use smtp, from and to"),
        (NOTIFY + 'kind = "email"\nto = ["a"]', "must be an e-mail address"),
        (NOTIFY + 'kind = "email"\nto = ["a@b\\nBcc: c@d"]', "must be an e-mail address"),
        (
            '[notify]\nname = "a"',
            "notify: must be an array of tables: write its heading in double brackets",
        ),
    ],
)
def test_errors_name_the_place_and_what_is_allowed(text: str, error: str) -> None:
    """When the configuration is read, not when an event comes."""
    with pytest.raises(Refused) as refused:
        parse(text)
    assert error in refused.value.message


@pytest.mark.parametrize("url", [f"htps://{SECRET}", f"https://a b/{SECRET}", SECRET])
def test_a_wrong_url_is_not_shown(url: str) -> None:
    """A typing error must not put the secret into a log."""
    with pytest.raises(Refused) as refused:
        parse(NOTIFY + f'kind = "slack"\nurl = "{url}"')
    assert "secret" not in refused.value.message
