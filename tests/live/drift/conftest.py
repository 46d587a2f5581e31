"""Fixtures of drift and ownership: the site of the applies, and others for the same cluster."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.fleet import Fleet
from tests.live.apply.conftest import Site, begin, namespace_name, site

__all__ = ["namespace_name", "site"]

AnotherSite = Callable[[str], Site]


@pytest.fixture
def another_site(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnotherSite:
    """Return what makes another repository for the same namespace of the same cluster, in a folder of this name."""

    def make(folder: str) -> Site:
        root = tmp_path / folder
        root.parent.mkdir(exist_ok=True)
        made = Site(Fleet(root, site.fleet.capture), site.cluster, site.server, root.parent, site.name)
        made.plan_file = tmp_path / f"{folder.replace('/', '-')}.json"
        monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-11-02T11:00:00+00:00")  # its history begins with another commit
        begin(made)
        made.remove("queues/namespace.yaml")
        return made

    return make
