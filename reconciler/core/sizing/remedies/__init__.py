"""What would make a training fit, and how far a size reaches.

`find_remedies` evaluates each saving of memory, and pairs of them, with the memory model that sizes jobs; `find_reach`
searches the largest batch and the longest samples that fit.
"""

from reconciler.core.sizing.remedies.reach import Reach, find_reach
from reconciler.core.sizing.remedies.savings import Saving, SavingKind, savings_of
from reconciler.core.sizing.remedies.search import Remedies, Remedy, Situation, find_remedies, reread_question

__all__ = [
    "Reach",
    "Remedies",
    "Remedy",
    "Saving",
    "SavingKind",
    "Situation",
    "find_reach",
    "find_remedies",
    "reread_question",
    "savings_of",
]
