"""The plan as an HTML file, in a real browser."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from reconciler.plan.outputs.html import render_html
from tests.plan.outputs import plans
from tests.web.browsers import opened, watch


@pytest.fixture
def report(tmp_path: Path) -> str:
    file = tmp_path / "plan.html"
    file.write_text(render_html(plans.everything()), encoding="utf-8")
    return f"file://{file}"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1920])
def test_a_report_opens_from_a_file(browser: Browser, report: str, width: int, dark: bool) -> None:
    """WV-01, WV-06, F-162: complete, silent, nothing loaded, no fault that axe finds, and nothing beside the screen."""
    with opened(browser, width=width, dark=dark) as page:
        seen = watch(page, report)
        page.goto(report)
        assert page.locator("h1").inner_text().startswith("Data may be lost")
        assert page.locator("details.object").count() > 5
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_role("button", name="Open all").click()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert seen == []


def test_a_report_is_read_without_script(browser: Browser, report: str) -> None:
    """What is folded opens with a key; the tools that need the script are not there."""
    with opened(browser, script=False) as page:
        page.goto(report)
        first = page.locator("details.object").first
        first.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert first.locator("pre.diff").first.is_visible()
        assert not page.locator("#filter").is_visible()


def test_objects_are_filtered(browser: Browser, report: str) -> None:
    with opened(browser) as page:
        page.goto(report)
        whole = page.locator("details.object:visible").count()
        page.locator("#filter").fill("persistentvolumeclaim")
        assert 0 < page.locator("details.object:visible").count() < whole


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    """WV-02: names that try to leave their place are text."""
    file = tmp_path / "plan.html"
    file.write_text(render_html(plans.hostile()), encoding="utf-8")
    address = f"file://{file}"
    with opened(browser) as page:
        seen = watch(page, address)
        page.goto(address)
        assert page.locator("img, iframe, script").count() == 1
        assert seen == []
