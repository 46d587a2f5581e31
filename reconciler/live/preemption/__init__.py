"""Preemption of idle workloads by evidence: who is idle, who waits, and whose suspension lets it start.

In: `GpuUtilisation` and `NodeInventory` of a cluster, policies and annotations of Git. Out: decisions with their
reasons, and edits of sources. `decide` is pure; nothing is deleted, and nothing is done on a cluster.
"""
