"""The command `fairwarning webhook`, with a real receiver."""

from pathlib import Path

from tests.fixtures.receiver import Receiver, ReceiverResponse
from tests.fixtures.service import ServiceProcess

FLEET = '[console]\nwebhook_hosts = ["127.0.0.1"]\n[[machine]]\nname = "vm"\n'


def test_a_webhook_is_created_listed_tested_and_removed(tmp_path: Path) -> None:
    """A generated secret is shown once; the caller can provide one."""
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery staple correct horse\n")
    with (
        Receiver() as receiver,
        ServiceProcess(tmp_path / "data", "--memory", fleet=FLEET) as service,
    ):
        url = receiver.url
        created = service.run("webhook", "create", "pager", url)
        assert created.returncode == 0, created.stderr
        assert "Secret (shown only once): " in created.stdout
        own = service.json("webhook", "create", "own", url, "--secret-file", str(secret))
        assert own["name"] == "own"
        assert {hook["name"] for hook in service.json("webhook", "list")} == {"pager", "own"}
        listed = service.run("webhook", "list").stdout
        assert f"http://127.0.0.1:{receiver.port} " in listed
        assert "/hook" not in listed, "the path may contain a key"
        assert service.json("webhook", "test", "pager") == {"status": 200}
        receiver.answer = lambda _: ReceiverResponse(500)
        failed = service.run("webhook", "test", "pager")
        assert (failed.returncode, failed.stdout) == (1, "pager: target answered 500\n")
        assert service.run("webhook", "delete", "pager").stdout == "pager: deleted\n"
        assert [hook["name"] for hook in service.json("webhook", "list")] == ["own"]
        assert receiver.posts
