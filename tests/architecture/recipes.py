"""The recipes of CONTRIBUTING.md: what each creates and adds, read from the page and applied to a copy of the repository.

A block of code follows a sentence that ends with its place: "Create `path`:", or "Add to `path`, below `line`:" (or
"above"), where the line stands once in the file. Other blocks are examples.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
_PLACED = re.compile(
    r"(?:[Cc]reate\s+`(?P<new>[^`]+)`|[Aa]dd\s+to\s+`(?P<old>[^`]+)`,\s+(?P<side>below|above)\s+`(?P<line>[^`]+)`)"
    r"(?:,[^`:]*)?:\n\n```\w*\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


class Step(Struct, frozen=True, kw_only=True):
    """One block: a whole new file, or lines below or above a line of a file that exists."""

    recipe: str
    path: str
    code: str
    line: str = ""
    is_above: bool = False

    def apply(self, root: Path) -> None:
        """Write the block below a folder. Functions get two empty lines around them."""
        target = root / self.path
        if not self.line:
            assert not target.exists(), f"{self.path} exists"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.code)
            return
        lines = target.read_text().splitlines(keepends=True)
        (at,) = [number for number, line in enumerate(lines) if line.strip() == self.line]
        code = self.code
        if code.startswith("def "):
            code = f"{code}\n\n" if self.is_above else f"\n\n{code}"
        lines.insert(at if self.is_above else at + 1, code)
        target.write_text("".join(lines))


def steps() -> Iterator[Step]:
    """Yield the blocks of the page in their order."""
    for section in PAGE.read_text().split("\n### ")[1:]:
        recipe = section.partition("\n")[0]
        for found in _PLACED.finditer(section):
            yield Step(
                recipe=recipe,
                path=found["new"] or found["old"],
                code=found["code"],
                line=(found["line"] or "").strip(),
                is_above=found["side"] == "above",
            )


def copy_repository(target: Path) -> None:
    """Copy the files that Git knows or would add."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True,
    ).stdout  # fmt: skip
    target.mkdir()
    subprocess.run(
        ["xargs", "-0", "cp", "--parents", "--no-dereference", "--target-directory", target],
        input=listed, cwd=ROOT, check=True,
    )  # fmt: skip
