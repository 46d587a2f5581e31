"""Files that have killed, stalled or fooled YAML readers: name, bytes, and the rules that answer them.

An empty set of rules says that the file is fine and has to be read as it stands, as cheaply as any other.
"""

from collections.abc import Callable
from dataclasses import dataclass

MIB = 1024 * 1024
FULL = 3 * MIB
"""The largest file that is looked into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """One file. `make` builds it in the child process, so that its own size does not count twice."""

    name: str
    make: Callable[[], bytes]
    rules: frozenset[str]

    @property
    def holds_documents(self) -> bool:
        """Whether there is anything but comments and space in it."""
        return not self.name.startswith("nothing but")


def case(name: str, make: Callable[[], bytes], *rules: str) -> Hostile:
    return Hostile(name=name, make=make, rules=frozenset(f"yaml.{rule}" for rule in rules))


def _bomb(levels: int, width: int) -> bytes:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines).encode()


def _merge_bomb(levels: int) -> bytes:
    lines = ["m0: &m0 {k: v}"]
    lines += [f"m{n}: &m{n}\n  <<: [*m{n - 1}, *m{n - 1}]\n  k{n}: v" for n in range(1, levels)]
    return "\n".join(lines).encode()


def _stairs(levels: int) -> bytes:
    return b"".join(b" " * n + b"a:\n" for n in range(levels))


def _fill(part: bytes, size: int = FULL) -> bytes:
    return (part * (size // len(part) + 1))[:size]


CASES = (
    # depth
    case("flow lists, 50,000 deep", lambda: b"[" * 50_000, "depth"),
    case("flow lists, as deep as a file may hold", lambda: _fill(b"["), "depth"),
    case("flow mappings", lambda: _fill(b"{a: "), "depth"),
    case("flow mappings without space", lambda: _fill(b'{"a":'), "depth"),
    case("flow pairs", lambda: _fill(b"[a: "), "depth"),
    case("lists on one line", lambda: b"- " * 200_000, "depth"),
    case("complex keys on one line", lambda: _fill(b"? "), "depth"),
    case("complex keys in flow", lambda: _fill(b"[? "), "depth"),
    case("stairs", lambda: _stairs(2_400), "depth"),
    case("deep after many harmless documents", lambda: b"a: 1\n---\n" * 2_000 + b"[" * 100_000, "depth"),
    case("deep, each document a little", lambda: (b"[" * 1_030 + b"\n---\n") * 3_000, "depth"),
    case("deep, hidden in a string that is none", lambda: b'a: "' + b"[" * 10_000 + b'"\nb: ' + b"[" * 10_000, "depth"),
    case("closed again", lambda: b"[" * 30_000 + b"]" * 30_000, "depth"),
    # expansion
    case("a thousand million laughs", lambda: _bomb(10, 9), "nodes"),
    case("four thousand million laughs, in pairs", lambda: _bomb(32, 2), "nodes"),
    case("merge keys, 20 levels", lambda: _merge_bomb(20), "nodes"),
    case("merge keys, 90 levels", lambda: _merge_bomb(90), "nodes"),
    case(
        "one large anchor, many aliases",
        lambda: b"a: &a [" + b"x," * 9_000 + b"]\nb: [" + b"*a," * 9_000 + b"]",
        "nodes",
    ),
    case("a list that holds itself", lambda: b"a: &a [*a]", "depth"),
    case("a mapping that holds itself twice", lambda: b"a: &a {b: *a, c: *a}", "depth"),
    case("a mapping that merges itself", lambda: b"a: &a {<<: *a}", "depth"),
    case("a broken bomb", lambda: b"x: 1\nx: 2\n" + _bomb(10, 9), "nodes"),
    # size
    case("100 MB", lambda: b"a: " + b"x" * 100_000_000, "file-size"),
    case("a million empty values", lambda: b"[" + _fill(b"[],", FULL - 10) + b"]", "nodes"),
    case("a million short items", lambda: b"a: [" + _fill(b"x,", FULL - 10) + b"]", "nodes"),
    case("a million keys without values", lambda: b"{" + _fill(b"?,", FULL - 10) + b"}", "nodes"),
    case("a million pairs", lambda: b"[" + _fill(b":,", FULL - 10) + b"]", "nodes", "syntax"),
    case("a million block items", lambda: _fill(b"-\n"), "nodes"),
    case("a million block keys", lambda: _fill(b"?\n"), "nodes"),
    case("more documents than allowed", lambda: _fill(b"---\n"), "document-count"),
    case("ten thousand documents", lambda: b"".join(b"---\na: %d\n" % n for n in range(10_000))),
    case("ten thousand broken documents", lambda: b"---\na: [\n" * 10_000, "syntax"),
    case("ten thousand documents with doubles", lambda: b"---\na: 1\na: 2\n" * 10_000, "duplicate-key"),
    case("one long text", lambda: b"a: " + _fill(b"x", FULL - 10)),
    case("one long quoted text", lambda: b'a: "' + _fill(b"x ", FULL - 10) + b'"'),
    case("one long literal block", lambda: b"a: |\n" + _fill(b"  line\n", FULL - 10)),
    case("nothing but comments", lambda: _fill(b"# x\n")),
    case("nothing but line breaks", lambda: _fill(b"\n")),
    case("nothing but spaces", lambda: _fill(b" ")),
    case("a plain text over many lines", lambda: b"a: x\n" + _fill(b"  y\n", FULL - 10)),
    case("many anchors", lambda: b"".join(b"- &a%d x\n" % n for n in range(60_000)), "not-a-mapping"),
    case("a list with many items", lambda: b"kind: List\nitems:\n" + b"- {a: 012}\n" * 30_000),
    case("a list of texts", lambda: b"kind: List\nitems:\n" + b"- x\n" * 60_000, "not-a-mapping"),
    case("forty thousand keys that double", lambda: b"a: 1\n" * 40_000, "duplicate-key"),
    case("forty thousand tags", lambda: b"".join(b"k%d: !x 1\n" % n for n in range(40_000)), "tag"),
    # tokens
    case("brackets that close only", lambda: _fill(b"]"), "syntax"),
    case("quotes", lambda: _fill(b"'"), "syntax", "not-a-mapping"),
    case("double quotes", lambda: _fill(b'"'), "syntax"),
    case("colons", lambda: _fill(b": "), "syntax"),
    case("exclamation marks", lambda: _fill(b"!"), "tag", "not-a-mapping"),
    case("tags on tags", lambda: _fill(b"!a "), "syntax"),
    case("anchors on anchors", lambda: _fill(b"&a "), "syntax"),
    case("percent signs", lambda: _fill(b"%\n"), "directive", "syntax"),
    case(
        "tag directives, after a document",
        lambda: b"a: 1\n...\n" + b"".join(b"%%TAG !a%d! tag:x,2000:\n" % n for n in range(60_000)),
        "directive",
    ),
    case("tag directives", lambda: b"".join(b"%%TAG !a%d! tag:x,2000:\n" % n for n in range(60_000)), "directive"),
    case("pipes", lambda: _fill(b"|"), "syntax"),
    case("tabs", lambda: _fill(b"\t"), "syntax"),
    case("a long key", lambda: b"a" * 100_000 + b": 1", "syntax"),
    # bytes
    case("zero bytes", lambda: b"\0" * MIB, "control-character"),
    case("a zero byte in a text", lambda: b"a: x\0y", "control-character"),
    case("a zero byte in a comment", lambda: b"a: 1 # \0", "control-character"),
    case("an escape for terminals", lambda: b"a: \x1b[31mred", "control-character"),
    case("a control character of Latin-1", "a: \x9b31m".encode, "control-character"),
    case("Latin-1", lambda: "a: grün".encode("latin-1"), "encoding"),
    case("UTF-16", lambda: "a: 1\n".encode("utf-16"), "encoding"),
    case("UTF-16 without a mark", lambda: "a: 1\n".encode("utf-16-le"), "encoding"),
    case("UTF-32", lambda: "a: 1\n".encode("utf-32"), "encoding"),
    case("overlong UTF-8", lambda: b"a: \xc0\xaf", "encoding"),
    case("a surrogate in UTF-8", lambda: b"a: \xed\xa0\x80", "encoding"),
    case("a surrogate as an escape", lambda: b'a: "\\ud800"', "syntax"),
    case("a mark in the middle", "a: 1\nb: \ufeff2".encode, "control-character"),
    case("text that runs backwards", "a: 'x\u202e y'".encode, "bidirectional"),
    case("text that runs backwards, in a comment", "a: 1 # \u2067".encode, "bidirectional"),
    case(
        "random bytes", lambda: bytes((n * 7919 + n // 256) % 256 for n in range(MIB)), "control-character", "encoding"
    ),
    case("a gzip file", lambda: b"\x1f\x8b\x08\0\0\0\0\0" * 1000, "control-character", "encoding"),
    case("byte order mark", lambda: b"\xef\xbb\xbfa: 1\n"),
    case("Windows line ends", lambda: b"a: 1\r\nb:\r\n  - c\r\n"),
    # meaning
    case("duplicate keys", lambda: b"a: 1\nb: 2\na: 3\n", "duplicate-key"),
    case("duplicate keys, once quoted", lambda: b'a: 1\n"a": 2\n', "duplicate-key"),
    case("python objects", lambda: b"a: !!python/object/apply:os.system [id]\n", "tag"),
    case("binary", lambda: b"a: !!binary aGk=\n", "tag"),
    case("a set", lambda: b"a: !!set {x, y}\n", "tag"),
    case("a tag that lies", lambda: b"a: !!str [x]\n", "tag"),
    case("a tagged key", lambda: b"!x a: 1\n", "tag"),
    case("a directive", lambda: b"%YAML 1.1\n---\na: 1\n", "directive"),
    case("two documents without a separator", lambda: b"a: 1\n...\nb: 2\n", "separator"),
    case("a document on the line of its separator", lambda: b"--- {a: 1}\n", "separator"),
    case("not a number", lambda: b"a: .nan\nb: .inf\nc: -.INF\n", "number"),
    case("a template", lambda: b"a: {{ .Values.x }}\n", "key"),
    case("a Helm block", lambda: b"{{- if .Values.x }}\na: 1\n{{- end }}\n", "syntax"),
    case("a null key", lambda: b"~: 1\n", "key"),
    case("a list as a key", lambda: b"? [a]\n: 1\n", "key"),
    case("a key that is true", lambda: b"on: push\n", "ambiguous-key"),
    case("a key with a command for a CI log", lambda: b'"a\\n::error::b": 1\n"a\\n::error::b": 1\n', "duplicate-key"),
    case("a tag with an escape for terminals", lambda: b"a: !%1b[31m x\n", "tag", "syntax"),
    case("a merge over a key", lambda: b"a: 1\n<<: {a: 2}\n", "merge-override"),
    case("a merge of a text", lambda: b"<<: x\n", "merge"),
    case("an anchor twice", lambda: b"a: &x 1\nb: &x 2\n", "anchor"),
    case("an alias without an anchor", lambda: b"a: *x\n", "syntax"),
    case("tabs for indentation", lambda: b"a:\n\tb: 1\n", "syntax"),
    case("a text for a document", lambda: b"version https://git-lfs.github.com/spec/v1\n", "not-a-mapping"),
    case("a list for a document", lambda: b"[{a: 1}]", "not-a-mapping"),
    case("JSON twice", lambda: b'{"a": 1}\n{"a": 2}\n', "separator"),
    case("huge numbers", lambda: b"a: " + b"9" * 1_000_000 + b"\nb: 0x" + b"f" * 1_000_000 + b"\nc: 1e999999999\n"),
    case("huge numbers with underscores", lambda: b"a: 1" + b"_0" * 1_000_000),
    case("huge times", lambda: b"a: 1" + b":0" * 1_000_000),
    case("huge numbers as keys", lambda: b"? " + b"9" * 1_000_000 + b"\n: 1\n", "ambiguous-key"),
)
