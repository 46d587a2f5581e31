"""Sources edited in place: the result means exactly what it should, and no other byte differs."""

import difflib
import json
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reconciler.index.sized.splice import edit_source
from reconciler.kube.yaml import read, write
from tests.index.sized.sized_cases import document


def edited(text: str, change: Any, index: int = 0) -> str:
    """Change a copy of a document's data, edit its file, and return the text; the result was read again."""
    raw = text.encode()
    reading = read("jobs/a.yaml", raw)
    assert reading.problems == ()
    found = reading.documents[index]
    data = copy(found.data)
    change(data)
    result = edit_source(raw, [(found, data)])
    assert [str(problem) for problem in result.problems] == []
    again = read("jobs/a.yaml", result.content)
    assert again.problems == ()
    assert again.documents[index].data == data
    for position, other in enumerate(reading.documents):
        if position != index:
            assert again.documents[position].data == other.data
    return result.content.decode()


def copy(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: copy(value) for key, value in node.items()}
    return [copy(item) for item in node] if isinstance(node, list) else node


def changes(before: str, after: str) -> list[str]:
    """Return the lines that differ."""
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line.rstrip("\r\n") for line in lines if line[0] in "+-"]


def put(*path: Any) -> Any:
    """Return a change that sets the value at a path."""

    def change(data: Any) -> None:
        *parents, last, value = path
        for part in parents:
            data = data[part]
        data[last] = value

    return change


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("a: 1   # one\n", 4, "a: 4   # one\n"),
        ("a: '1'\n", "4", "a: '4'\n"),
        ('a: "1" # x\n', "4", 'a: "4" # x\n'),
        ("a: one two\n", "one three", "a: one three\n"),
        ("a: one\n", "it's: so", 'a: "it\'s: so"\n'),
        ("a: 'one'\n", "it's", "a: 'it''s'\n"),
        ("a: 'it''s one'\n", "it's two", "a: 'it''s two'\n"),
        ("a: 'one'\n", "two\n", 'a: "two\\n"\n'),
        ('a: "say \\"one\\" now"\n', 'say "two" now', 'a: "say \\"two\\" now"\n'),
        ('a: "one\\ntwo three"\n', "one\ntwo four", 'a: "one\\ntwo four"\n'),
        ("a: true\n", False, "a: false\n"),
        ("a: text\n", 1, "a: 1\n"),
        ("a: 1\n", "1", 'a: "1"\n'),
        ("a: &x 1\n", 2, "a: &x 2\n"),
        ("a: !!str 1\n", "2", "a: !!str 2\n"),
        ("a:\n", {"b": 1}, "a: {b: 1}\n"),
        ("a: # nothing\nb: 1\n", {"b": "x, y"}, 'a: {b: "x, y"} # nothing\nb: 1\n'),
        ("a: {}\n", {"b": [1, "2"]}, 'a: {b: [1, "2"]}\n'),
        ("a: []\n", ["b"], "a: [b]\n"),
        ("a: {b: 1}\n", {}, "a: {}\n"),
        ("a:\n  b: 1\nc: 2\n", {}, "a:\n  {}\nc: 2\n"),
        ("a: [b, c]  # keep\n", ["b", "d"], "a: [b, d]  # keep\n"),
        ("a: [b, c]\n", ["x", "b", "c"], "a: [x, b, c]\n"),
        ("a: [b, c]\n", ["b", "c", "{d}"], 'a: [b, c, "{d}"]\n'),
        ("a: [b, c, d]\n", ["c"], "a: [c]\n"),
        ("a: [b, c, d]\n", ["b"], "a: [b]\n"),
        ("a: [\n  b, # 1\n  c  # 2\n]\n", ["b", "c", "d"], "a: [\n  b, # 1\n  c,\n  d  # 2\n]\n"),
        ("a: {b: 1, c: 2, d: 3}\n", {"c": 2, "e": 5}, "a: {c: 2, e: 5}\n"),
        ("a:\n- b # 1\n# between\n- c\n", ["b", "c", "d"], "a:\n- b # 1\n# between\n- c\n- d\n"),
        ("a:\n- b # 1\n# between\n- c\n", ["c"], "a:\n# between\n- c\n"),
        ("a:\n- b\n- c\n", ["x", "b", "c"], "a:\n- x\n- b\n- c\n"),
        ("a:\n- true\n- true # x\n- 1\n", [True, 1, True, 1], "a:\n- true\n- 1\n- true # x\n- 1\n"),
        ("a:\n- true # x\n- 1\n- 1\n", [1, 1], "a:\n- 1\n- 1\n"),
        ("a:\n  - b\n", ["b", {"c": [1]}], "a:\n  - b\n  - c:\n      - 1\n"),
        ("a:\n- b\n", ["b", {"c": [1]}], "a:\n- b\n- c:\n  - 1\n"),
        ("a:\n- b: 1\n  c: 2\n", [{"c": 2}], "a:\n- c: 2\n"),
        ("a:\n  b: 1 # x\n\n# after\nc: 3\n", {"b": 1, "d": 2}, "a:\n  b: 1 # x\n  d: 2\n\n# after\nc: 3\n"),
        ("a:\n  b: 1 # x\n  # why c\n  c: 2 # y\nd: 3\n", {"b": 1}, "a:\n  b: 1 # x\n  # why c\nd: 3\n"),
        ("a:\n  b: |\n    text\n\n\nc: 1\n", {"b": "text\n", "d": 2}, "a:\n  b: |\n    text\n  d: 2\n\n\nc: 1\n"),
        ("a:\n  b: 1", {"b": 1, "c": 2}, "a:\n  b: 1\n  c: 2"),
        ("a: |\n  one two\n\n   three  # no comment\n", "one 2\n\n three  # no comment\n", "a: |\n  one 2\n\n   three  # no comment\n"),
        ("a: |-  # header\n    one\n    two", "one\ntwo 2", "a: |-  # header\n    one\n    two 2"),
        ("a: |\n one \\\n   two\n", "one --new \\\n  two\n", "a: |\n one --new \\\n   two\n"),
        ("a: |\n one\n two\n", "one\nhalf\ntwo\n", "a: |\n one\n half\n two\n"),
        ("a: |2\n    one\n   two\n", "  one\n 2\n", "a: |2\n    one\n   2\n"),
        ("a: >\n  one\n  two\n\n  three\n", "one 2\nthree\n", "a: >\n  one\n  2\n\n  three\n"),
        ("a: >-\n  one --k 1\n  --l 2\n", "one --k 1 --m 3 --l 4", "a: >-\n  one --k 1 --m 3\n  --l 4\n"),
        ("a: one\n  two # c\n", "one 2", "a: one\n  2 # c\n"),
        ("a: 'one\n  two'\n", "one 2", "a: 'one\n  2'\n"),
    ],
)  # fmt: skip
def test_only_what_changed_differs(before: str, value: Any, after: str) -> None:
    assert edited(before, put("a", value)) == after


