"""A real browser: Debian's Chromium, driven by Playwright, without a network."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

VARIABLE = "RECONCILER_TEST_BROWSER"
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    """Return the program of a browser; on Debian it is installed if it is missing and that is allowed."""
    found = os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for words in (("update",), ("install", "-y", "--no-install-recommends", "chromium")):
            subprocess.run(("apt-get", "-qq", *words), check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        found = shutil.which("chromium")
    return found


@contextmanager
def started() -> Iterator[Browser]:
    """Start the browser until the block ends."""
    program = find()
    assert program, f"no Chromium: install it, or name it in {VARIABLE}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, *, width: int = 1100, dark: bool = False, script: bool = True) -> Iterator[Page]:
    """Open a page that notes each request that leaves the machine, and everything on the console."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        java_script_enabled=script,
    )
    page = context.new_page()
    yield page
    context.close()


def watch(page: Page, allowed: str) -> list[str]:
    """Return a list that fills with what should not be: other addresses, messages on the console, errors, dialogs."""
    seen: list[str] = []
    page.on("request", lambda one: None if one.url.startswith(allowed) else seen.append(f"request {one.url}"))
    page.on("console", lambda one: seen.append(f"console {one.text}"))
    page.on("pageerror", lambda one: seen.append(f"error {one}"))

    def dismiss(dialog: object) -> None:
        seen.append("dialog")

    page.on("dialog", dismiss)
    return seen
