"""Expected outputs as files: `GOLDEN=1 pytest tests/plan/outputs` writes them again, to be reviewed as a diff."""

import os
from pathlib import Path

FOLDER = Path(__file__).with_name("golden")


def agrees(name: str, text: str) -> bool:
    return agrees_with(FOLDER / name, text)


def agrees_with(path: Path, text: str) -> bool:
    if os.environ.get("GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; GOLDEN=1 writes it again"
    return True
