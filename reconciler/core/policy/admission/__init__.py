"""Evaluate `ValidatingAdmissionPolicy` files offline, as an API server of Kubernetes 1.36 does.

The same file, unchanged, can be used here and on the API server. What only a live server knows (the user and their
permissions) is an error here, never a pass.
"""

from reconciler.core.policy.admission.evaluation import PolicySet
from reconciler.core.policy.admission.loading import Policies, is_policy, load

__all__ = ["Policies", "PolicySet", "is_policy", "load"]
