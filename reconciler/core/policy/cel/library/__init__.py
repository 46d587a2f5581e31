"""The functions that Kubernetes adds to CEL, as of Kubernetes 1.36.

Source of names, overloads and semantics: k8s.io/apiserver/pkg/cel/library and environment/base.go.
"""

from reconciler.core.policy.cel.library import authorizer, formats, lists, network, quantity, regex, semver, url
from reconciler.core.policy.cel.library.signature import Signature

SIGNATURES: tuple[Signature, ...] = (
    *quantity.SIGNATURES,
    *network.SIGNATURES,
    *url.SIGNATURES,
    *semver.SIGNATURES,
    *formats.SIGNATURES,
    *lists.SIGNATURES,
    *regex.SIGNATURES,
    *authorizer.SIGNATURES,
)

__all__ = ["SIGNATURES", "Signature"]
