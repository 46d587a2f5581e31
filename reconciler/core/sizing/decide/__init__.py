"""The decision on one question: candidates, how each is weighed, which is taken, and the sentences that say so.

`decide(question, answers)` answers for one card, `decide_over(questions, answers)` takes the cheapest of several;
`engine_layouts(question)` names the layouts that ado-autoconf is to give a chance for.
"""

from reconciler.core.sizing.decide.bench import Estimator, Speed
from reconciler.core.sizing.decide.choose import decide, decide_over
from reconciler.core.sizing.decide.layouts import engine_layouts, in_domain

__all__ = ["Estimator", "Speed", "decide", "decide_over", "engine_layouts", "in_domain"]
