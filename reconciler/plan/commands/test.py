"""`reconciler test`."""

from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit_report
from reconciler.errors import PolicyDenied
from reconciler.plan import opening
from reconciler.plan.policy_tests.page import FORMATS, render_examples


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
    report = opening.run_policy_tests(paths)
    emit_report(render_examples(report.examples, settings.output), settings)
    if report.failed:
        count = len(report.failed)
        raise PolicyDenied(
            f"{count} of {len(report.examples)} examples {'is' if count == 1 else 'are'} not as expected, shown above",
            hint="correct the policy, or what the example expects",
        )
    return 0
