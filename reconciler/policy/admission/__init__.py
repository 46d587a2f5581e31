"""Evaluate `ValidatingAdmissionPolicy` files offline, as an API server of Kubernetes 1.37 does.

The same file, unchanged, can be used here and on the API server. What only a live server knows (the user and their
permissions) is an error here, never a pass.
"""

from reconciler.policy.admission.checking import check_policies, check_policy
from reconciler.policy.admission.evaluation import PolicySet, Subject
from reconciler.policy.admission.loading import Policies, PolicyCheck, is_policy, load, written_problems
from reconciler.policy.admission.mutating import is_mutation, rules_of
from reconciler.policy.admission.policies import Policy
from reconciler.policy.admission.server import ServerView

__all__ = [
    "Policies",
    "Policy",
    "PolicyCheck",
    "PolicySet",
    "ServerView",
    "Subject",
    "check_policies",
    "check_policy",
    "is_mutation",
    "is_policy",
    "load",
    "rules_of",
    "written_problems",
]
