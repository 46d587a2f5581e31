"""Sizing: how many GPUs a training job needs, from what it trains to a decision with its candidates. Pure.

`job_questions` reads a launch line into questions, with the models and GPUs of `tables`; `memory` predicts the peak of
one GPU, `throughput` the speed; `answers` are those of external engines; `decide` chooses among candidates; `remedies`
are what would make a training fit; `summary` shows the decision.
"""
