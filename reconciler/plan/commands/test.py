"""`reconciler test`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from reconciler import resources
from reconciler.console import options
from reconciler.console.printing import emit_report
from reconciler.errors import PolicyDenied
from reconciler.kube.yaml import read
from reconciler.plan import opening
from reconciler.plan.policy_tests.examples import ExampleReport, run_tests
from reconciler.plan.policy_tests.page import FORMATS, render_examples
from reconciler.plan.policy_tests.rendering import RenderingTools
from reconciler.repo.checkout_files import FolderFiles
from reconciler.repo.config import Config
from reconciler.repo.files import CONFIG_PATH
from reconciler.repo.revision import config_of


@click.command(
    "test",
    epilog="""\b
Examples:
  reconciler test                              all tests below tests/
  reconciler test tests/team-label.yaml        one file
  reconciler test policies/mine -o junit > policies.xml

\b
A test is a document of kind PolicyTest. It names policies, and objects with what a policy says about them:
  apiVersion: gpureconciler.io/v1alpha1
  kind: PolicyTest
  metadata: {name: team-label}
  spec:
    policies: [../policies/team-label.yaml]
    examples:
      - {object: good.yaml, expect: pass}
      - {object: bad.yaml, expect: deny, message: has no label team}

\b
Exit codes: 0 all examples are as expected, 2 no tests found, 3 invalid files, 4 an example is not as expected.
""",
)
@click.argument("paths", metavar="[FILE|DIR]...", nargs=-1)
@options.output(FORMATS)
@options.color
def command(*, paths: tuple[str, ...], **flags: Any) -> int:
    """Test policies with examples of objects that they allow or deny.

    Reads documents of kind PolicyTest in files and folders. [default: the folder tests of the config repository]
    """
    settings = opening.resolve_settings(options.setting_flags(flags), options.environment())
    report = _run(paths)
    emit_report(render_examples(report.examples, settings.output), settings)
    if report.failed:
        count = len(report.failed)
        raise PolicyDenied(
            f"{count} of {len(report.examples)} examples {'is' if count == 1 else 'are'} not as expected, shown above",
            hint="correct the policy, or what the example expects",
        )
    return 0


def _run(paths: Sequence[str]) -> ExampleReport:
    """Run the tests in files and folders (none: `tests` of the config repository around this folder)."""
    here = Path(paths[0]).absolute() if paths else Path().absolute()
    root = next((one for one in (here, *here.parents) if (one / CONFIG_PATH).is_file()), Path().absolute())
    wanted = [os.path.relpath(Path(path).absolute(), root) for path in paths] or ["tests"]
    shipped = [one for path in opening.rule_paths() for one in read(path, resources.read(path)).documents]
    files, schemas = FolderFiles(root), opening.catalogue()

    def read_config() -> Config | None:
        return config_of(files.read(CONFIG_PATH), schemas) if files.has(CONFIG_PATH) else None

    tools = RenderingTools(kinds=opening.kinds(), tables=opening.sizing_tables(), read_config=read_config)
    return run_tests(wanted, files, schemas, shipped, tools)
