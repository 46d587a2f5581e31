"""The dialect is kubectl's: every scalar, key and document, against the record and against the real one."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from reconciler.kube.yaml import read
from reconciler.kube.yaml.scalars import is_ambiguous, key_text, resolve
from tests import sizes
from tests.kube.yaml.kubectl_dialect import (
    DOCUMENTS,
    KEYS,
    KUBECTL,
    RECORD,
    SCALARS,
    STREAMS,
    WHOLE,
    ask,
    ask_keys,
    ask_scalars,
    ask_streams,
    whole_text,
)

RECORDED: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
REFUSED_BY_US = {"tag-exclamation": "yaml.tag"}
"""What kubectl reads and we refuse on purpose: the case and our rule."""
READ_BY_US = {"quoted-slash"}
"""JSON's escape of a slash: libyaml knows it, go-yaml does not."""

needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")


def test_record_is_complete() -> None:
    assert set(RECORDED["scalars"]) == set(SCALARS)
    assert set(RECORDED["keys"]) == set(KEYS)
    assert set(RECORDED["documents"]) == {*DOCUMENTS, *WHOLE}
    assert set(RECORDED["streams"]) == set(STREAMS)


@pytest.mark.parametrize("text", SCALARS)
def test_scalar(text: str) -> None:
    """Plain scalars have Kubernetes' types and values."""
    expected = RECORDED["scalars"][text]
    value = resolve(text)
    if text == "-":
        assert read("a.yaml", b"a:\n  k: -\n").problems
    elif not expected:
        assert isinstance(value, float)
        assert not math.isfinite(value)
        assert [problem.rule for problem in read("a.yaml", f"k: {text}\n".encode()).problems] == ["yaml.number"]
    else:
        kubectl = as_int64_or_float(expected[0])
        assert type_of(value) == type_of(kubectl)
        assert value == kubectl
        assert read("a.yaml", f"k: {text}\n".encode()).documents[0].data == {"k": kubectl}


def as_int64_or_float(value: object) -> object:
    """Kubernetes decodes JSON's integers that need more than 64 bits as floats; Python's json keeps them."""
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def type_of(value: object) -> str:
    """JSON knows one type of numbers; what has a fraction or an exponent in it is the same number to Kubernetes."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


@pytest.mark.parametrize("text", KEYS)
def test_key(text: str) -> None:
    """Plain keys become the text that Kubernetes makes of them, and what is not the text as written is an error."""
    expected = RECORDED["keys"][text]
    assert key_text(text) == expected
    reading = read("a.yaml", f"a: {{ {text}: x }}\n".encode())
    if expected == text and not is_ambiguous(text):
        assert reading.documents[0].data == {"a": {text: "x"}}
    else:
        assert {problem.rule for problem in reading.problems} <= {"yaml.ambiguous-key", "yaml.key"}
        assert not reading.documents


@pytest.mark.parametrize("name", [*DOCUMENTS, *WHOLE])
def test_document(name: str) -> None:
    expected = RECORDED["documents"][name]
    reading = read("a.yaml", whole_text(name).encode())
    if name in READ_BY_US:
        assert expected is None
        assert not reading.problems
    elif name in REFUSED_BY_US:
        assert expected
        assert {problem.rule for problem in reading.problems} == {REFUSED_BY_US[name]}
    elif expected is None:
        assert reading.problems
    else:
        assert not reading.problems
        assert [document.data for document in reading.documents] == expected


@pytest.mark.parametrize("name", STREAMS)
def test_stream(name: str) -> None:
    """Documents are cut as Kubernetes' decoder cuts them, so that block scalars keep the newlines at their end."""
    expected = RECORDED["streams"][name]
    reading = read("a.yaml", STREAMS[name].encode())
    if expected is None:
        assert reading.problems
    elif not reading.problems:
        assert [document.data["data"]["k"] for document in reading.documents] == expected
    else:
        assert {problem.rule for problem in reading.problems} <= {"yaml.separator"}


def test_streams_live(kubectl: Path) -> None:
    """The kubectl that is built with the control plane agrees with the record."""
    some = dict(list(STREAMS.items())[:: 1 if sizes.LARGE else 12])
    assert ask_streams(some, str(kubectl)) == {name: RECORDED["streams"][name] for name in some}


@needs_kubectl
def test_scalars_live() -> None:
    assert ask_scalars(SCALARS) == RECORDED["scalars"]


@needs_kubectl
def test_keys_live() -> None:
    assert ask_keys(KEYS) == RECORDED["keys"]


@needs_kubectl
def test_documents_live() -> None:
    some = (*DOCUMENTS, *WHOLE)[:: 1 if sizes.LARGE else 4]
    assert {name: ask(whole_text(name)) for name in some} == {name: RECORDED["documents"][name] for name in some}


AMBIGUOUS = """y n yes No ON off 012 08 0o777 0b101 1_000 1e3 1E5 1.5e3 12e03 1234e56 1e400 12:30 12:30:45 22:22 8080:53
    2024-01-01 2024-01-01T00:00:00Z = << 0777 -012 1_ 190:20:30.15 .5_0 0xFFFFFFFFFFFFFFFFF .nan .inf 9e9"""


@pytest.mark.parametrize("text", AMBIGUOUS.split())
def test_ambiguous(text: str) -> None:
    assert is_ambiguous(text)


NOT_AMBIGUOUS = """true False null ~ 0 1 -1 12 1.5 0.1 1.10 -1.5 abc v1 1.2.3 100Mi 500m 80:8080 nvidia.com/gpu 24.01-py3 -x + - /a
    2024-13 20240101 deadbeef inf NaN yEs tRUE sha256:ab 10.0.0.1 1Gi a:b 0x1F 1.5e+3 9223372036854775807"""


@pytest.mark.parametrize("text", NOT_AMBIGUOUS.split())
def test_not_ambiguous(text: str) -> None:
    assert not is_ambiguous(text)
