"""The functions that Kubernetes 1.36 adds to CEL.

Source of names, overloads and semantics: k8s.io/apiserver/pkg/cel/library and environment/base.go.
"""

from reconciler.core.policy.cel.library import lists, network, strings, versions
from reconciler.core.policy.cel.library.lists import RUN_ONLY
from reconciler.core.policy.cel.library.signature import Signature, member

# What a user may do is unknown offline, so these functions are only declared.
_AUTHORIZER: tuple[Signature, ...] = (
    member("path", "authorizer string", "path-check"),
    member("group", "authorizer string", "group-check"),
    member("serviceAccount", "authorizer string string", "authorizer"),
    member("resource", "group-check string", "resource-check"),
    member("subresource", "resource-check string", "resource-check"),
    member("namespace", "resource-check string", "resource-check"),
    member("name", "resource-check string", "resource-check"),
    member("fieldSelector", "resource-check string", "resource-check"),
    member("labelSelector", "resource-check string", "resource-check"),
    member("check", "path-check string", "decision"),
    member("check", "resource-check string", "decision"),
    member("allowed", "decision", "bool"),
    member("reason", "decision", "string"),
    member("errored", "decision", "bool"),
    member("error", "decision", "string"),
)

SIGNATURES: tuple[Signature, ...] = (
    *versions.SIGNATURES,
    *network.SIGNATURES,
    *strings.SIGNATURES,
    *lists.SIGNATURES,
    *_AUTHORIZER,
)

__all__ = ["RUN_ONLY", "SIGNATURES", "Signature"]
