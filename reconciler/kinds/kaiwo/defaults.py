"""Values of Kaiwo that nobody wrote."""

from typing import Any

from reconciler.kube.reasons import Reason, Traced

FAMILY = "kaiwo"
"""The start of the rules of Kaiwo's problems and reasons."""


def default(value: Any, text: str) -> Traced:
    """Return a value that nobody wrote, and why it is this one."""
    return Traced(value, Reason(rule=f"{FAMILY}.default", text=text))