def test_a_whole_job_is_not_touched_elsewhere() -> None:
    text = (
        "# a job\nkind: Job   # kind\nspec:\n  - name: x\n    env:\n"
        "      - {name: A, value: '1'}   # first\n\n      # second\n      - name: B\n        value: \"2\"\n"
    )

    def change(data: Any) -> None:
        env = data["spec"][0]["env"]
        env[0]["value"] = "9"
        env.append({"name": "C", "value": "3"})

    after = edited(text, change)
    assert changes(text, after) == [
        "-       - {name: A, value: '1'}   # first",
        "+       - {name: A, value: '9'}   # first",
        "+       - name: C",
        '+         value: "3"',
    ]


def test_carriage_returns_stay_and_new_lines_have_them() -> None:
    text = "a: 1\r\nb:\r\n  c: |\r\n    one\r\n    two\r\n"

    def change(data: Any) -> None:
        data["b"]["c"] = "one\n2\n"
        data["b"]["d"] = {"e": 1}

    assert edited(text, change) == "a: 1\r\nb:\r\n  c: |\r\n    one\r\n    2\r\n  d:\r\n    e: 1\r\n"


def test_one_document_of_several() -> None:
    text = "\ufeff# head\na: 1\n---  # next\na: 1 # two\n...\n---\na: 1\n"
    assert edited(text, put("a", 2), index=1) == text.replace("a: 1 # two", "a: 2 # two")
    assert edited(text, put("a", 2), index=0) == text.replace("# head\na: 1", "# head\na: 2")


