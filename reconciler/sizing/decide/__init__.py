"""Decide one question: the layouts to try, the evaluation of each, the choice, and its explanation.

`decide(question, answers)` decides for one GPU product; `decide_cheapest(questions, answers)` takes the cheapest of
several. `engine_layouts(question)` are the layouts that ado-autoconf is asked about.
"""

from reconciler.sizing.decide.choose import decide, decide_cheapest
from reconciler.sizing.decide.evaluate import Estimator, Evaluator, Speed
from reconciler.sizing.decide.explain import format_gpus
from reconciler.sizing.decide.layouts import engine_layouts, in_domain, layout_options

__all__ = [
    "Estimator",
    "Evaluator",
    "Speed",
    "decide",
    "decide_cheapest",
    "engine_layouts",
    "format_gpus",
    "in_domain",
    "layout_options",
]
