"""Every test that docs/hostile-input.md names exists, and so does every rule."""

import re
from pathlib import Path

from tests.kube.yaml.hostile.test_hostile_documents import CASES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/hostile-input.md").read_text()


def test_every_named_test_exists() -> None:
    files = set(re.findall(r"`([a-z_/]+\.py)`", PAGE))
    assert len(files) > 10
    assert [path for path in sorted(files) if not (ROOT / "tests" / path).is_file()] == []
    cases = set(re.findall(r'"([^"]+)"', PAGE.split("## YAML", 1)[1]))
    assert len(cases) > 15
    assert cases - {case.name for case in CASES} == set()


def test_every_named_rule_exists() -> None:
    rules = set(re.findall(r"`((?:yaml|schema|git|policy)\.[a-z-]+)`", PAGE))
    source = "\n".join(path.read_text() for path in (ROOT / "reconciler").rglob("*.py"))
    written = {rule for rule in rules if f'"{rule}"' in source}
    reader = {rule for rule in rules - written if f'"{rule.removeprefix("yaml.")}"' in source}
    assert rules - written - reader == set()
