"""Secrets: which names, values and parts of texts are secret, and masks in their place.

Whatever leaves the process passes here: values when they become part of a plan or an explanation, messages when a file
is compiled, other text where it is printed.
"""

from reconciler.kube.secrets.assignments import MASK
from reconciler.kube.secrets.known import KnownSecrets, mask_findings
from reconciler.kube.secrets.names import is_secret_key, is_secret_name, mentions_secret
from reconciler.kube.secrets.structure import (
    SECRET_VALUES,
    follows_secret_flag,
    is_secret_field,
    is_secret_path,
    masked_secret,
    secret_leaves,
)
from reconciler.kube.secrets.text import holds_secret, mask_text, mask_tokens

__all__ = [
    "MASK",
    "SECRET_VALUES",
    "KnownSecrets",
    "follows_secret_flag",
    "holds_secret",
    "is_secret_field",
    "is_secret_key",
    "is_secret_name",
    "is_secret_path",
    "mask_findings",
    "mask_text",
    "mask_tokens",
    "masked_secret",
    "mentions_secret",
    "secret_leaves",
]
