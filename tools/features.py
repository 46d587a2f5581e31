"""Print every feature id with the tests that cover it: `make features`. A test names the ids it covers.

In a docstring or a decorator an id is `F-067`, in the name of a test `f_067`.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_ID = re.compile(r"(?<![A-Za-z0-9])[Ff][-_](\d{3})(?![0-9])")
_ROW = re.compile(r"^\| (F-\d{3}) \| (.+?) \|$", re.MULTILINE)


def table() -> dict[str, str]:
    """Return feature ids and their one-line descriptions, in the order of `docs/features.md`."""
    return dict(_ROW.findall((ROOT / "docs" / "features.md").read_text()))


def proofs() -> dict[str, list[str]]:
    """Return for each id the tests whose name, decorators or docstring name it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, text in _tests(path):
            for number in sorted(set(_ID.findall(text))):
                found[f"F-{number}"].append(f"{path.relative_to(ROOT)}::{name}")
    return found


def _tests(path: Path) -> Iterator[tuple[str, str]]:
    source = path.read_text()
    module = ast.parse(source)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
            yield node.name, f"{node.name} {decorators} {ast.get_docstring(node) or ''}"


def main() -> int:
    """Print the table and a count; fail on an id without a row, and on a row without a test."""
    rows, proven = table(), proofs()
    for feature, title in rows.items():
        tests = proven.get(feature, [])
        print(f"{'✔' if tests else '·'} {feature}  {title}")
        for test in tests:
            print(f"      {test}")
    print(f"\n{sum(1 for feature in rows if feature in proven)} of {len(rows)} features are proven by a test")
    unknown = sorted(set(proven) - set(rows))
    if unknown:
        print(f"unknown ids in tests: {', '.join(unknown)}", file=sys.stderr)
    return 0 if set(proven) == set(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
