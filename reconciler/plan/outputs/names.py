"""The name output, for scripts: operation, cluster and kind/namespace/name of each changed object, one per line."""

from reconciler.console.printable import printable, without_commands
from reconciler.outputs import DEFAULTS, RenderOptions
from reconciler.plan import Plan


def render_names(plan: Plan, _: RenderOptions = DEFAULTS) -> str:
    """Render each change as `update main Job/research/gpt`, in the order of the plan.

    The three words contain no spaces, so that `while read operation cluster object` works for any name.
    """
    lines = (
        " ".join((change.operation.value, _word(change.cluster), _word(str(change.key)))) for change in plan.changes
    )
    return without_commands("".join(f"{line}\n" for line in lines))


def _word(text: str) -> str:
    return printable(text).replace(" ", "\\x20") or "-"
