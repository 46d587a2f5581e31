"""Node health at work: rounds over a cluster, quarantine files, and the agent of a node.

In: reports on a cluster, policies and quarantines in Git. Out: taints and conditions, quarantine files, reports. Read
`fast_lane` (what a round does without a review), then `quarantine_files` (what Git shows of it); `agent` measures one
node again and again.
"""
