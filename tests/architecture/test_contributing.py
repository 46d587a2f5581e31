"""The recipes of CONTRIBUTING.md work: a copy of the repository that followed all of them passes its checks and tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.recipes import copy_repository, steps

GENERATE = """
from tools import crds, reference
from tools.rules import __main__ as rules
for tool in (rules, reference, crds):
    tool.main()
from tools.chart import build
build.main()
"""
"""What `make docs` and `make chart` run."""

LAYERS = "from importlinter.cli import lint_imports_command\nlint_imports_command()"

TESTS = (
    "tests/cli/recipes_followed.py",
    "tests/cli/test_exit_codes.py::test_help_of_each_verb[gpus]",
    "tests/cli/test_exit_codes_of_commands.py::test_a_flag_that_does_not_exist_is_usage[gpus]",
    "tests/kinds/test_devices.py::test_every_kind_that_runs_pods_has_a_sample",
    "tests/kinds/test_devices.py::test_devices_are_counted_or_named[northwind: ensemble]",
    "tests/launch/frameworks/test_registry.py::test_rows_are_complete",
    "tests/launch/test_changes.py::test_every_framework_that_names_changes_has_a_line",
    "tests/launch/test_lines.py::test_script[tinytune: flags]",
    "tests/nodehealth/test_checks.py::test_every_light_check_has_cases",
    "tests/nodehealth/test_checks.py::test_a_check_says",
    "tests/nodehealth/test_checks.py::test_one_lost_gpu_hides_nothing_and_fails_once",
    "tests/nodehealth/test_readings.py",
    "tests/plan/outputs/test_output_registry.py",
    "tests/plan/outputs/test_text_output.py::test_a_busy_plan",
    "tests/policies/test_catalogue.py::test_the_catalogue_compiles_as_an_api_server_would_compile_it",
    "tests/policies/test_catalogue.py::test_every_rule_says_why_and_what_to_do[no-host-ports]",
    "tests/policies/test_catalogue.py::test_severity_and_action_agree[no-host-ports]",
    "tests/policies/test_catalogue.py::test_every_rule_has_examples_both_ways[no-host-ports]",
    "tests/policies/test_catalogue.py::test_examples_come_out_as_their_folder_says",
    "tests/policies/test_catalogue.py::test_what_passes_one_rule_is_denied_by_no_other",
    "tests/policies/test_catalogue.py::test_messages",
    "tests/policies/test_catalogue.py::test_every_kind_with_pods_is_judged_or_named",
)
"""What finds a step that a recipe forgets, and lists that something else should not have."""

_PLAIN = ("-q", "-n0", "-p", "no:cacheprovider", "-m", "not cluster")


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    """Return a copy of the repository in which every recipe was followed."""
    root = tmp_path / "repository"
    copy_repository(root)
    for step in steps():
        step.apply(root)
    return root


def _run(root: Path, module: str, *arguments: str) -> None:
    """Run a module of Python in the copy, which is the first place of its imports; fail with what it prints."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "GIT_"))}
    call = [sys.executable, *(["-c", module] if "\n" in module else ["-m", module]), *arguments]
    done = subprocess.run(call, cwd=root, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{module}\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}"


def test_there_is_a_recipe_for_everything() -> None:
    recipes = {step.recipe for step in steps()}
    assert recipes == {
        "A kind", "An evidence kind", "An output", "A command", "A section of the plan", "A risk", "A rule",
        "A health check", "A launch framework",
    }  # fmt: skip


@pytest.mark.timeout(900)  # of a machine that does much else
def test_the_code_of_the_recipes_is_accepted(followed: Path) -> None:
    """Linted, formatted, typed, within the layers, and in shape."""
    paths = sorted({step.path for step in steps() if step.path.endswith(".py")})
    _run(followed, "ruff", "check", "--no-cache", *paths)
    _run(followed, "ruff", "format", "--no-cache", "--check", *paths)
    _run(followed, LAYERS, "--no-cache")
    package = [path for path in paths if path.startswith("reconciler/")]
    _run(followed, "mypy", "--no-error-summary", "--follow-imports=silent", "--cache-dir", os.devnull, *package)
    _run(followed, "pytest", *_PLAIN, "tests/architecture/test_layers.py")


@pytest.mark.timeout(900)
def test_what_the_recipes_add_is_used(followed: Path) -> None:
    """Everything generated is generated again; then each new thing is used once, and no test knows a list of its own."""
    _run(followed, GENERATE)
    _run(followed, "pytest", *_PLAIN, *TESTS)
