"""The process that renders a user's template: one line of JSON in, one line of JSON out. It has limits and no secrets.

`python -m reconciler.submit.template_child` reads `{template, context}` and answers `{text}` or `{error, line}`.
"""

import json
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

NAME = "<template>"


class _Environment(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a value of a map, whatever its name is: `items` of a user's map is no method."""
        return obj[attribute] if isinstance(obj, dict) and attribute in obj else super().getattr(obj, attribute)


class Missing(StrictUndefined):
    """A name that does not exist: false in a condition, an error elsewhere."""

    def __bool__(self) -> bool:  # type: ignore[override]  # the parent never returns
        return False


def pairs(values: Any) -> Iterable[tuple[Any, Any]]:
    """Return what a loop of Go goes over: the keys of a map, or the numbers of a list, with their values."""
    if isinstance(values, dict):
        return sorted(values.items())
    return enumerate(() if values is None else values)


def render(template: str, context: dict[str, Any]) -> dict[str, Any]:
    """Render a template in a sandbox."""
    environment = _Environment(undefined=Missing, keep_trailing_newline=True, autoescape=False, cache_size=0)
    environment.filters["pairs"] = pairs
    environment.filters["to_yaml"] = environment.filters["quote"] = lambda value: json.dumps(value, ensure_ascii=False)
    try:
        code = environment.compile(template, NAME, NAME)
        made = environment.template_class.from_code(environment, code, environment.make_globals(None))
        return {"text": made.render(context)}
    except TemplateSyntaxError as error:
        return {"error": error.message or "is not valid", "line": error.lineno}
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, MemoryError) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == NAME]
        return {"error": str(error) or type(error).__name__, "line": lines[-1] if lines else 1}


def main() -> None:
    """Answer one question."""
    asked = json.loads(sys.stdin.readline())
    sys.stdout.write(json.dumps(render(asked["template"], asked["context"])) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
