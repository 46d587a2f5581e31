"""Listings answer as the mappings that they were made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.revision.listing import Listing, joined

paths = st.lists(st.text("ab/0.-é\U0001f600", min_size=1, max_size=4), max_size=3).map("/".join)
files = st.dictionaries(paths.filter(bool), st.sampled_from(["1", "2", "33"]), max_size=12)


@given(files)
def test_a_listing_is_the_mapping_it_was_made_of(oids: dict[str, str]) -> None:
    listing = Listing.of(oids)
    assert dict(listing.items()) == oids
    assert list(listing) == sorted(oids)
    assert len(listing) == len(oids)
    assert {path: listing[path] for path in oids} == oids
    assert Listing.of(dict(reversed(oids.items()))).digest == listing.digest


@given(files, paths)
def test_a_path_that_is_not_there_is_not_found(oids: dict[str, str], path: str) -> None:
    assert Listing.of(oids).get(path) == oids.get(path)


@given(files, st.dictionaries(paths.filter(bool), st.none() | st.just("4"), max_size=5))
def test_replacing_gives_the_listing_of_what_is_left(oids: dict[str, str], changes: dict[str, str | None]) -> None:
    left = {path: oid for path, oid in {**oids, **changes}.items() if oid is not None}
    assert Listing.of(oids).replaced(changes) == Listing.of(left)


@given(files, files)
def test_differing_names_what_one_of_two_has_alone_or_otherwise(one: dict[str, str], other: dict[str, str]) -> None:
    expected = sorted(path for path in {*one, *other} if one.get(path) != other.get(path))
    assert Listing.of(one).differing(Listing.of(other)) == expected


@given(files, paths.filter(bool))
def test_below_a_folder_lies_what_begins_with_it(oids: dict[str, str], folder: str) -> None:
    below = Listing.of(oids).below(folder)
    assert dict(below.items()) == {path: oid for path, oid in oids.items() if path.startswith(f"{folder}/")}
    cut = {path.removeprefix(f"{folder}/"): oid for path, oid in below.items()}
    assert dict(below.relative_to(folder).items()) == cut


def test_listings_are_put_together() -> None:
    assert joined(Listing.of({"a": "1"}), Listing(), Listing.of({"b": "2"})) == Listing.of({"a": "1", "b": "2"})


def test_a_path_that_would_break_a_line_is_refused() -> None:
    with pytest.raises(ValueError, match="not printable"):
        Listing.of({"a\nb": "1"})
