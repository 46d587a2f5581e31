"""Writing: stable order, readable scripts, and quotes that no parser gets around."""

import json
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from reconciler.kube.yaml import read, write
from tests.kube.yaml.kubectl_dialect import DOCUMENTS, KEYS, KUBECTL, RECORD, SCALARS, ask

NASTY = (
    *SCALARS,
    *KEYS,
    *[
        "'",
        '"',
        "''",
        '""',
        "'x",
        '"x',
        "x'",
        'x"',
        "#",
        "#x",
        "x#",
        "x#y",
        ":",
        "x:",
        ":x",
        "x:y",
        "?",
        "?x",
        "-",
        "-x",
        "--",
        ",",
        "x,y",
        "[",
        "]",
        "[x]",
        "{",
        "}",
        "{x}",
        "&",
        "&x",
        "*",
        "*x",
        "!",
        "!x",
        "|",
        "|x",
        ">",
        ">x",
        "%",
        "%x",
        "@",
        "@x",
        "`",
        "`x\n",
        "",
        "",
        "",
        "\\",
        "x\\",
        "\\n",
        "%YAML",
        "!!str",
        "<<",
        "<<:",
        "=>",
        "${X}",
        "$(X)",
        "{{x}}",
        "~x",
        "x~",
        "+1x",
        "1x",
        "0x",
        "0b",
        "0o",
        "00x",
        "//",
        "\xa0",
        "\xad",
        "\u2028",
        "\u2029",
        "\x85",
        "\ufeff",
        "é",
        "日本",
    ],
    "",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\t",
    "\r",
    "\r\n",
    " x",
    "x ",
    "x: y",
    "x : y",
    "x #y",
    "- x",
    "? x",
    "x\ty",
    "\tx",
    "x\t",
    "a\nb",
    "a\nb\n",
    "a\nb\n\n\n",
    "\na",
    "\n\na\n",
    " a\nb",
    "\ta\nb",
    "a\n b\n  c",
    "a\n\n\nb",
    "a  \nb \n",
    "a\n   \nb",
    "a\n \n",
    "a\r\nb",
    "a\n\tb\n",
    "a\x00b",
    "a\x07b\nc",
    "\x1b[31m",
    "\x7f",
    "\x9b",
    "\u202e",
    "\ufffe",
    "\uffff",
    "\ue000",
    "\U0001f600",
    "a\u2028b\nc",
    "--- x",
    "---\na",
    "...\n",
    "a\n---\nb",
    "a\n...\nb\n",
    "%TAG\n%x",
    'it\'s "both"',
    "it's",
    '{"a": 1}',
    "x" * 3000,
    "x y " * 1000,
)


def test_order_and_style() -> None:
    """Kubernetes' order above, names first in metadata and in items, block style, lists at their key's column."""
    body: dict[str, Any] = {
        "spec": {"template": {"spec": {"containers": [{"image": "a", "name": "main", "args": ["--x", "y: z"]}]}}},
        "kind": "Job",
        "status": {},
        "metadata": {"labels": {"b": "1", "a": "no"}, "annotations": {}, "namespace": "team", "name": "x"},
        "apiVersion": "batch/v1",
        "data": [[1, [2.5]], [], {}, None, True],
    }
    assert write(body).decode() == (
        "apiVersion: batch/v1\n"
        "kind: Job\n"
        "metadata:\n"
        "  name: x\n"
        "  namespace: team\n"
        "  annotations: {}\n"
        "  labels:\n"
        '    a: "no"\n'
        '    b: "1"\n'
        "data:\n"
        "- - 1\n"
        "  - - 2.5\n"
        "- []\n"
        "- {}\n"
        "- null\n"
        "- true\n"
        "spec:\n"
        "  template:\n"
        "    spec:\n"
        "      containers:\n"
        "      - name: main\n"
        "        args:\n"
        "        - --x\n"
        '        - "y: z"\n'
        "        image: a\n"
        "status: {}\n"
    )


