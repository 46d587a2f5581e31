"""Reading: documents, places, lists, ambiguous scalars, and all problems of a file at once."""

from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.kube.objects import FieldPath, ObjectKey
from reconciler.kube.yaml import Document, Limits, read, tree

JOB = b"""\
# a job
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: team-a
  labels: {run: 12:30, "quoted": no}
spec:
  template:
    spec:
      containers:
      - name: main
        image: "a:1"
        command: [sh, -c, echo]
      - name: side
        env:
          - name: X
            value: 012
  suspend: off
  script: |
    one
    two
"""


def only(raw: bytes) -> Document:
    reading = read("jobs/a.yaml", raw)
    assert not reading.problems
    assert len(reading.documents) == 1
    return reading.documents[0]


def problems(raw: bytes, limits: Limits | None = None) -> list[str]:
    return [str(problem) for problem in read("a.yaml", raw, limits or Limits()).problems]


def test_identity_and_source() -> None:
    job = only(JOB)
    assert str(job.source) == "jobs/a.yaml:2:1"
    assert job.key == ObjectKey(group="batch", kind="Job", namespace="team-a", name="train")
    assert job.api_version == "batch/v1"
    assert job.text == JOB


@pytest.mark.parametrize(
    ("field", "value", "key"),
    [
        (("kind",), "3:7", "3:1"),
        (("metadata",), "5:3", "4:1"),
        (("metadata", "labels", "run"), "7:17", "7:12"),
        (("metadata", "labels", "quoted"), "7:34", "7:24"),
        (("spec", "template", "spec", "containers", 0), "12:9", "12:9"),
        (("spec", "template", "spec", "containers", 0, "command", 2), "14:27", "14:27"),
        (("spec", "template", "spec", "containers", 1, "env", 0, "value"), "18:20", "18:13"),
        (("spec", "script"), "20:11", "20:3"),
    ],
)
def test_places(field: FieldPath, value: str, key: str) -> None:
    """Every value knows its line and column."""
    job = only(JOB)
    assert str(job.at(field)) == f"jobs/a.yaml:{value}"
    assert str(job.at(field, key=True)) == f"jobs/a.yaml:{key}"


@pytest.mark.parametrize(
    ("field", "place"),
    [
        (("spec", "template", "missing"), "9:3"),
        (("spec", "template", "spec", "containers", 7, "image"), "11:7"),
        (("spec", "template", "spec", "containers", 1, "image"), "15:9"),
        (("kind", "x", "y"), "3:1"),
        (("nowhere",), "2:1"),
        ((), "2:1"),
    ],
)
def test_place_of_what_is_absent(field: FieldPath, place: str) -> None:
    assert str(only(JOB).at(field)) == f"jobs/a.yaml:{place}"


def test_ambiguous_scalars_and_their_text() -> None:
    """What other parsers read differently is on record, with the text that has to be quoted."""
    job = only(JOB)
    assert job.ambiguous == (
        (("metadata", "labels", "run"), "12:30"),
        (("metadata", "labels", "quoted"), "no"),
        (("spec", "template", "spec", "containers", 1, "env", 0, "value"), "012"),
        (("spec", "suspend"), "off"),
    )
    assert job.data["spec"]["suspend"] is False
    assert job.written(("spec", "suspend")) == "off"
    assert job.written(("spec", "template", "spec", "containers", 0, "image")) == "a:1"
    assert job.written(("spec", "template")) is None
    assert job.written(("spec", "nothing")) is None
    assert job.written(("kind", 0)) is None


def test_quoted_scalars_are_not_ambiguous() -> None:
    assert only(b"a: ['no', \"1e3\", '012']\n").ambiguous == ()


def test_documents_of_one_file_and_their_places() -> None:
    reading = read("a.yaml", b"a: 1\n---\n---\n# nothing\n--- # x\nb:\n  c: 2\n---\r\nd: 3\r\n")
    assert [document.data for document in reading.documents] == [{"a": 1}, {"b": {"c": 2}}, {"d": 3}]
    assert [str(document.source) for document in reading.documents] == ["a.yaml:1:1", "a.yaml:6:1", "a.yaml:9:1"]
    assert str(reading.documents[1].at(("b", "c"))) == "a.yaml:7:6"
    assert [document.index for document in reading.documents] == [0, 3, 4]


