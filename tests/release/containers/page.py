"""The shell commands of docs/run-containers.md, and the image that they build."""

import re

from tests.docs.pages import DOCS, blocks
from tests.release.deploy.files import services

PAGE = DOCS / "run-containers.md"
IMAGE: str = services()["one"]["image"]


def shell_commands(word: str) -> list[str]:
    """Return the commands of the block that contains this word."""
    texts = [block.text for block in blocks(PAGE) if block.language == "sh"]
    (text,) = [text for text in texts if re.search(rf"\b{word}\b", text)]
    return text.replace("\\\n", " ").splitlines()
