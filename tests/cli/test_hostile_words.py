"""Words from files, settings, names and flags that would act on a terminal or a build server: no verb prints one."""

import json
import re
from itertools import product
from pathlib import Path

import pytest
import yaml

import reconciler
from reconciler.console.printable import clean_output
from reconciler.kube.yaml import write
from tests.cli.fleet import Fleet

_WORDS = (
    "::stop-commands::x",
    "a\n::error::owned\n  ::set-env name=A::b\n",
    "##vso[task.setvariable variable=a]b",
    "x\n##[error]owned\n",
    "##teamcity[message text='a']",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "\u202ereversed\u2066",
    "back\bspace\rreturn",
    "zero\u200bwidth\u3164\u115f",
)
_VERBS = (
    ("plan", "--full"),
    ("plan", "-o", "json"),
    ("plan", "-o", "markdown"),
    ("plan", "--color", "always"),
    ("lint",),
    ("lint", "--log-level", "debug"),
    ("lint", "--log-level", "debug", "--log-format", "json"),
    ("render",),
    ("explain", "ConfigMap/words"),
    ("explain", "{word}"),
    ("explain", "ConfigMap/words", "{word}"),
    ("schema", "{word}"),
    ("plan", "--base", "{word}"),
    ("plan", "--cluster", "{word}"),
    ("plan", "-o", "{word}"),
    ("plan", "--{word}"),
    ("{word}",),
    ("show", "{word}"),
    ("render", "--to", "{word}"),
    ("size", "{word}"),
    ("completion", "{word}"),
    ("version", "{word}"),
    ("commit", "--branch", "{word}"),
    ("verify", "--revision", "{word}"),
)


def acts(text: str) -> list[str]:
    """Return what a terminal or a build server would act on, but for the colors of our own text output."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text) if "\x1b[31mred" not in text else text
    hidden = [sign for sign in text if not sign.isprintable() and sign not in "\n\t"]
    return [*hidden, *re.findall(r"^[ \t]*::.*|##(?:\[|vso\[|teamcity\[)|[\u3164\u115f]", text, re.MULTILINE)]


@pytest.fixture
def hostile(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.chdir(tmp_path_factory.mktemp("words"))
    data = {f"k{number}": word for number, word in enumerate(_WORDS)}
    body = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words", "labels": {"team": "x"}}, "data": data,
    }  # fmt: skip
    fleet.write("jobs/words.yaml", json.dumps(body))
    return fleet


@pytest.mark.parametrize("verb", _VERBS, ids=" ".join)
def test_no_verb_prints_a_word_that_acts(hostile: Fleet, verb: tuple[str, ...]) -> None:
    for word in _WORDS if any("{word}" in part for part in verb) else _WORDS[:1]:
        done = hostile.run(*(part.replace("{word}", word) for part in verb))
        assert acts(done.out) == []
        assert acts(done.err) == []


def test_rendered_words_keep_their_value(hostile: Fleet) -> None:
    done = hostile.run("render")
    (words,) = (body for body in yaml.safe_load_all(done.out) if body["metadata"]["name"] == "words")
    assert words["data"] == {f"k{number}": word for number, word in enumerate(_WORDS)}


@pytest.mark.parametrize(("word", "other"), [*product(_WORDS, _WORDS)])
def test_the_writer_escapes_words_in_keys_and_values(word: str, other: str) -> None:
    body = {word: other, "list": [word, {other: [word]}], "long": {word * 1000: f"{other}\n{word}"}}
    text = write(body).decode()
    assert acts(text) == []
    assert yaml.safe_load(text) == body


def test_only_one_module_prints() -> None:
    package = Path(reconciler.__file__).parent
    modules = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if "echo(" in path.read_text()}
    assert modules == {"console/printing.py"}


@pytest.mark.parametrize("word", _WORDS)
def test_escapes_in_json_keep_the_value(word: str) -> None:
    text = clean_output(json.dumps({"a": word}, ensure_ascii=False), form="json")
    assert acts(text) == []
    assert json.loads(text) == {"a": word}
