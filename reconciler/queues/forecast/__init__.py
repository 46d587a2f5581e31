"""Forecast of queues: which of their workloads start next, which wait, and which are preempted.

In: quotas and policies of queues, and what runs and waits in them. Out: a verdict for each workload, with the reason.
Pure decisions, as Kueue and KAI take them; nothing here schedules.
"""
