"""A short run of the soak test: two replicas without leases, which only the compare-and-swap of Git keeps apart."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import Running, controller
from tests.live.controller.soak import Soak


def test_nothing_is_lost_and_nothing_is_done_twice(server: GitServer, person: Sandbox, tmp_path: Path) -> None:
    config = tmp_path / "sources.yaml"
    body = {
        "apiVersion": "gpureconciler.io/v1alpha1",
        "kind": "ConfigSource",
        "metadata": {"name": "fleet"},
        "spec": {"url": server.url, "interval": "1s", "mode": "commit"},
    }
    config.write_text(json.dumps(body))

    def start(name: str) -> AbstractContextManager[Running]:
        return controller(tmp_path / "c", "--config", str(config), name=name)

    report = Soak(server, person, start, seed=20261122).run(12.0)
    assert report.pushed
    assert report.ours
