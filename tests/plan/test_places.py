"""Values of a chart that no line of its templates names: they are found by their name and value."""

from collections.abc import Iterable
from typing import Any

import pytest

from reconciler.kube.objects import SourceRef
from reconciler.plan.places import lead_back
from reconciler.repo.builds import Built
from reconciler.repo.config import Config
from reconciler.repo.config.builds import Build, Tool
from reconciler.repo.files import RevisionFiles, TreeFiles
from reconciler.repo.revision import LoadedRevision, TreeReference

TEMPLATE = """\
{{- range .Values.workers }}
spec:
  replicas: {{ .replicas }}
  paused: false
{{- end }}
"""
RESULT = """\
# from: chart/templates/a.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: a
spec:
  replicas: 7
  paused: false
"""


class Contents:
    """Blobs whose ids are their contents."""

    def read(self, oids: Iterable[str]) -> list[bytes]:
        return [oid.encode() for oid in oids]


def place(values: str, line: int, template: str = TEMPLATE) -> str:
    build = Build(path="chart", tool=Tool.HELM, release="a", values=("prod.yaml",))
    inputs = {"chart/templates/a.yaml": template, "chart/values.yaml": "workers: []\n", "prod.yaml": values}
    nothing = RevisionFiles(settings={}, sources={}, policies={}, evidence={}, approvals={}, rendered={})
    revision = LoadedRevision(
        tree=TreeReference(label="head", commit=None),
        config=Config(clusters=()),
        files=nothing,
        listing=TreeFiles(),
        builds=(Built(build=build, oid=RESULT, inputs=inputs),),
    )
    column = RESULT.splitlines()[line - 1].index(": ") + 3
    ref = SourceRef(path=build.source, line=line, column=column)
    repository: Any = Contents()  # it reads, and nothing else
    return str(lead_back(ref, repository, revision, revision))


@pytest.mark.parametrize(
    ("values", "line", "expected"),
    [
        ("workers:\n  - {name: a, replicas: 7}\n", 7, "prod.yaml:2:25"),
        ("workers:\n  - {name: a, replicas: 7}\n  - {name: b, replicas: 7}\n", 7, "chart/templates/a.yaml:3:1"),
        ("workers:\n  - {name: a, replicas: 8}\n", 7, "chart/templates/a.yaml:3:1"),
        ("workers: []\npaused: false\n", 8, "chart/templates/a.yaml:4:1"),
    ],
)
def test_a_value_is_known_by_its_name_where_it_is_the_only_one(values: str, line: int, expected: str) -> None:
    assert place(values, line) == expected


def test_a_value_that_a_named_template_prints() -> None:
    template = 'spec:\n  {{- include "chart.spec" . | nindent 2 }}\n'
    assert place("workers:\n  - {name: a, replicas: 7}\n", 7, template) == "prod.yaml:2:25"
