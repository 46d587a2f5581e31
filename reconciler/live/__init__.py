"""Live clusters: what runs there, what was applied, and carrying out a plan.

In: a cluster, a saved plan. Out: evidence files, requests, records of applied plans, the status of jobs. Read `apply`
from its face; `observe` writes evidence, `status` explains jobs, `importing` writes sources from live objects.
"""
