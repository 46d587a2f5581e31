"""Reading never fails, writing is exact, and both agree about places, whatever the input."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.kube.objects import FieldPath
from reconciler.kube.yaml import is_ambiguous, is_string, read, write
from reconciler.kube.yaml.scalars import key_text, resolve
from tests import sizes

FRAGMENTS = st.sampled_from(
    [
        "a",
        "b",
        ": ",
        ":",
        "- ",
        "-",
        "\n",
        "\n  ",
        "\n    ",
        " ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&a ",
        "*a",
        "<<",
        "!!str ",
        "!x ",
        "|",
        ">",
        "|2-\n",
        "'",
        '"',
        "\\",
        "#",
        "---",
        "\n---\n",
        "\n...\n",
        "%YAML",
        "?",
        "1",
        "0x",
        "no",
        "~",
        "\t",
        "\r\n",
        "\x00",
        "\u2028",
        "\x85",
        "\ufeff",
        "\u202e",
        "\ud7ff",
        "é",
        "😀",
        "kind: List\n",
        "items:\n",
        "! ",
        "@",
    ]
)
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.one_of(
    st.text(CHARACTERS, max_size=30),
    st.text("ab \n\t:#-'\"\\", max_size=20),
    st.text("0123456789.eExobyntf_:+-~<=", max_size=8),
    st.lists(st.sampled_from(["#!/bin/sh", "set -e", "  x", "", "\ty", "z ", "é"]), max_size=6).map("\n".join),
)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(TEXTS | st.sampled_from(["apiVersion", "metadata", "spec"]), VALUES, max_size=5)


def check(raw: bytes) -> None:
    reading = read("a.yaml", raw)
    for problem in reading.problems:
        assert problem.rule.startswith("yaml.")
        assert str(problem).isprintable()
    for document in reading.documents:
        for path, value in leaves(document.data):
            assert document.at(path).line >= document.source.line or b"*" in raw
            if isinstance(value, str):
                written = document.written(path)
                assert written is not None
                assert written == value or resolve(written) != written
        for path, text in document.ambiguous:
            assert is_ambiguous(text)
            assert document.written(path) == text


def leaves(value: Any, path: FieldPath = ()) -> list[tuple[FieldPath, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not children:
        return [(path, value)]
    return [leaf for name, child in children for leaf in leaves(child, (*path, name))]


@given(st.binary(max_size=200))
@settings(max_examples=sizes.examples(400), deadline=None)
def test_any_bytes(raw: bytes) -> None:
    check(raw)


@given(st.lists(FRAGMENTS, max_size=40))
@settings(max_examples=sizes.examples(1500), deadline=None)
def test_any_mix_of_yaml(parts: list[str]) -> None:
    check("".join(parts).encode())


@given(OBJECTS, st.data())
@settings(max_examples=sizes.examples(150), deadline=None)
def test_damaged_documents(body: dict[str, Any], data: st.DataObject) -> None:
    raw = write(body)
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, len(raw)))
    check(raw[:start] + data.draw(st.binary(max_size=5)) + raw[end:])


@given(OBJECTS)
@settings(max_examples=sizes.examples(600), deadline=None)
def test_write_then_read(body: dict[str, Any]) -> None:
    """What is written is read as it was, without a single scalar that somebody could misread."""
    raw = write(body)
    reading = read("a.yaml", raw)
    assert not reading.problems
    if isinstance(body.get("kind"), str) and isinstance(body.get("items"), list):
        return
    (document,) = reading.documents
    assert document.data == body
    assert all(not isinstance(value_at(body, path), str) for path, _ in document.ambiguous)
    assert write(document.data) == write(dict(reversed(body.items())))


def value_at(value: Any, path: FieldPath) -> Any:
    for part in path:
        value = value[part]
    return value


@given(OBJECTS)
@settings(max_examples=sizes.examples(150), deadline=None)
def test_writing_again_changes_nothing(body: dict[str, Any]) -> None:
    documents = read("a.yaml", write(body)).documents
    if len(documents) == 1 and documents[0].root == ():
        assert write(documents[0].data) == write(body)


@given(st.text("0123456789.eExXobaAF_:+-~<=yntT", max_size=10))
@settings(max_examples=sizes.examples(1500), deadline=None)
def test_scalars_never_fail(text: str) -> None:
    value = resolve(text)
    assert is_string(text) == (isinstance(value, str) and not is_ambiguous(text))
    assert value == text or not isinstance(value, str)
    key = key_text(text)
    assert key is None or isinstance(key, str)
