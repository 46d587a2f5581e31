"""What kubectl makes of scalars, keys and documents: the cases, the record, and the real kubectl.

`make kubectl-records` writes the record, data/kubectl-dialect.json.
"""

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parent / "data" / "kubectl-dialect.json"
KUBECTL = shutil.which("kubectl")
_HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"

_SCALARS = """
    y Y n N yes Yes YES yEs no No NO nO on On ON off Off OFF true True TRUE tRUE false False FALSE null Null NULL ~
    0 00 1 -1 +1 01 007 08 0777 0778 012 -012 0o777 0O777 0o8 0x1F 0X1f -0x1F 0xG 0b101 -0b101 0B11 0b12 0b-101 0o-7
    1_000 1_0_0 1__0 1_ _1 0x_1F 0_7 +1_000 1_000.5
    1.0 1.5 -1.5 +.5 .5 -.5 5. 1.10 1e3 1E3 1e+3 1e-3 1.5e3 1.5e+3 12e03 1234e56 1e400 -1e400 1e-400 e3 1e 1e1.5 .5_0 .5__0
    0x1p-2 0.1.2 1.2.3 1,000
    9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615
    18446744073709551616 99999999999999999999999999 1e18 1e19 1e21 1e22 0.1 1e-7 123456789.123456789
    0xFFFFFFFFFFFFFFFF 0xFFFFFFFFFFFFFFFFF 0777777777777777777777777
    12:30 12:30:45 22:22 1:2 190:20:30 190:20:30.15 8080:53 80:8080 12:60 -12:30
    2024-01-01 2024-1-1 2024-01-01T00:00:00Z 2024-01-01t00:00:00.5-05:00 2024-13-45 20240101
    .inf .Inf .INF +.inf -.inf -.INF .nan .NaN .NAN inf nan NaN Infinity -Infinity .iNF
    = <<x <=1 + - . .. ... -- --- -x +x /x a:b a::b http://x:80/y v1 100Mi 500m 0.5Gi 1Ki
    deadbeef 1234567 12345e7 0e0 00e1 1e05 abc nvidia.com/gpu
    """
SCALARS = tuple(_SCALARS.split())
_KEYS = """
    a y no on true ~ null 1 -1 012 0x1F 1_000 1.0 1.5 1.10 1e3 1e6 100000.0 1e21 1e30 1e-5 0.0001 1234567.5 123456789.5
    16777217.0 3.4e39 1e-50 -0.0 .5 9223372036854775807 9223372036854775808 18446744073709551616 -9223372036854775809
    .inf -.inf .nan 2024-01-01 12:30 1e400 0b11 =
    """
KEYS = tuple(_KEYS.split())
DOCUMENTS = {
    "merge": "data: {<<: {a: 2, c: 3}, a: 1}\n",
    "merge-list": "data: {<<: [{a: 2, c: 3}, {a: 5, d: 6}], e: 1}\n",
    "merge-alias": "data:\n  one: &one {a: 1, b: 2}\n  two: {<<: *one, b: 3}\n",
    "merge-twice": "data: {<<: {a: 1}, <<: {b: 2}}\n",
    "merge-deep": "data:\n  a: &a {x: 1}\n  b: &b {<<: *a, w: 2}\n  c: {<<: *b, z: 3}\n",
    "merge-quoted": 'data: {"<<": {a: 1}}\n',
    "merge-text": "data: {<<: x}\n",
    "merge-list-of-text": "data: {<<: [x]}\n",
    "alias": "data: {a: &a [1, {b: 2}], c: *a}\n",
    "alias-missing": "data: {a: *b}\n",
    "alias-of-itself": "data: {a: &a [*a]}\n",
    "null-values": "data:\n  a:\n  b: ~\n  c: ''\n",
    "literal": "data:\n  a: |\n    one\n      two\n\n    three\n  b: |-\n    x\n  c: |+\n    y\n\n",
    "literal-indented": "data:\n  a: |2\n      x\n    y\n",
    "literal-blanks": "data:\n  a: |\n    x  \n   \n    y\n",
    "literal-tabs": "data:\n  a: |\n    x\ty\n    \tz\n",
    "folded": "data:\n  a: >\n    one\n    two\n\n    three\n      four\n",
    "quoted": "data:\n  a: 'it''s'\n  b: \"tab\\t \\x41 \\u00e9 \\U0001f600  \\\n    on\"\n  c: \"one\n    two\"\n",
    "quoted-slash": 'data: {a: "b\\/c"}\n',
    "plain-lines": "data:\n  a: one\n    two\n\n    three\n",
    "comments": "# x\ndata: # y\n  a: b # c\n  d: e#f\n",
    "flow": 'data: {a: [1, two, "3", {b: c}], "d":e, f: }\n',
    "carriage-returns": "data:\r\n  a: b\r\n  c: |\r\n    d\r\n    e\r\n",
    "tabs-after-text": "data:\t\n  a:\tb\t# c\n",
    "tab-indent": "data:\n\ta: b\n",
    "complex-key": "data: {? [a] : b}\n",
    "question-key": "data:\n  ? a\n  : b\n",
    "null-key": "data: {~: a}\n",
    "tag-str": "data: {a: !!str 12, b: !!map {c: 1}, d: !!seq [1]}\n",
    "tag-exclamation": 'data: {a: ! 12, b: ! "12"}\n',
    "surrogates": 'data: {a: "\\ud83d\\ude00"}\n',
    "control": "data: {a: \x01}\n",
    "unclosed": "data: {a: [b}\n",
    "indent": "data:\n  a: 1\n b: 2\n",
    "colon": "data:\n  a: b: c\n",
    "at": "data: {a: @b}\n",
    "unicode": "data: {a: grün, b: 日本, c: \N{GRINNING FACE}}\n",
}
WHOLE = {
    "empty": "",
    "comment": "# nothing\n",
    "several": f"---\n{_HEAD}---\n---\n# none\n---\n{_HEAD}data: {{a: 1}}\n---\n",
    "separator-comment": f"--- # x\n{_HEAD}",
    "separator-content": f"--- {{a: b}}\n{_HEAD}",
    "mark": f"\ufeff{_HEAD}",
    "list": f"apiVersion: v1\nkind: List\nitems:\n- {{{_HEAD.replace(chr(10), ', ').replace(': {name: x}, ', ': {name: x}')}}}\n",
    "list-typed": "apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: x}}, {metadata: {name: z}}]\n",
    "list-empty": "apiVersion: v1\nkind: List\nitems: []\n",
    "list-of-numbers": "apiVersion: v1\nkind: List\nitems: [3]\n",
    "json": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"\\ud83d\\ude00","b":1.0,"c":"\\/"}}',
    "json-tabs": '{\n\t"apiVersion": "v1",\n\t"kind": "ConfigMap",\n\t"metadata": {"name": "x"},\n\t"data": {"a":\t"b"}\n}\n',
    "json-breaks": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"one\u2028two\\\\u2028"}}',
    "array": '[{"apiVersion":"v1"}]',
    "text": "hello\n",
    "directive": f"%YAML 1.1\n---\n{_HEAD}",
}

