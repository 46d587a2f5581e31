"""Paths of rendered objects after a change of a few files are those of all files listed again."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.index.records import SEPARATOR, FileRecord, rendered_paths

FILES = "abcde"
_objects = st.lists(st.tuples(st.sampled_from("uvwxyz"), st.sampled_from("0123")), max_size=3)


def _record(objects: list[tuple[str, str]]) -> FileRecord:
    joined = SEPARATOR.join(part for row in objects for part in row)
    return FileRecord("blob", False, b"", joined, b"", b"", b"", b"")


@given(
    st.fixed_dictionaries(dict.fromkeys(FILES, _objects)),
    st.lists(st.dictionaries(st.sampled_from(FILES), _objects, max_size=3), max_size=3),
)
def test_changed_files_are_as_if_all_were_listed(
    before: dict[str, list[tuple[str, str]]], edits: list[dict[str, list[tuple[str, str]]]]
) -> None:
    """Also where two objects come to have one path, in one file or in two, and where they part again."""
    records = {name: _record(objects) for name, objects in before.items()}
    paths = rendered_paths(records)
    for edit in edits:
        new = {name: _record(objects) for name, objects in edit.items()}
        records = {**records, **new}
        paths, whole = paths.after(new), rendered_paths(records)
        assert (paths.records, paths.desired, paths.sources) == (records, whole.desired, whole.sources)
        assert paths.has_duplicates == whole.has_duplicates
