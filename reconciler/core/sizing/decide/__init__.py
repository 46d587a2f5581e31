"""The decision on one question: candidates, how each is weighed, which is taken, and the sentences that say so.

`decide(question, answers)` answers for one card, `decide_over(questions, answers)` takes the cheapest of several;
`voiced(question)` names the layouts that ado-autoconf is to give a chance for.
"""

from reconciler.core.sizing.decide.bench import Estimator, Speed
from reconciler.core.sizing.decide.choose import decide, decide_over
from reconciler.core.sizing.decide.layouts import in_domain, voiced

__all__ = ["Estimator", "Speed", "decide", "decide_over", "in_domain", "voiced"]
