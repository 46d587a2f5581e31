"""The data that ships with the package, as the pipeline asks for it. Imports what reads it only when it is read."""

# ruff: noqa: PLC0415 - late imports are the point: small verbs must not pay for all

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.core.schemas import Catalogue


class Shipped:
    """The data that ships with the package: schemas and policies."""

    @cached_property
    def catalogue(self) -> "Catalogue":
        """The kinds we know."""
        from reconciler.adapters import bundle
        from reconciler.core.schemas import Catalogue

        return Catalogue(bundle)

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """Files of the shipped rules."""
        from reconciler.adapters import bundle

        return tuple(p for p in bundle.walk("policies") if p.endswith(".yaml") and p.count("/") == _RULE_DEPTH)

    @staticmethod
    def read(paths: list[str]) -> Iterator[bytes]:
        """Read shipped files."""
        from reconciler.adapters import bundle

        return map(bundle.read, paths)

    @cached_property
    def digest(self) -> str:
        """Digest of the shipped schemas and policies: what they are decides on output as the code does."""
        from hashlib import sha256

        from reconciler.adapters import bundle

        digest = sha256()
        for path in ("schemas/kubernetes/versions.json", *(p for p in bundle.walk("schemas") if "/v1" in p)):
            digest.update(bundle.read(path))
        for path, raw in zip(self.policies, self.read(list(self.policies)), strict=True):
            digest.update(path.encode() + raw)
        return digest.hexdigest()


# policies/<rule>/rule.yaml; examples lie deeper.
_RULE_DEPTH = 2
