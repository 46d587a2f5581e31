"""The parts of PyYAML in use. An expression of its Python reader, which nothing here needs, takes 12 ms to compile."""

from reconciler.kube.patterns import all_later

with all_later():
    from yaml import (
        AliasEvent,
        CollectionEndEvent,
        CollectionStartEvent,
        MappingStartEvent,
        MarkedYAMLError,
        ScalarEvent,
        YAMLError,
        _yaml,
    )
    from yaml._yaml import CParser

__all__ = [
    "AliasEvent",
    "CParser",
    "CollectionEndEvent",
    "CollectionStartEvent",
    "MappingStartEvent",
    "MarkedYAMLError",
    "ScalarEvent",
    "YAMLError",
    "_yaml",
]
