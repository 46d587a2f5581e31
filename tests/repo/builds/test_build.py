"""What a failed build says: the program's own words, the same in each run."""

import pytest

from reconciler.kube.secrets import MASK
from reconciler.repo.builds.build import Built, failed_problem, sources_with
from reconciler.repo.builds.programs import BuildFailed
from reconciler.repo.config.builds import Build, Tool

KUBECTL = 'E1128 21:25:25.131777   24363 run.go:72] "command failed" err='


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["Error: no such file"], "no such file"),
        ([f'{KUBECTL}"accumulating \\"a.yaml\\": no such file"'], 'accumulating "a.yaml": no such file'),
        ([f"{KUBECTL}<", "\taccumulating", "\tno such file", " >"], "accumulating no such file"),
        ([f'{KUBECTL}"bad \\x00"'], "bad \\x00"),
        (["# Warning: 'bases' is deprecated", f'{KUBECTL}"no"'], "# Warning: 'bases' is deprecated no"),
        (['level=ERROR msg="failed"', "Error: no such file"], "no such file"),
        (["Error: no such file", "", "Use --debug flag to render out invalid YAML"], "no such file"),
        (['level=ERROR msg="failed"'], 'level=ERROR msg="failed"'),
        ([], "kustomize failed with exit code 1"),
    ],
)
def test_the_message_has_no_times_and_says_it_once(lines: list[str], message: str) -> None:
    error = BuildFailed("kustomize failed with exit code 1", lines)
    assert failed_problem(Build(path="a", tool=Tool.KUSTOMIZE), error, {}).message == message


def test_values_that_are_secrets_are_masked() -> None:
    """A template may print any value in the error with which it ends, encoded too."""
    build = Build(
        path="chart", tool=Tool.HELM, release="a", values=("prod.yaml",), inline_values={"apiKey": "cccccc77"}
    )
    contents = {
        "chart/values.yaml": b"db: {password: hunter22, port: 5432}\nname: plain\n",
        "prod.yaml": b"clientSecret: dddddd88\n",
        "chart/templates/a.yaml": b"{{ fail }}\n",
    }
    error = BuildFailed("helm failed", ["Error: no database for hunter22 aHVudGVyMjI= at plain, dddddd88 cccccc77"])
    message = failed_problem(build, error, contents).message
    assert message == f"no database for {MASK} {MASK} at plain, {MASK} {MASK}"


def test_a_plain_source_inside_a_built_folder_stays() -> None:
    """No file of a source that is listed vanishes because a folder above it is built."""
    built = Built(build=Build(path=".", tool=Tool.KUSTOMIZE), oid="oid", inputs={})
    files = dict.fromkeys(("apps/a.yaml", "kueue/a.yaml", "kueue/deep/b.yaml"), "blob")
    assert [*sources_with([built], files, ["kueue"])] == [
        "kueue/a.yaml",
        "kueue/deep/b.yaml",
        "kustomization.yaml#build",
    ]
