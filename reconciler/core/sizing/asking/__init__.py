"""From what a launch line says to the question that is decided: each value with its origin, or why there is none.

`ask(launch, settings, …)` gives one question for each card that may be taken; `pick_cards` knows which those are.
"""

from reconciler.core.sizing.asking.ask import Asking, ask
from reconciler.core.sizing.asking.cards import Cards, pick_cards
from reconciler.core.sizing.asking.model import find_model

__all__ = ["Asking", "Cards", "ask", "find_model", "pick_cards"]
