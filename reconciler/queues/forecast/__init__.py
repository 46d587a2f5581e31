"""What queues do next with the workloads in them: which start, which wait, and which are preempted.

In: quotas and policies of queues, and what runs and waits in them. Out: a verdict for each workload, with the reason.
Pure decisions, as Kueue and KAI take them; nothing here schedules.
"""