def test_several_documents_in_one_go() -> None:
    """Each keeps its place, whatever the edits before it added."""
    raw = b"a: 1\n---\na: 1\n---\nkind: List\nitems:\n- {a: 1}\n- {a: 1}\n"
    documents = read("jobs/a.yaml", raw).documents
    assert len(documents) == 4
    result = edit_source(raw, [(each, {**each.data, "b": position}) for position, each in enumerate(documents)])
    assert result.problems == ()
    assert result.content == (b"a: 1\nb: 0\n---\na: 1\nb: 1\n---\nkind: List\nitems:\n- {a: 1, b: 2}\n- {a: 1, b: 3}\n")


def test_json_stays_json() -> None:
    text = '{\n\t"a": {"b": "one\\ntwo é"},\n\t"c": [\n\t\t1\n\t]\n}\n'

    def change(data: Any) -> None:
        data["a"]["b"] = "one\nthree é"
        data["a"]["d"] = {"e": "x"}
        data["c"].append("y")

    after = edited(text, change)
    assert after == text.replace('two é"', 'three é", "d": {"e": "x"}').replace("\t\t1\n", '\t\t1,\n\t\t"y"\n')


ALIASED = """\
Master: &pod
  env: &env
    - name: A
  gpus: 1
Worker: *pod
"""


def test_a_shared_value_that_changes_alike_is_edited_once() -> None:
    def change(data: Any) -> None:
        for role in ("Master", "Worker"):
            data[role]["gpus"] = 8
            data[role]["env"].append({"name": "B"})

    assert edited(ALIASED, change) == ALIASED.replace("gpus: 1", "gpus: 8").replace(
        "- name: A", "- name: A\n    - name: B"
    )


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (ALIASED, put("Worker", "gpus", 2)),
        ("a: &x 1\nb: *x\n", put("b", 2)),
        ("a: &x {c: 1}\nb: *x\n", put("b", "d", 1)),
        ("a: [&x 1, *x]\n", put("a", 1, 2)),
    ],
)
def test_a_value_that_an_alias_shares_is_refused(text: str, change: Any) -> None:
    """What one place would change for another is said, and the file stays as it is."""
    found = document(text)
    data = copy(found.data)
    change(data)
    result = edit_source(text.encode(), [(found, data)])
    assert [problem.rule for problem in result.problems] == ["sizing.shared"]
    assert result.problems[0].hint
    assert result.content == text.encode()


def test_a_key_beside_an_alias() -> None:
    assert edited("a: &x {c: 1}\nb: *x  # same\n", put("d", 1)) == "a: &x {c: 1}\nb: *x  # same\nd: 1\n"


def test_what_a_merge_brings_is_overridden() -> None:
    text = "base: &base {gpus: 1, cpu: 2}\njob:\n  <<: *base\n  name: x\n"
    assert edited(text, put("job", "gpus", 8)) == text + "  gpus: 8\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [("a: >\n  one\n  two\n", "one\ntwo\n"), ("a: |+\n  one\n\n", "one\n"), ("? a\n: - b\n  - c\n", 1)],
)
def test_what_cannot_be_edited_is_said(text: str, value: Any) -> None:
    found = document(text)
    result = edit_source(text.encode(), [(found, {"a": value})])
    assert [problem.rule for problem in result.problems] == ["sizing.write"]
    assert result.content == text.encode()


