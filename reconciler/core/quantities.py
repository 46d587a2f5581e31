"""Kubernetes quantities (`1Gi`, `500m`, `2e3`): exact values, comparison, canonical form.

Grammar and canonical form: k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

from fractions import Fraction


def parse_quantity(text: str | int | float) -> Fraction | None:  # noqa: PYI041
    """Return the exact value, or None where `text` is no quantity."""
    raise NotImplementedError
