"""The site builds without warnings, and its copy buttons copy commands."""

import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from tests.docs.pages import DOCS, ROOT
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import CHROMIUM, needs_chromium, needs_zensical

BUILD = (sys.executable, "-m", "zensical", "build", "--clean", "--strict")

PAGE = """
```console
$ fairwarning machine restart web_0
web_0: accepted, operation bf1e379300f1459aac981aec9eb3efdc
$ curl -s \\
    http://127.1.0.1:8169/
{}
```

```text
Reboot is scheduled
```
"""


@needs_zensical
def test_the_site_builds() -> None:
    """A strict build has no warnings."""
    done = run_program(*BUILD, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_zensical
@needs_chromium
def test_a_copy_button_copies_commands(tmp_path: Path) -> None:
    """Neither prompts nor output; a block that is only output has no button."""
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    without_pages = re.sub(r"^nav:.*?^(?=plugins:)", "", settings, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "mkdocs.yml").write_text(without_pages, "utf-8")
    shutil.copytree(DOCS / "stylesheets", tmp_path / "docs" / "stylesheets")
    (tmp_path / "docs" / "index.md").write_text(PAGE, "utf-8")
    done = run_program(*BUILD, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
        page.goto((tmp_path / "site" / "index.html").as_uri())
        expect(page.locator(".md-code__nav:visible")).to_have_count(1)
        page.get_by_role("button", name="Copy to clipboard").click()
        expect(page.get_by_text("Copied to clipboard")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()").split("\n")
        browser.close()
    assert [line for line in copied if line] == [
        "fairwarning machine restart web_0",
        "curl -s \\",
        "    http://127.1.0.1:8169/",
    ]
