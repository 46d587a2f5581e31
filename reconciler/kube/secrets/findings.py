"""Masking of problems and verdicts, before anything prints or caches them."""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar, cast

from msgspec.structs import replace

from reconciler.kube.secrets.known import KnownSecrets
from reconciler.kube.secrets.structure import secret_leaves
from reconciler.kube.secrets.text import mask_text


class MessageAndHint(Protocol):
    """Anything with a message and a hint: a problem, a verdict, a risk."""

    @property
    def message(self) -> str:
        """The defect."""
        ...

    @property
    def hint(self) -> str:
        """The remedy."""
        ...


_Found = TypeVar("_Found", bound=MessageAndHint)


def mask_findings(findings: Iterable[_Found], bodies: Iterable[Any] = ()) -> tuple[_Found, ...]:
    """Mask secrets in messages and hints: those of any text, and the secret values of the objects in question.

    Without findings the objects are not read. The cost grows with the sum of findings and values, not their product.
    """
    found = tuple(findings)
    if not found:
        return ()
    known = KnownSecrets(value for body in bodies for value in secret_leaves(body))
    texts = dict.fromkeys(text for finding in found for text in (finding.message, finding.hint))  # many are the same
    masked = {text: mask_text(known.mask(text) if known else text) for text in texts}
    return tuple(_with_texts(finding, masked[finding.message], masked[finding.hint]) for finding in found)


def _with_texts(finding: _Found, message: str, hint: str) -> _Found:
    if message == finding.message and hint == finding.hint:
        return finding
    return cast("_Found", replace(cast("Any", finding), message=message, hint=hint))
