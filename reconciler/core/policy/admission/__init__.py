"""`ValidatingAdmissionPolicy` files, evaluated offline as an API server of Kubernetes 1.36 would.

The same, unchanged file guards the pull request here and the API server later. What only a live server knows (who
asks, what they may do) is an error here, never a pass.
"""

from reconciler.core.policy.admission.loading import Policies, load
from reconciler.core.policy.admission.policies import PolicySet

__all__ = ["Policies", "PolicySet", "load"]
