"""Print the values of torchtune's shipped configurations: `python -m tools.recipes WHEEL`.

The rows are those of `reconciler/launch/frameworks/torchtune.toml`, of which only the keys that are read are kept.
"""

import sys
import zipfile
from pathlib import PurePosixPath
from typing import Any

import yaml

from reconciler.launch import FRAMEWORKS
from reconciler.launch.settings import flatten

_OTHER = (
    "evaluation",
    "generation",
    "quantization",
    "ppo",
    "grpo",
    "distillation",
    "early_fusion",
    "vision",
    "eleuther",
)
_WORDS = next(row.words for row in FRAMEWORKS if row.named_recipes is not None)
_TARGETS = {name: letter for letter, name in _WORDS["targets"].items()}


def main(wheel: str) -> None:
    """Print one row for each configuration that trains a text model."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            path = PurePosixPath(name)
            is_vision = path.stem.startswith(("11B", "90B")) or "/dev/" in name
            if path.suffix == ".yaml" and not is_vision and not any(word in name for word in _OTHER):
                print(
                    _row(str(path.relative_to("recipes/configs").with_suffix("")), yaml.safe_load(archive.read(name)))
                )


def _row(name: str, data: dict[str, Any]) -> str:
    values = flatten(data)
    if "qlora" in values.get("model._component_", ""):
        values["model._component_"] = "qlora"
    else:
        values.pop("model._component_", None)
    words = [name]
    for short, key in _WORDS["keys"].items():
        text = values.get(key, "").removeprefix("/tmp/").rstrip("/").removesuffix("/original").replace(" ", "")  # noqa: S108
        if short == "t" and text:
            text = "".join(_TARGETS[target] for target in text.split(","))
        if text not in {"", "null", "None", "False", "false", _WORDS["recipe"].get(key, "")}:
            words.append(f"{short}={text}")
    return " ".join(words)


if __name__ == "__main__":
    main(sys.argv[1])
