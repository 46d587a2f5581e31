"""The files that a build reads: an overlay with its bases, a chart with its values, and nothing outside the repository."""

from collections.abc import Iterable
from typing import Any

from reconciler.repo.builds.inputs import BuildInputs, generated_resources, inputs_of
from reconciler.repo.config.builds import Build, Tool
from reconciler.repo.port import Entry


def found(files: dict[str, str], build: Build) -> BuildInputs:
    def read(paths: list[str]) -> Iterable[bytes]:
        return [files[path].encode() for path in paths]

    return inputs_of(build, dict.fromkeys(files, "oid"), read)


def overlay(path: str = "apps/prod") -> Build:
    return Build(path=path, tool=Tool.KUSTOMIZE)


def test_an_overlay_reads_its_bases_and_the_files_that_they_name() -> None:
    """F-151."""
    files = {
        "apps/prod/kustomization.yaml": """\
resources: [../base, job.yaml]
components: [../component]
patches: [{path: patch.yaml}, {patch: "- op: remove"}]
configMapGenerator: [{name: a, files: [a.conf, key=b.conf], envs: [c.env]}]
""",
        "apps/base/kustomization.yml": "resources: [one.yaml]\n",
        "apps/component/Kustomization": "kind: Component\npatchesStrategicMerge: [two.yaml]\n",
        **dict.fromkeys(
            ["apps/base/one.yaml", "apps/component/two.yaml", "apps/prod/job.yaml", "apps/prod/patch.yaml"], "a: b\n"
        ),
        **dict.fromkeys(["apps/prod/a.conf", "apps/prod/b.conf", "apps/prod/c.env"], "a=b\n"),
        "apps/base/unread.yaml": "a: b\n",
        "apps/other/kustomization.yaml": "resources: []\n",
    }
    inputs = found(files, overlay())
    assert {*files} - {*inputs.files} == {"apps/base/unread.yaml", "apps/other/kustomization.yaml"}
    assert (inputs.is_remote, inputs.problems) == (False, ())


def test_remote_bases_need_permission() -> None:
    text = "resources:\n  - https://github.com/acme/base//deploy?ref=v1\n  - git@github.com:acme/base.git\n"
    files = {"apps/prod/kustomization.yaml": text}
    inputs = found(files, overlay())
    assert [(str(one.place), one.rule) for one in inputs.problems] == [
        ("apps/prod/kustomization.yaml:2:5", "build.remote"),
        ("apps/prod/kustomization.yaml:3:5", "build.remote"),
    ]
    allowed = found(files, Build(path="apps/prod", tool=Tool.KUSTOMIZE, network=True))
    assert (allowed.is_remote, allowed.problems) == (True, ())


def test_the_network_waits_for_the_base() -> None:
    """A change that allows the network for itself gets none: neither for bases nor for charts."""
    waiting = {"network_waits": True, "path": "a"}
    overlays = found(
        {"a/kustomization.yaml": "resources: [https://x.example/a.yaml]\n"}, _build(Tool.KUSTOMIZE, waiting)
    )
    text = "name: a\ndependencies:\n  - {name: redis, repository: https://charts.example}\n"
    charts = found({"a/Chart.yaml": text}, _build(Tool.HELM, waiting))
    assert [(str(one.place), one.rule) for one in (*overlays.problems, *charts.problems)] == [
        ("a/kustomization.yaml:1:13", "build.network"),
        ("a/Chart.yaml:3:5", "build.network"),
    ]


def test_links_and_submodules_are_named_for_what_they_are() -> None:
    """A program would say only that there is no such file."""
    text = "resources:\n  - ../vendor/base\n  - ../vendor/base/deep\n  - link.yaml\n  - there.yaml\n"
    files = {"apps/kustomization.yaml": text, "apps/there.yaml": ""}
    irregular = {"vendor/base": Entry("160000", ""), "apps/link.yaml": Entry("120000", "")}
    inputs = inputs_of(
        overlay("apps"), dict.fromkeys(files, "oid"), lambda paths: [files[one].encode() for one in paths], irregular
    )
    assert [(one.place.line, one.message) for one in inputs.problems] == [
        (2, "../vendor/base cannot be read: vendor/base is a submodule, which is not fetched"),
        (3, "../vendor/base/deep cannot be read: vendor/base is a submodule, which is not fetched"),
        (4, "link.yaml cannot be read: apps/link.yaml is a symbolic link, which is not followed"),
    ]


def _build(tool: Tool, fields: dict[str, Any]) -> Build:
    return Build(tool=tool, **fields)


def test_paths_out_of_the_repository_and_charts_in_overlays_are_refused() -> None:
    text = "resources: [../../../etc, /etc/passwd]\nhelmCharts: [{name: redis, repo: https://charts.example.com}]\n"
    inputs = found({"apps/prod/kustomization.yaml": text}, overlay())
    assert [one.rule for one in inputs.problems] == ["build.outside", "build.outside", "build.chart"]
    chart = {
        "chart/Chart.yaml": "apiVersion: v2\nname: a\ndependencies: [{name: b, repository: 'file://../../b'}]\n",
        "chart/templates/a.yaml": "a: b\n",
    }
    assert [one.rule for one in found(chart, Build(path="chart", tool=Tool.HELM)).problems] == ["build.outside"]


def test_overlays_that_name_each_other_end() -> None:
    files = {"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../a]\n"}
    assert {*found(files, overlay("a")).files} == {*files}


def test_a_folder_without_a_kustomization_is_read_as_flux_does() -> None:
    """Its manifests at any depth, and the overlays in it as overlays."""
    files = ["x/a.yaml", "x/deep/b.yml", "x/over/kustomization.yaml", "x/over/c.yaml", "x/README.md", "y/d.yaml"]
    assert generated_resources("x", files) == ["x/a.yaml", "x/deep/b.yml", "x/over"]


def test_a_chart_reads_its_folder_its_values_and_charts_beside_it() -> None:
    files = {
        "charts/app/Chart.yaml": "apiVersion: v2\nname: app\ndependencies: [{name: lib, repository: 'file://../lib'}]\n",
        "charts/app/templates/a.yaml": "{{ .Values.a }}\n",
        "charts/lib/Chart.yaml": "apiVersion: v2\nname: lib\n",
        "charts/other/Chart.yaml": "apiVersion: v2\nname: other\n",
        "values/prod.yaml": "a: 1\n",
    }
    inputs = found(files, Build(path="charts/app", tool=Tool.HELM, release="app", values=("values/prod.yaml",)))
    assert {*files} - {*inputs.files} == {"charts/other/Chart.yaml"}
