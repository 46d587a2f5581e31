"""From the objects of a live cluster to evidence: nodes, queues in use, finished jobs. Pure functions."""
