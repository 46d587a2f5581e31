"""Reports of the use and the cost of GPUs and of waiting, by team, queue and job, from a Prometheus or from evidence.

Read `series` (a measured GPU), `use` (pods that held GPUs, and rows of them), `measured` and `recorded` (where these
come from), `making` (a report of them), `waiting` (queues), `pages` (text, Markdown, CSV, JSON), `commands`. What is
not covered is said, and never counts as idle, busy or free.
"""
