"""`reconciler controller`: runs the use cases for several config repositories, all day.

In: ConfigSource objects. Out: passes in child processes, conditions, metrics. Read `loop` first (which source is
due), then `reconcile` (one pass) and `applying`; `health` makes the rounds of node health.
"""
