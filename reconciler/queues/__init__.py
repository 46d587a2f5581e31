"""Quotas of queues, and who may borrow what.

In: summaries of queues and workloads. Out: quotas, limits and admitted GPUs as Kueue and KAI count them.
"""
