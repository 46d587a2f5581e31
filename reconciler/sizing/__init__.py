"""The number of GPUs that a training or a server needs, usable alone.

In: what is trained (a model, a method, a batch) and the GPU products at hand. Out: a decision with its candidates,
and what would make a training fit. Read `question` first; `memory` predicts the peak of one GPU and `throughput` the
speed, `decide` chooses among candidates, `remedies` are changes that make a training fit, `engines` ask other
programs, and `summary` shows the decision. `job_questions` reads questions from launch lines; `training_jobs` and
`serving` read the containers that hold them.
"""
