"""The read-only pages in a real browser: light and dark, small and large, by keyboard, and with hostile names."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from benchmarks.pages import Names, write_fleet
from reconciler.web.pages import PAGES
from tests.cli.fleet import Fleet
from tests.cli.web_fleet import add_evidence, serving
from tests.web.browsers import opened, watch

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
LIMIT = 1_000_000


@pytest.fixture
def fleet_with_use(fleet: Fleet, kept: Path) -> Fleet:
    def make() -> None:
        add_evidence(fleet, "llama-lora", "other")
        fleet.commit("evidence")

    fleet.make_once(kept, make)
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    return fleet


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1920])
def test_every_page(browser: Browser, fleet_with_use: Fleet, width: int, dark: bool) -> None:
    """WV-06, F-163: no fault that axe finds, nothing beside the screen, nothing loaded from elsewhere, no message."""
    with serving(fleet_with_use) as (address, _), opened(browser, width=width, dark=dark) as page:
        seen = watch(page, address)
        for one in PAGES:
            page.goto(address + one.path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, one.path
            found = Axe().run(page)
            assert found.violations_count == 0, f"{one.path}: {found.generate_report()}"
            assert page.locator("nav a[aria-current=page]").inner_text() == one.title
        assert seen == []


def test_pages_are_read_by_keyboard(browser: Browser, fleet_with_use: Fleet) -> None:
    """The first stop leads over the navigation; each link is reached, and Enter follows it."""
    with serving(fleet_with_use) as (address, _), opened(browser) as page:
        page.goto(f"{address}/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        for one in PAGES:
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.textContent") == one.title
        for _ in PAGES[2:]:
            page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{address}/plan")


def test_a_new_state_is_offered(browser: Browser, fleet_with_use: Fleet) -> None:
    with serving(fleet_with_use) as (address, site), opened(browser) as page:
        page.goto(f"{address}/plan")
        note = page.get_by_text("The repository has changed")
        assert not note.is_visible()
        page.wait_for_timeout(300)
        fleet_with_use.edit("jobs/vision/vit.yaml", "numGPUs: 32", "numGPUs: 24")
        site.renew()
        note.wait_for(state="visible", timeout=10_000)
        note.click()
        page.get_by_text("+8 GPUs requested on main").first.wait_for()


def test_hostile_names_run_nothing(browser: Browser, fleet: Fleet) -> None:
    """WV-02: an annotation, a queue and a path that try to leave their place are text on every page."""
    quoted = HOSTILE.replace("'", "''")
    fleet.edit("jobs/vision/vit.yaml", "    team: vision", f"    team: vision\n  annotations: {{note: '{quoted}'}}")
    fleet.write(
        f"jobs/{HOSTILE.replace('/', '_')}.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '<b>x</b>'}\n"
    )
    with serving(fleet) as (address, _), opened(browser) as page:
        seen = watch(page, address)
        for one in PAGES:
            page.goto(address + one.path)
            assert page.locator("img, b, script").count() == 1, one.path
        assert seen == []


def test_large_repositories_stay_small_pages(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """WV-07: 10,000 jobs with long names, 2,000 of which wait, are pages of less than a megabyte; words find a row."""
    names = Names(job=f"{'j' * 50}-{{:05}}", node=f"{'n' * 240}-{{:04}}")
    write_fleet(tmp_path, 10_000, names)
    with serving(Fleet(tmp_path, capsys)) as (address, _), opened(browser) as page:
        for path in (*(one.path for one in PAGES), "/jobs?page=50", "/nodes?page=7", "/queues?page=9", "/jobs?q=job"):
            answer = page.goto(address + path)
            assert answer is not None
            assert len(answer.body()) < LIMIT, path
        page.goto(f"{address}/jobs")
        page.get_by_role("link", name="next").click()
        assert page.get_by_text("page 2 of 50").is_visible()
        page.get_by_label("Rows with").fill("j-09999")
        page.get_by_role("button", name="Find").click()
        assert page.locator("tbody tr").count() == 1
