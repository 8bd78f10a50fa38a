"""`fairwarning webhook`, as it is typed, with a receiver that is really there."""

from pathlib import Path

from tests.fixtures.receiver import Receiver, ReceiverResponse
from tests.fixtures.service import ServiceProcess

FLEET = '[console]\nwebhook_hosts = ["127.0.0.1"]\n[[machine]]\nname = "vm"\n'


def test_a_webhook_from_its_making_to_its_end(tmp_path: Path) -> None:
    """Made, listed, tried, and removed; a secret is told once, or is the caller's own."""
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery staple correct horse\n")
    with (
        Receiver() as receiver,
        ServiceProcess(tmp_path / "data", "--memory", fleet=FLEET) as it,
    ):
        url = receiver.url
        made = it.run("webhook", "create", "pager", url)
        assert made.returncode == 0, made.stderr
        assert "Secret, shown this once: " in made.stdout
        own = it.json("webhook", "create", "own", url, "--secret-file", str(secret))
        assert own["name"] == "own"
        assert {one["name"] for one in it.json("webhook", "list")} == {"pager", "own"}
        assert url in it.run("webhook", "list").stdout
        assert it.json("webhook", "test", "pager") == {"status": 200}
        receiver.answer = lambda _: ReceiverResponse(500)
        failed = it.run("webhook", "test", "pager")
        assert (failed.returncode, failed.stdout) == (1, "pager: answered 500\n")
        assert it.run("webhook", "remove", "pager").stdout == "pager: removed\n"
        assert [one["name"] for one in it.json("webhook", "list")] == ["own"]
        assert receiver.posts


WRONG = [
    (("webhook", "create", "x", "http://elsewhere.example/in"), 4, "webhook_hosts"),
    (("webhook", "create", "x", "http://127.0.0.1/", "--form", "xml"), 2, "eventgrid"),
    (("webhook", "create", "x", "u", "--secret-file", "/nowhere"), 2, "/nowhere"),
    (("webhook", "remove", "nothing"), 3, "nothing"),
    (("webhook", "test", "nothing"), 3, "nothing"),
]


def test_wrong_words(tmp_path: Path) -> None:
    """A sentence that says what is allowed, and an exit code for scripts."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        for words, code, says in WRONG:
            it.assert_refused(words, code, says)
