"""Expected outputs as files: `GOLDEN=1 pytest tests/outputs` writes them again, to be reviewed as a diff."""

import os
from pathlib import Path

FOLDER = Path(__file__).with_name("golden")


def agrees(name: str, text: str) -> bool:
    path = FOLDER / name
    if os.environ.get("GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; GOLDEN=1 writes it again"
    return True
