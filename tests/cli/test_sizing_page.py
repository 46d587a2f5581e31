"""`docs/sizing.md`: its settings are accepted, and its tables match the code. Its commands are run with all others."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.training import training_kind_names
from reconciler.launch import FRAMEWORKS
from reconciler.sizing.config import SizingSettings, sizing_settings
from tests.cli.fleet import Fleet

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sizing.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
WORDS = {"true": "on", "false": "off"}


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_settings_are_accepted(fleet: Fleet, block: str) -> None:
    if "kueue" in block:
        fleet.edit("reconciler.yaml", "backend: kai ", "backend: kueue ")
        fleet.edit("jobs/language/llama-lora.yaml", "kai.scheduler/queue: h100", "kueue.x-k8s.io/queue-name: fake")
    path = fleet.root / "reconciler.yaml"
    path.write_text(path.read_text() + block.removeprefix("spec:\n"))
    ran = fleet.run("lint")
    assert ran.code == 0, ran.out + ran.err


def test_the_first_block_holds_every_key_with_its_default() -> None:
    spec = yaml.safe_load(BLOCKS[0])["spec"]["sizing"]
    listed = sizing_settings(spec)
    assert set(listed.kinds) == {name.lower() for name in training_kind_names(BUILT_IN)}  # as no list means all
    assert replace(listed, kinds=()) == SizingSettings()
    kinds = (Path(__file__).resolve().parents[2] / "docs/reference/kinds.md").read_text()
    keys = set(re.findall(r"^\| `spec\.sizing\.(\w+)` ", kinds, re.MULTILINE))
    assert set(spec) == keys - {"wrapper", "rest"}


def test_defaults_of_frameworks() -> None:
    """A value that the table leaves out is one that the framework does not say."""
    known = {framework.name: framework for framework in FRAMEWORKS}
    rows = re.findall(r"^\| ([a-z-]+) \| (.*) \|$", PAGE.partition("| Framework")[2].partition("\n\n")[0], re.MULTILINE)
    assert len(rows) >= 10
    for name, cells in rows:
        assert cells.split(" | ") == _cells(known[name].defaults), name


def _cells(defaults: Mapping[str, str]) -> list[str]:
    names = ("batch", "sequence", "precision", "attention", "checkpointing")
    found = [WORDS.get(defaults.get(name, "–"), defaults.get(name, "–")) for name in names]
    return [*found, f"{defaults['lora_rank']}, {defaults['lora_targets']}" if "lora_rank" in defaults else "–"]
