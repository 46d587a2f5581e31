"""The registry of outputs: every row renders, and a new output is one module and one row."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.outputs import OUTPUTS, RenderOptions, output_names, render
from reconciler.settings import CHOICES
from tests.plan.outputs import plans

ROOT = Path(__file__).parents[3]

MODULE = """
def render_csv(plan, options):
    return "operation,path\\n" + "".join(f"{change.operation},{change.path}\\n" for change in plan.changes)
"""

MAIN = """
import pathlib, sys
from reconciler import outputs as registry
registry.OUTPUTS += (registry.Output(name="csv", render="csv_output:render_csv", verbs=frozenset({"plan"})),)
from reconciler.cli.main import run
assert run(["init", sys.argv[1]]) == 0
pathlib.Path(sys.argv[1], "jobs", "settings.yaml").write_text(
    "apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: settings, namespace: research}\\n")
sys.exit(run(["plan", "--repo", sys.argv[1], "-o", "csv"]))
"""


@pytest.mark.parametrize("name", output_names())
def test_every_output_renders(name: str) -> None:
    *_, last = render(plans.small(), name, RenderOptions(width=100))
    assert last.endswith("\n")
    assert list(render(plans.broken(), name, RenderOptions(lint=True)))


def test_settings_and_verbs_offer_the_rows_of_the_registry() -> None:
    assert CHOICES["output"] == tuple(output.name for output in OUTPUTS)
    assert output_names("lint") == ("text", "json", "sarif", "junit", "github", "policyreport")
    assert output_names("commit") == ("text", "json", "name")


def test_lint_annotations_have_the_headline_of_lint() -> None:
    last = "".join(render(plans.broken(), "github", RenderOptions(lint=True))).splitlines()[-1]
    assert last == "reconciler: 3 errors and 1 warning in 3 files"


def test_a_new_output_is_one_module_and_one_row(tmp_path: Path) -> None:
    """A row added to the registry is offered by `plan -o` and rendered by its module."""
    (tmp_path / "csv_output.py").write_text(MODULE)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
        "RECONCILER_CACHE": "off",
    }
    done = subprocess.run(
        [sys.executable, "-c", MAIN, str(tmp_path / "fleet")], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("operation,path") :].splitlines()
    assert table == ["operation,path", "create,rendered/main/research/configmap-settings.yaml"]