def test_one_broken_document_hides_no_other() -> None:
    reading = read("a.yaml", b"a: 1\n---\nb: [\n---\nc: 3\nc: 4\n---\nd: \xff\n---\ne: 5\n")
    assert [document.data for document in reading.documents] == [{"a": 1}, {"e": 5}]
    assert [(str(problem.place), problem.rule) for problem in reading.problems] == [
        ("a.yaml:4:1", "yaml.syntax"),
        ("a.yaml:6:1", "yaml.duplicate-key"),
        ("a.yaml:8:4", "yaml.encoding"),
    ]


def test_all_problems_of_a_document() -> None:
    assert problems(b"a: 1\na: 2\nb: !x 1\nc:\n  on: .nan\n  d: {? [e] : 1}\n") == [
        'a.yaml:2:1: a: the key "a" is already set at 1:1; keep one of the two [yaml.duplicate-key]',
        "a.yaml:3:4: b: this tag is not allowed; remove the tag; allowed tags: !!str, !!map, !!seq [yaml.tag]",
        (
            'a.yaml:5:3: c.true: YAML parsers disagree about the key "on", and Kubernetes reads "true"; '
            'quote it: "on" [yaml.ambiguous-key]'
        ),
        ('a.yaml:5:7: c.true: ".nan" is not a valid JSON number; write a finite number, or quote it [yaml.number]'),
        (
            "a.yaml:6:9: c.d.?: a list cannot be a key; "
            "keys are strings; if this is a template placeholder, quote it or render the template first [yaml.key]"
        ),
    ]


def test_lists_become_documents_with_exact_places() -> None:
    raw = b"""\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
- apiVersion: v1
  kind: ConfigMapList
  items:
  - metadata: {name: b}
    data: {x: 012}
"""
    reading = read("a.yaml", raw)
    assert not reading.problems
    first, second = reading.documents
    assert str(first.source) == "a.yaml:4:3"
    assert first.root == ("items", 0)
    assert second.root == ("items", 1, "items", 0)
    assert second.key == ObjectKey(group="", kind="ConfigMap", namespace="", name="b")
    assert second.ambiguous == ((("data", "x"), "012"),)
    assert str(second.at(("metadata", "name"))) == "a.yaml:10:22"
    assert str(second.at(("data", "y"))) == "a.yaml:11:5"
    assert second.written(("data", "x")) == "012"


def test_a_list_with_something_else_in_it() -> None:
    reading = read("a.yaml", b"kind: List\nitems:\n- a: 1\n- x\n- [1]\n")
    assert [document.data for document in reading.documents] == [{"a": 1}]
    assert [str(problem.place) for problem in reading.problems] == ["a.yaml:4:3", "a.yaml:5:3"]
    assert {problem.field for problem in reading.problems} == {"items[1]", "items[2]"}


def test_places_through_merge_keys_and_aliases() -> None:
    document = only(b"base: &base\n  a: 1\n  b: 2\none:\n  <<: *base\n  b: 3\ntwo: *base\n")
    assert document.data["one"] == {"a": 1, "b": 3}
    assert str(document.at(("one", "a"))) == "jobs/a.yaml:2:6"
    assert str(document.at(("one", "b"))) == "jobs/a.yaml:6:6"
    assert str(document.at(("two", "b"))) == "jobs/a.yaml:3:6"


_INVENTORY = b"---\n# evidence\nkind: NodeInventory\nspec:\n  other: {a: [1, 2], b: x}\n  takenAt: now\n  nodes:\n"


def test_a_place_near_the_start_of_a_large_document_does_not_compose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    document = only(_INVENTORY + b"".join(b"    - {name: node-%05d}\n" % number for number in range(5_000)))
    late = document.at(("spec", "nodes", 4_999, "name"))
    assert str(late) == "jobs/a.yaml:5007:14"
    monkeypatch.setattr(tree, "_tree", None)
    assert str(document.at(("spec", "nodes"))) == "jobs/a.yaml:8:5"
    assert str(document.at(("spec", "nodes"), key=True)) == "jobs/a.yaml:7:3"