_BLOCKS = (
    "x",
    "x\n\n",
    "x\n    \n",
    "x\n\n\n",
    "x\n      y",
    "\n    x",
    "x y\n    z",
    "x\n    # c",
    "x\n# c",
    "x\n  # c",
)
_SEPARATORS = (*("---\n",) * 4, "--- \n", "---\t\n", "--- # c\n", "---#c\n", "# c\n---\n", "\n---\n", "\n\n---\n",
               "...\n---\n", "...\n", "---\n# c\n---\n", "---\n---\n", "---\n...\n")  # fmt: skip
_ENDS = ("", "", "\n\n", "---\n", "---", "...\n", "...", "# c", "  ")


def streams(count: int = 240) -> dict[str, str]:
    """Generate files of one to three documents that end in block scalars, by name; always the same ones."""
    choose = random.Random(20).choice  # noqa: S311 - the same cases in every run
    return {f"{number:03}": _stream(choose) for number in range(count)}


def _stream(choose: Any) -> str:
    text: str = choose(("", "", "", "---\n", "# c\n", "---\n---\n", "--- # c\n", "\n", "\ufeff"))
    for position in range(choose((1, 2, 2, 3))):
        text += choose(_SEPARATORS) if position else ""
        style, comment = choose("||>") + choose(("", "", "-", "+", "2", "2-", "+2")), choose(("", "", " ", " # c"))
        text += f"{_HEAD}data:\n  k: {style}{comment}\n    {choose(_BLOCKS)}\n"
    text += choose(_ENDS)
    text = text.rstrip("\n") if choose((True, False, False)) else text
    return text.replace("\n", "\r\n") if choose((True, False, False, False)) else text


STREAMS = streams()


def whole_text(name: str) -> str:
    """Return the text of a case of DOCUMENTS or WHOLE."""
    return WHOLE[name] if name in WHOLE else _HEAD + DOCUMENTS[name]


def ask(text: str, kubectl: str | None = KUBECTL) -> list[Any] | None:
    """Return the objects that kubectl reads, without the label that makes it print them; None where it refuses."""
    assert kubectl is not None
    command = [kubectl, "label", "--local", "--output=json", "--filename=-", "dialect=x"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60, check=False)
    if done.returncode:
        return None
    decoder, rest, objects = json.JSONDecoder(), done.stdout.decode().strip(), []
    while rest:
        found, end = decoder.raw_decode(rest)
        del found["metadata"]["labels"]
        objects.append(found)
        rest = rest[end:].strip()
    return objects


def _ask_each(texts: Sequence[str]) -> list[Any]:
    """Return the object that each text holds, None where kubectl refuses it. It refuses a stream as a whole."""
    objects = ask("---\n".join(texts))
    if objects is not None:
        assert len(objects) == len(texts)
        return objects
    if len(texts) == 1:
        return [None]
    middle = len(texts) // 2
    return _ask_each(texts[:middle]) + _ask_each(texts[middle:])


def ask_scalars(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON value of each plain scalar in a list of one, so that a refusal is an empty list."""
    objects = _ask_each([f"{_HEAD}data:\n  k: {text}\n" for text in texts])
    return {text: [] if found is None else [found["data"]["k"]] for text, found in zip(texts, objects, strict=True)}


def ask_keys(texts: tuple[str, ...]) -> dict[str, str | None]:
    """Return the key that each plain scalar becomes; None where it is refused."""
    objects = _ask_each([f"{_HEAD}data:\n  {text}: x\n" for text in texts])
    return {
        text: None if found is None else next(iter(found["data"])) for text, found in zip(texts, objects, strict=True)
    }


def ask_streams(texts: dict[str, str], kubectl: str | None = KUBECTL) -> dict[str, list[str] | None]:
    """Return the block scalar of each object in each file; None for a file that kubectl refuses."""

    def scalars(text: str) -> list[str] | None:
        objects = ask(text, kubectl)
        return None if objects is None else [found["data"]["k"] for found in objects]

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(texts, pool.map(scalars, texts.values()), strict=True))
