"""Parsed files: memory and work are proportional to the size of the file, however many documents it has."""

import json
import tracemalloc

import pytest

from reconciler.index.parsed import CachedParser, digest_documents
from reconciler.kube.yaml import read, read_written
from reconciler.kube.yaml.document import Reading
from reconciler.plan.opening import catalogue, kinds
from tests.index.fleets import MemoryFleet, evidence

_COUNT = 3000
_NAMESPACES = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{i}"}} for i in range(_COUNT)]
_SHAPES = {
    "documents": "".join(f"---\n{json.dumps(body)}\n" for body in _NAMESPACES),
    "list": json.dumps({"apiVersion": "v1", "kind": "List", "items": _NAMESPACES}),
}


@pytest.mark.parametrize("shape", _SHAPES)
def test_memory_is_bounded_by_the_size_of_the_file(shape: str) -> None:
    """A record holds the text of a file once, not once for each of its documents."""
    text = _SHAPES[shape].encode()
    parser = CachedParser({}, kinds(), catalogue())
    tracemalloc.start()
    (file,) = parser.parse([("jobs/many.yaml", "1")], lambda _: [text])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(file.documents) == _COUNT
    assert all(document.text is text for document in file.documents)
    assert peak < 100 * len(text)
    (encoded,) = parser.used.values()
    assert len(encoded) < 10 * len(text)
    (again,) = CachedParser({"1 jobs/many.yaml": encoded}, kinds(), catalogue()).parse(
        [("jobs/many.yaml", "1")], lambda _: []
    )
    assert again.digests == file.digests
    assert len({id(document.text) for document in again.documents}) == 1


def test_documents_on_one_line_are_not_digested_with_the_whole_file_each(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = 0

    class Counted:
        def __init__(self, data: bytes) -> None:
            nonlocal hashed
            hashed += len(data)

        def digest(self) -> bytes:
            return b""

        def hexdigest(self) -> str:
            return ""

    text = _SHAPES["list"].encode()
    documents = read("jobs/many.yaml", text).documents
    monkeypatch.setattr("reconciler.index.parsed.sha256", Counted)
    digest_documents(documents, text)
    assert hashed < 10 * len(text)


def test_the_evidence_of_the_base_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = MemoryFleet()
    paths: list[str] = []

    def noted(path: str, raw: bytes) -> Reading:
        paths.append(path)
        return read_written(path, raw)

    monkeypatch.setattr("reconciler.index.parsed.read_written", noted)
    path = "evidence/a/nodes.yaml"
    for minute in range(3):
        fleet.write(path, evidence(taken=f"2026-11-01T00:0{minute + 1}:00Z"))
        fleet.plan()
    assert paths.count(path) == 4, "the base and three edits"
    fleet.plan()
    assert paths.count(path) == 4