def test_scripts_are_readable() -> None:
    script = '#!/bin/sh\nset -eu\n\nif [ "$X" = "1" ]; then\n  echo "a: b" # c\nfi\n'
    assert write({"command": ["sh", "-c", script], "tail": "a\nb", "end": "a\n\n"}).decode() == (
        "command:\n"
        "- sh\n"
        "- -c\n"
        "- |\n"
        "  #!/bin/sh\n"
        "  set -eu\n"
        "\n"
        '  if [ "$X" = "1" ]; then\n'
        '    echo "a: b" # c\n'
        "  fi\n"
        "end: |+\n"
        "  a\n"
        "\n"
        "tail: |-\n"
        "  a\n"
        "  b\n"
    )


def test_usual_strings_stay_plain() -> None:
    for text in ("nvidia.com/gpu", "python train.py --lr=1", "nvcr.io/x/y:24.01-py3", "a b", "500m", "/bin/sh", "$(X)"):
        assert write({"a": text}) == f"a: {text}\n".encode()


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_string_survives(text: str) -> None:
    """As a value, as a key, in a list and in a list's mapping; for us and for a parser of YAML 1.1."""
    body = {"v": text, "m": {text: 1}, "l": [text, [text], {text: text}]}
    raw = write(body)
    reading = read("a.yaml", raw)
    assert not reading.problems
    assert reading.documents[0].data == body
    assert not reading.documents[0].ambiguous
    assert yaml.safe_load(raw) == body


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")
def test_strings_survive_kubectl() -> None:
    texts = [text for text in NASTY if text.isprintable() or "\n" in text or "\t" in text]
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    body = head | {"values": texts, "keys": {text: text for text in texts}, "deep": [[[{"k": text}]] for text in texts]}
    assert ask(write(body).decode()) == [body]


@pytest.mark.parametrize(
    "value", [0, -1, 2**63 - 1, -(2**63), 0.5, -1.5, 1e30, 1e-7, 1.5e300, 5e-324, True, False, None]
)
def test_numbers_survive(value: Any) -> None:
    raw = write({"a": value, "l": [value]})
    (document,) = read("a.yaml", raw).documents
    assert document.data == {"a": value, "l": [value]}
    assert type(document.data["a"]) is type(value)
    assert not document.ambiguous
    assert yaml.safe_load(raw) == {"a": value, "l": [value]}


def test_whole_floats_are_written_as_kubernetes_reads_them() -> None:
    assert write({"a": 5.0, "b": -0.0}) == b"a: 5\nb: 0\n"


def test_recorded_documents_survive() -> None:
    for name in DOCUMENTS:
        for body in json.loads(RECORD.read_text(encoding="utf-8"))["documents"][name] or []:
            assert read("a.yaml", write(body)).documents[0].data == body


def test_order_of_insertion_does_not_matter() -> None:
    assert write({"b": 1, "a": {"d": 1, "c": 2}}) == write({"a": {"c": 2, "d": 1}, "b": 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_no_number(value: float) -> None:
    with pytest.raises(ValueError, match="NaN"):
        write({"a": value})


def test_no_json() -> None:
    with pytest.raises(TypeError, match="set cannot be written"):
        write({"a": {1}})


class Word(StrEnum):
    """What a caller may have in place of a plain string."""

    NO = "no"
    LINES = "a\nb\n"


def test_subclasses_of_plain_types() -> None:
    body = {"a": Word.NO, "b": {"c": Word.LINES}, "d": [Word.LINES], "e": (1, ()), "f": MappingProxyType({"g": 1})}
    expected = {"a": "no", "b": {"c": "a\nb\n"}, "d": ["a\nb\n"], "e": [1, []], "f": {"g": 1}}
    assert write(body) == write(expected)
    assert read("a.yaml", write(body)).documents[0].data == expected


def test_nothing() -> None:
    assert write({}) == b"{}\n"
