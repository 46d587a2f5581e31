"""The registry of outputs: one row per value of `--output`. Importing it imports no output."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from reconciler.plan import Plan


class RenderOptions(Struct, frozen=True, kw_only=True):
    """The form of a rendered plan. An output ignores the options that it has no use for.

    width, color, unicode: the terminal, in cells.
    full: show every field of created and deleted objects, and every warning.
    summary: show only GPUs, risks and counts.
    filters: what to list, by key; see `plan/outputs/filters.py`.
    lint: show only findings and exceptions, because nothing was compared.
    """

    width: int = 80
    color: bool = False
    unicode: bool = True
    full: bool = False
    summary: bool = False
    filters: dict[str, tuple[str, ...]] = {}
    lint: bool = False


DEFAULTS = RenderOptions()


FOR_PEOPLE = ("text", "markdown", "html")
"""Outputs in which a page can be shortened. The others are read by programs, which expect the whole plan."""


class Output(Struct, frozen=True, kw_only=True):
    """One row: the name of the output, the verbs that offer it, and its renderer as `module:function`."""

    name: str
    render: str
    verbs: frozenset[str]

    def load(self) -> "Callable[[Plan, RenderOptions], str | Iterator[str]]":
        """Import the renderer."""
        module, _, function = self.render.partition(":")
        loaded: Callable[[Plan, RenderOptions], str | Iterator[str]] = getattr(import_module(module), function)
        return loaded


def _row(name: str, render: str, *verbs: str) -> Output:
    return Output(name=name, render=f"reconciler.plan.outputs.{render}", verbs=frozenset(verbs))


OUTPUTS: tuple[Output, ...] = (
    _row("text", "text:render_text", "plan", "show", "lint", "commit", "verify"),
    _row("json", "json_report:stream_json", "plan", "show", "lint", "commit", "verify"),
    _row("markdown", "markdown:render_markdown", "plan", "show"),
    _row("html", "html:render_html", "plan", "show"),
    _row("sarif", "sarif:render_sarif", "plan", "show", "lint"),
    _row("junit", "junit:render_junit", "plan", "show", "lint"),
    _row("github", "github:render_github", "plan", "show", "lint", "verify"),
    _row("policyreport", "policy_report:render_policy_report", "plan", "show", "lint"),
    _row("name", "names:render_names", "plan", "show", "commit", "verify"),
)
"""Every output of a plan, in the order in which help lists them."""


def output_names(verb: str = "") -> tuple[str, ...]:
    """Return the names of the outputs that a verb offers; without a verb, of all outputs."""
    return tuple(output.name for output in OUTPUTS if not verb or verb in output.verbs)


def render(plan: "Plan", output: str, options: RenderOptions) -> Iterator[str]:
    """Yield a plan as the output of that name, in parts. Raises KeyError if there is no such output."""
    rendered = {row.name: row for row in OUTPUTS}[output].load()(plan, options)
    return iter([rendered]) if isinstance(rendered, str) else rendered