WORDS = st.sampled_from(
    ["torchrun", "--n=8", "$X", '"a b"', "it's", "#no", "\\", "k:", "1", "yes", "", "a,b", "{x}", "é", "-", "x: y"]
)
TEXTS = st.builds(
    lambda words, gaps: "".join(word + gap for word, gap in zip(words, gaps, strict=False)),
    st.lists(WORDS, min_size=1, max_size=6),
    st.lists(st.sampled_from([" ", "\n", " \\\n  ", "  ", "\n\n"]), min_size=6, max_size=6),
)
SCALARS = st.one_of(TEXTS, st.integers(-5, 500), st.booleans(), st.none())
KEYS = st.sampled_from(["name", "gpus", "nvidia.com/gpu", "args", "x", "yes"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.dictionaries(KEYS, inner, max_size=4), st.lists(inner, max_size=4)),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(KEYS, TREES, min_size=1, max_size=4)


@given(before=MAPPINGS, after=MAPPINGS)
@example(before={"x": {"name": 1}}, after={"x": [1]})
def test_never_a_wrong_result(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Whatever becomes of whatever: the file means exactly that, or nothing was written."""
    raw = b"# head\n" + write(before) + b"# tail\n"
    found = document(raw)
    result = edit_source(raw, [(found, after)])
    if result.problems:
        assert result.content == raw
        return
    again = document(result.content)
    assert again.data == after
    assert result.content.startswith(b"# head\n")
    assert result.content.endswith(b"# tail\n")


STYLES = ("plain", "'", '"', "|", ">", "flow")


def styled(value: str, style: str) -> str | None:
    """Write `spec: {line: value}` in a style; None where it cannot hold the value."""
    if style == "plain":
        text = f"spec:\n  line: {value}   # about it\n"
    elif style == "'":
        text = "spec:\n  line: '" + value.replace("'", "''") + "'   # about it\n"
    elif style == '"':
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        text = f'spec:\n  line: "{escaped}"   # about it\n'
    elif style == "flow":
        text = "spec: {other: 1, line: '" + value.replace("'", "''") + "'} # about it\n"
    else:
        lines = "".join(f"    {line}\n" if line else "\n" for line in value.split("\n"))
        text = f"spec:\n  line: {style}- # about it\n{lines}"
    text = f"# head\n{text}  # more\nnext: [1,   2]\n"
    reading = read("a.yaml", text.encode())
    read_back = reading.documents[0].data if reading.documents and not reading.problems else {}
    return text if isinstance(read_back.get("spec"), dict) and read_back["spec"].get("line") == value else None


@given(
    words=st.lists(WORDS.filter(bool), min_size=2, max_size=8),
    place=st.integers(0, 7),
    new=st.sampled_from(["--n=16", "$AUTOCONF_NUM_PROCESSES", "--batch 4"]),
    style=st.sampled_from(STYLES),
    gap=st.sampled_from([" ", "\n", " \\\n    "]),
)
def test_one_word_changes_alone(words: list[str], place: int, new: str, style: str, gap: str) -> None:
    """In every style a changed word changes its own characters; comments and the space around it stay."""
    place %= len(words)
    text = styled(gap.join(words), style)
    assume(text is not None and words[place] != new)
    assert text is not None
    wanted = gap.join([*words[:place], new, *words[place + 1 :]])
    found = document(text)
    result = edit_source(text.encode(), [(found, {**found.data, "spec": {**found.data["spec"], "line": wanted}})])
    if result.problems:
        assert result.content == text.encode()
        assert style == ">"
        return
    after = result.content.decode()
    assert document(after).data["spec"]["line"] == wanted
    assert after.startswith("# head\nspec:")
    assert after.count("# about it") == 1
    assert after.endswith("  # more\nnext: [1,   2]\n")
    if style in {"|", "'", "flow"} or (style == '"' and gap == " "):
        assert len(changes(text, after)) <= 2


BLOCKS = st.recursive(
    st.sampled_from(["one", 1, True, "yes", "a: b", "two\nlines\n", "x y z"]),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["a", "b", "c", "d/e"]), inner, min_size=1, max_size=3),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=10,
)


class Writer:
    """Writes a tree as people do: comments, blank lines and quotes, and flow style where it is allowed."""

    def __init__(self, random: Random, deeper: int, *, flow: bool) -> None:
        self.random = random
        self.deeper = deeper
        self.flows = flow

    def note(self) -> str:
        return self.random.choice(["", "", "   # note", " # it's: [1"])

    def above(self, indent: int) -> str:
        return self.random.choice(["", "", "\n", f"{' ' * indent}# about what follows\n", "# far left\n"])

    def scalar(self, value: Any) -> str:
        text = write({"x": value}).decode().removeprefix("x: ").rstrip("\n")
        if isinstance(value, str) and "\n" not in value and self.random.random() < 0.5:
            text = self.random.choice([f"'{value}'", f'"{value}"'])
        return text

    def flow(self, node: Any) -> str:
        if isinstance(node, dict):
            return "{" + ", ".join(f"{key}:  {self.flow(value)}" for key, value in node.items()) + "}"
        if isinstance(node, list):
            return "[ " + ",".join(self.flow(item) for item in node) + " ]"
        return json.dumps(node)

    def value(self, node: Any, indent: int) -> str:
        """Return what follows a colon or a dash, up to the end of its lines."""
        if isinstance(node, dict | list):
            if self.flows and self.random.random() < 0.3:
                return f" {self.flow(node)}{self.note()}\n"
            inner = indent + (self.deeper if isinstance(node, list) else 2)
            return f"{self.note()}\n{self.block(node, inner)}"
        if isinstance(node, str) and "\n" in node:
            lines = "".join(f"{' ' * indent}    {line}\n" for line in node.rstrip("\n").split("\n"))
            return f" |{self.note()}\n{lines}"
        return f" {self.scalar(node)}{self.note()}\n"

    def block(self, node: Any, indent: int, *, bare: bool = False) -> str:
        """Return the lines of a mapping or list; `bare`: nothing stands above its first line."""
        text = ""
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            text += ("" if bare and not text else self.above(indent)) + " " * indent
            if isinstance(node, dict):
                text += f"{key}:{self.value(item, indent)}"
            elif isinstance(item, dict) and self.random.random() < 0.7:
                text += f"- {self.block(item, indent + 2, bare=True).lstrip(' ')}"
            elif isinstance(item, list):
                text += f"-\n{self.block(item, indent + 2)}"
            else:
                text += f"-{self.value(item, indent)}"
        return text


def collections(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all mappings and lists."""
    items = list(node.items() if isinstance(node, dict) else enumerate(node))
    inner = [path for key, value in items if isinstance(value, dict | list) for path in collections(value, (*at, key))]
    return [at, *inner]


@given(
    tree=st.dictionaries(st.sampled_from(["a", "b", "c"]), BLOCKS, min_size=1, max_size=3),
    random=st.randoms(use_true_random=False),
    deeper=st.sampled_from([0, 2]),
    windows=st.booleans(),
    new=st.sampled_from([1, "text", {"k": ["v", {"w": "x\ny\n"}]}, ["i"]]),
    remove=st.booleans(),
    flow=st.booleans(),
)
@example(
    tree={"a": [True, True, 1]},
    random=Random(26),  # noqa: S311 - repeats one drawing
    deeper=0,
    windows=False,
    new=1,
    remove=False,
    flow=False,
)
def test_adding_removes_no_line_and_removing_adds_none(  # noqa: PLR0917 - drawn by name
    tree: dict[str, Any], random: Random, deeper: int, windows: bool, new: Any, remove: bool, flow: bool
) -> None:
    """Comments, blank lines and neighbours stay, whatever is added or taken away, and wherever."""
    text = "# head\n" + Writer(random, deeper, flow=flow).block(tree, 0)
    text = text.replace("\n", "\r\n") if windows else text
    reading = read("a.yaml", text.encode())
    assert reading.problems == ()
    found = reading.documents[0]
    assert found.data == tree
    data = copy(tree)
    node = data
    for part in random.choice(collections(tree)):
        node = node[part]
    if remove:
        assume(len(node) > 1)
        # The last: where the first entry shares its line with a dash, the next one has to move there.
        node.pop(random.choice(list(node)[1:]) if isinstance(node, dict) else random.randrange(len(node)))
    elif isinstance(node, dict):
        node["new"] = new
    else:
        node.insert(random.randint(0, len(node)), new)
    result = edit_source(text.encode(), [(found, data)])
    assert [str(problem) for problem in result.problems] == []
    after = result.content.decode()
    assert document(after).data == data
    assert ("\r\n" in after) == windows
    assert after.count("\n") == after.count("\r\n") or not windows
    if not flow:
        assert {line[0] for line in changes(text, after)} == {"-" if remove else "+"}
