"""The template of a config repository: its rendered tree is what its sources mean, and its helpers are sound YAML."""

import os
import shutil
from pathlib import Path

import pytest

from reconciler import wiring
from reconciler.core.documents import read
from tests.cli.fleet import Fleet

TEMPLATE = Path(__file__).resolve().parents[2] / "gitops-repo-template"


def test_rendered_tree_is_what_the_sources_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make golden` rewrites it; the rewrite is reviewed as any diff."""
    fleet = Fleet(tmp_path / "fleet", capsys)
    shutil.copytree(TEMPLATE, fleet.root)
    fleet.git("init", "--quiet")
    session = wiring.open_session(str(fleet.root), {"cache": "off"}, dict(os.environ))
    contents = {path.removeprefix("rendered/"): content for path, content in session.render().items()}
    if os.environ.get("GOLDEN"):
        shutil.rmtree(TEMPLATE / "rendered")
        wiring.write_folder({f"rendered/{path}": content for path, content in contents.items()}, tmp_path / "new")
        shutil.copytree(tmp_path / "new" / "rendered", TEMPLATE / "rendered")
    assert contents == Fleet(TEMPLATE, capsys).files()


@pytest.mark.parametrize("path", sorted(str(p.relative_to(TEMPLATE)) for p in TEMPLATE.rglob("*.y*ml")))
def test_every_yaml_file_reads(path: str) -> None:
    """Also the sync objects and the pipelines that forges read."""
    assert read(path, (TEMPLATE / path).read_bytes()).problems == () or path.startswith((".github", ".gitea"))
