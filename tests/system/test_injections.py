"""Hostile words in values of a good repository: no output lets them act on a terminal, a forge or a runner."""

import json
import re
import xml.etree.ElementTree as ET

import pytest
from markdown_it import MarkdownIt

from tests.cli.fleet import Fleet

_WORDS = (
    "@everyone",
    "<img src=x onerror=alert(1)>",
    "</details><script>alert(1)</script>",
    "::error file=a::owned",
    "##[error]owned",
    "[link](javascript:alert(1))",
    "```\n# heading",
    "\\e[31mred\\e[0m",
    "\\u202ereversed",
    "| cell | cell |",
    "<!-- gpu-reconciler:plan:fleet -->",
    "closes #1",
)


def _plant(fleet: Fleet, word: str) -> None:
    quoted = '"' + word.replace("\n", "\\n").replace('"', '\\"') + '"'
    fleet.write(
        "jobs/words.yaml",
        f"# {word.splitlines()[0]}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: words\n  labels: {{team: x}}\n"
        f"  annotations: {{note: {quoted}}}\ndata:\n  text: {quoted}\n",
    )
    fleet.write(
        "jobs/command.yaml",
        "apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {name: command, labels: {team: x}}\n"
        f"spec:\n  jobQueue: h100\n  numGPUs: 8\n  command: {quoted}\n  reliability: {{ttlSecondsAfterFinished: 60}}\n",
    )
    # Words that end up in messages: a queue, a kind, a label that do not exist or are not allowed.
    fleet.write(
        "jobs/wrong.yaml",
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {quoted}, labels: {{team: {quoted}}}}}\n---\n"
        f"apiVersion: v1\nkind: {quoted}\nmetadata: {{name: a}}\n---\n"
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: b}}\n{quoted}: 1\n",
    )


@pytest.mark.parametrize("word", _WORDS)
def test_no_output_lets_words_act(fleet: Fleet, word: str) -> None:
    """Text, Markdown, annotations, JUnit, SARIF and JSON stay what they are, whatever the values say."""
    _plant(fleet, word)
    for verb in ("plan", "lint"):
        text = fleet.run(verb, "--full") if verb == "plan" else fleet.run(verb)
        assert text.code == 3, text.err
        assert all(sign.isprintable() for sign in (text.out + text.err).replace("\n", ""))
        assert not re.search(r"^\s*::|##\[", text.out + text.err, re.MULTILINE)
        for line in fleet.run(verb, "-o", "github").out.splitlines():
            assert re.match(r"::(error|warning|notice|group|endgroup)\b", line) or not line.lstrip().startswith("::"), (
                line
            )
            assert "##[" not in line
            assert line.isprintable()
            assert not line.startswith("::error file=a::")
        ET.fromstring(fleet.run(verb, "-o", "junit").out)  # noqa: S314 - our own output
        assert json.loads(fleet.run(verb, "-o", "sarif").out)["version"] == "2.1.0"
        json.loads(fleet.run(verb, "-o", "json").out)
    markdown = fleet.run("plan", "--full", "-o", "markdown").out
    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(markdown)
    outside = re.sub(r"<(code|pre)\b[^>]*>.*?</\1>", "", html, flags=re.DOTALL)
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html
    assert "@everyone" not in outside
    assert "closes #1" not in outside
    assert html.count("<details>") == html.count("</details>")
    assert len(re.findall(r"<!-- gpu-reconciler:plan:", html)) == 1
