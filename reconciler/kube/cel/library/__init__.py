"""The functions of CEL as Kubernetes 1.37 enables them, by name: `OVERLOADS`.

Source of names, overloads and semantics: cel-go 0.26, k8s.io/apiserver/pkg/cel/library and environment/base.go.
"""

from reconciler.kube.cel.library import (
    conversions,
    kubernetes,
    lists,
    named_formats,
    network,
    operators,
    optionals,
    regexes,
    texts,
    times,
)
from reconciler.kube.cel.library.signature import Signature

_PARTS = (operators, conversions, times, texts, regexes, lists, optionals, network, kubernetes, named_formats)


def _overloads() -> dict[str, tuple[Signature, ...]]:
    found: dict[str, list[Signature]] = {}
    for part in _PARTS:
        for signature in part.SIGNATURES:
            found.setdefault(signature.name, []).append(signature)
    return {name: tuple(signatures) for name, signatures in found.items()}


OVERLOADS = _overloads()
"""Every function with its overloads, in order."""

__all__ = ["OVERLOADS", "Signature"]