@pytest.mark.parametrize(
    "raw",
    [
        JOB,
        _INVENTORY + b"    - name: a\n",
        b"base: &base\n  a: 1\n  b: 2\none:\n  <<: *base\n  b: 3\ntwo: *base\nthree: {a: *base}\n",
        b'{"kind": "Job", "metadata": {"name": "a"}}\n',
    ],
)
def test_places_near_the_start_are_those_of_the_composed_document(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    document = only(raw)
    paths = [path for path in _paths(document.data) if path] + [("spec", "absent"), ("absent", "x"), ("kind", "x")]
    composed = [(document.at(path), document.at(path, key=True)) for path in paths]
    monkeypatch.setattr(tree, "_LARGE", 0)
    assert [(document.at(path), document.at(path, key=True)) for path in paths] == composed


def _paths(node: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    yield path
    for part, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from _paths(value, (*path, part))


def test_aliases_do_not_share_values() -> None:
    """A change of one copy never shows up in another."""
    data = only(b"a: &a {x: [1]}\nb: *a\n").data
    data["a"]["x"].append(2)
    assert data["b"] == {"x": [1]}


def test_json_file() -> None:
    document = only(b'{\n\t"kind": "Job",\n\t"metadata": {"name": "\\ud83d\\ude00"},\n\t"n": 1.0\n}\n')
    assert document.data == {"kind": "Job", "metadata": {"name": "\N{GRINNING FACE}"}, "n": 1}
    assert str(document.at(("metadata", "name"))) == "jobs/a.yaml:3:23"
    assert document.written(("metadata", "name")) == "\N{GRINNING FACE}"


def test_json_with_a_doubled_key() -> None:
    assert problems(b'{"a": {"b": 1, "b": 2}}') == [
        'a.yaml:1:16: a.b: the key "b" is already set at 1:8; keep one of the two [yaml.duplicate-key]'
    ]


def test_limits_are_the_callers() -> None:
    assert "yaml.depth" in problems(b"a: {b: {c: 1}}", Limits(depth=2))[0]
    assert not problems(b"a: {b: {c: 1}}", Limits(depth=3))
    assert "yaml.nodes" in problems(b"a: [1, 2, 3]", Limits(nodes=5))[0]
    assert "yaml.file-size" in problems(b"a: 1", Limits(file_bytes=3))[0]
    assert "yaml.document-count" in problems(b"---\na: 1\n---\na: 2\n---\na: 3\n", Limits(documents=1))[0]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a:\n\tb: 1\n", "a.yaml:2:1: found character that cannot start any token; indent with spaces, not with tabs"),
        (b"a: @b\n", "a.yaml:1:4: found character that cannot start any token; quote a value that starts with `@`"),
        (b"a: b: c\n", "a.yaml:1:5: mapping values are not allowed in this context; check the indentation, or"),
        (
            b"a: 'b\n",
            "a.yaml:2:1: found unexpected end of stream (while scanning a quoted scalar that starts on line 1)",
        ),
        (
            b"a: [1\nb: 2\n",
            "a.yaml:2:2: did not find expected ',' or ']' (while parsing a flow sequence that starts on",
        ),
        (b"%YAML 1.2\n---\na: 1\n", "a.yaml:1:1: directives are not allowed; remove the line [yaml.directive]"),
        (b"a: 1\n...\nb: 2\n", "a.yaml:3:1: a document starts without a `---` line"),
        (
            b"a: &x 1\nb: &x 2\n",
            "a.yaml:2:4: this anchor is already defined in the document; use a different name for each anchor",
        ),
        (b"a: ! 12\n", 'a.yaml:1:4: a: the tag "!" is not allowed; remove the tag'),
        (
            "a: 1\nb: 'x\u202ey'\n".encode(),
            "a.yaml:2:6: the invisible character U+202E changes how the text is displayed",
        ),
        (b"a: 1\nb: \x07\n", "a.yaml:2:4: the control character U+0007 is not allowed; remove it, or write it as an"),
        ("ä: 1\nb: ".encode() + b"\xe4\n", "a.yaml:2:4: byte 0xe4 is not valid UTF-8; save the file as UTF-8"),
        ("a: 1".encode("utf-16"), "a.yaml: the file is binary, or UTF-16 or UTF-32 text; save it as UTF-8"),
        (
            b"just text\n",
            "a.yaml:1:1: a document must be a mapping with apiVersion and kind; write an object, or move the file out of the source folders [yaml.not-a-mapping]",
        ),
        (
            b"a: {{ x }}\n",
            "a.yaml:1:5: a.?: a mapping cannot be a key; keys are strings; if this is a template placeholder",
        ),
    ],
)
def test_messages(raw: bytes, expected: str) -> None:
    """Each message has its place, and says what to do."""
    found = problems(raw)
    assert found[0].startswith(expected)
    assert len(found) == 1


def test_shell_scripts_may_hold_exclamation_marks() -> None:
    assert only(b"a: |\n  if ! true; then\n    echo ! x\n  fi\n").data["a"].startswith("if ! true")


@pytest.mark.parametrize("raw", [b"", b"# x\n", b"---\n", b"\n\n---\n---\n", b"\xef\xbb\xbf", b"null\n", b"~"])
def test_nothing_in_it(raw: bytes) -> None:
    reading = read("a.yaml", raw)
    assert reading.documents == ()
    assert reading.problems == ()
