"""`docs/reference/` is what the product says of itself, and links in the docs lead somewhere."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["cli.md", "exit-codes.md", "kinds.md", "rules.md", "settings.md"])
def test_reference_is_not_stale(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `make docs` where this fails."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert (DOCS / "reference" / page).read_text() == _module("reference").pages()[page]


def test_every_feature_named_in_a_test_exists() -> None:
    features = _module("features")
    assert set(features.proofs()) <= set(features.table())


@pytest.mark.parametrize(
    "page",
    [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))],
    ids=lambda page: str(page.relative_to(DOCS.parent)),
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
