"""The nodes of a document's tree, with the fields of PyYAML's, made at the speed of C."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from yaml import _yaml


class Node(Struct, eq=False):
    """A node of a document's tree, as PyYAML's composer makes it; the marks count lines and columns from 0."""

    tag: str
    value: Any
    start_mark: Any
    end_mark: Any


class ScalarNode(Node, eq=False, gc=False):
    """A scalar; `value` is its text."""

    style: str | None = None


class SequenceNode(Node, eq=False):
    """A list; `value` are its items."""

    flow_style: bool | None = None


class MappingNode(Node, eq=False):
    """A mapping; `value` are pairs of nodes, in order, with all that is written twice."""

    flow_style: bool | None = None


_OWN = {"ScalarNode": ScalarNode, "SequenceNode": SequenceNode, "MappingNode": MappingNode}


@contextmanager
def composed_as_ours() -> Iterator[None]:
    """Let PyYAML's C composer make nodes of these classes for a while.

    It looks its own up by name for each node, and those are built by Python code, which takes a sixth of all reading.
    """
    theirs = {name: getattr(_yaml, name) for name in _OWN}
    vars(_yaml).update(_OWN)
    try:
        yield
    finally:
        vars(_yaml).update(theirs)
