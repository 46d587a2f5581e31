"""The work that KaiwoJobs make, in calls of functions, which no neighbour on the machine changes."""

from cProfile import Profile
from pathlib import Path
from pstats import Stats
from typing import Any, cast

import pytest

from benchmarks.corpus import git
from benchmarks.kaiwo import SHAPES, files
from reconciler.kinds.registry import BUILT_IN
from reconciler.plan import opening
from tests.kinds.kaiwo.kaiwo_cases import FLEET, CaseLookup, cluster, documents, job

FEW = 60  # files that are compiled in this process, and not by workers


def _calls(work: Any) -> int:
    profile = Profile()
    profile.runcall(work)
    return cast("int", cast("Any", Stats(profile)).total_calls)


def _compiled(root: Path, shape: str) -> int:
    """Return the calls in which a repository of jobs is compiled, once everything that is shared is loaded."""
    for path, text in files(FEW, shape):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for arguments in (("init", "--quiet"), ("add", "--all")):
        git(root, *arguments)
    git(root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", "jobs")

    def compiled() -> None:
        index = opening.open_run(str(root), {"cache": "off"}, {}).workspace.compile()
        assert sum(1 for row in index.first_summaries() if row.kind == "Job") == FEW

    compiled()
    return _calls(compiled)


def test_kaiwo_jobs_cost_what_torchrun_jobs_cost(tmp_path: Path) -> None:
    """KA-24: reading, rendering, schemas, policies and counting together."""
    torchrun, kaiwo = (_compiled(tmp_path / shape, shape) for shape in SHAPES)
    assert kaiwo <= 1.05 * torchrun


@pytest.mark.parametrize("spec", ["gpus: 8\nimage: a:1", "gpus: 16\nray: true\nentrypoint: python main.py"])
def test_each_of_many_jobs_costs_the_same(spec: str) -> None:
    """KA-24: 2,000 jobs make ten times the work of 200."""
    many = [one for number in range(2_000) for one in documents(job(spec, name=f"train-{number}"))]
    source = BUILT_IN.find("kaiwo.silogen.ai", "KaiwoJob").source
    parse, render = source.parse, source.render
    assert parse is not None
    assert render is not None
    lookup = CaseLookup(cluster=cluster(), nodes=FLEET)

    def render_first(count: int) -> None:
        for document in many[:count]:
            assert render(parse(document).intent, lookup).manifests

    render_first(1)
    few = _calls(lambda: render_first(200))
    assert _calls(lambda: render_first(2_000)) <= 10.1 * few
