"""The shipped rules, their expressions and schemas, made ready once for all repositories.

Parsing, checking and unpacking them takes longer than planning a small repository. The results are one value of the
cache, under the version of the engine, which covers the bytes of all rules and schemas. Nothing in it comes from a
repository, so none can change what another one is judged by. What is lost or damaged is made again; of two runs that
add something at the same time the later one wins.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from reconciler.index.parsed import CachedParser, ReadFiles, load_mapping, save_mapping
from reconciler.kinds.kind import Kinds
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document
from reconciler.policy.admission import PolicySet
from reconciler.policy.admission.programs import Programs
from reconciler.repo.port import Cache


class Shipped:
    """The shipped rules and schemas of one engine. `paths` are those of the rules, and `read` returns their bytes."""

    def __init__(
        self, cache: Cache, *, engine: str, paths: Sequence[str], read: ReadFiles, kinds: Kinds, catalogue: Catalogue
    ) -> None:
        self._cache, self._key = cache, f"shipped:{engine}"
        self._paths, self._read = paths, read
        self._kinds, self._catalogue = kinds, catalogue
        self._programs: list[Programs] = []

    @cached_property
    def _known(self) -> Mapping[str, bytes]:
        known = load_mapping(self._cache, self._key)
        self._catalogue.archive.recall(known)
        return known

    @cached_property
    def _parser(self) -> CachedParser:
        return CachedParser(self._known, self._kinds, self._catalogue)

    @cached_property
    def rules(self) -> tuple[Document, ...]:
        """The documents of the rules."""
        files = self._parser.parse([(path, "shipped") for path in self._paths], self._read)
        return tuple(document for file in files for document in file.documents)

    def recall(self, policies: PolicySet) -> None:
        """Let the shipped ones among these policies use what earlier runs have checked."""
        policies.shipped_programs.recall(self._known)
        self._programs.append(policies.shipped_programs)

    def save(self) -> None:
        """Add what this run made ready to the cache."""
        made = {**self._parser.used, **self._catalogue.archive.made}
        for programs in self._programs:
            made |= programs.made
        if not made.items() <= self._known.items():
            save_mapping(self._cache, self._key, load_mapping(self._cache, self._key), made)
