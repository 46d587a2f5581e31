"""A plan in, one changed object a line out, for scripts: operation, cluster, kind/namespace/name."""

from reconciler.core.plan import Plan
from reconciler.outputs.printable import printable, without_commands
from reconciler.outputs.registry import DEFAULTS, RenderOptions


def render_names(plan: Plan, _: RenderOptions = DEFAULTS) -> str:
    """Write `update main Job/research/gpt` per change, in the plan's order; nothing for an empty plan.

    The three words never hold a blank, so that `while read operation cluster object` reads them whatever the names.
    """
    lines = (
        " ".join((change.operation.value, _word(change.cluster), _word(str(change.key)))) for change in plan.changes
    )
    return without_commands("".join(f"{line}\n" for line in lines))


def _word(text: str) -> str:
    return printable(text).replace(" ", "\\x20") or "-"
