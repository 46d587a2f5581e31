"""`docs/reference/` is up to date, and links in the docs have targets."""

import re
from pathlib import Path

import pytest

from reconciler.kinds.kind import Kind
from reconciler.kinds.registry import BUILT_IN
from tools import features, reference

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["cli.md", "exit-codes.md", "kinds.md", "rules.md", "settings.md"])
def test_reference_is_not_stale(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `make docs` if this fails."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert (DOCS / "reference" / page).read_text() == reference.pages(BUILT_IN)[page]


def test_tables_about_kinds_are_not_stale() -> None:
    """Run `make docs` if this fails."""
    page = (DOCS / "live-clusters.md").read_text()
    assert reference.with_tables(page, BUILT_IN) == page
    assert "| `spec.suspend` | AppWrapper, Job," in page


def test_families_of_packages_are_documented() -> None:
    kinds = BUILT_IN.extend((Kind(group="acme.example.com", kind="Train"),))
    assert "| `acme.example.com` | Train |" in reference.pages(kinds)["kinds.md"]


def test_every_feature_is_named_in_a_test_and_every_name_is_one_of_a_feature() -> None:
    assert set(features.proofs()) == set(features.table())


@pytest.mark.parametrize(
    "page",
    [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))],
    ids=lambda page: str(page.relative_to(DOCS.parent)),
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
