"""`reconciler explain`."""

from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit_report
from reconciler.plan import opening
from reconciler.plan.outputs.display import format_explanation
from reconciler.plan.use_cases import explain


@click.command(
    "explain",
    epilog="""\b
Examples:
  reconciler explain Job/team-a/vit
  reconciler explain Job/team-a/vit spec.completions
  reconciler explain rendered/main/team-a/job-vit.yaml spec.template.spec.containers[0].image
""",
)
@click.argument("object_", metavar="OBJECT")
@click.argument("field", metavar="[FIELD]", required=False, default="")
@options.repo
@options.revision
@options.base
@options.cluster
@options.output(("text", "json"))
@options.width
@options.run_options
def command(*, object_: str, field: str, repo: str, **flags: Any) -> int:
    """Explain why an object or a field has its value: the rules, formulas, source lines and evidence behind it.

    OBJECT is Kind/namespace/name, Kind/name, or the path of a file in rendered/. FIELD is a path such as
    spec.template.spec.containers[name=trainer].image, as plans print it. Without FIELD, every field is explained.
    Objects and fields that the sources no longer define are looked up in the base.
    """
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    explanation = explain(run.workspace, object_, field, base=run.settings.base)
    emit_report(format_explanation(explanation, run.settings), run.settings)
    return 0
