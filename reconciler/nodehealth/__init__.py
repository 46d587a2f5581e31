"""The health of GPU nodes, usable alone.

In: readings of a node, and reports of a fleet. Out: findings, and what should happen to each node. Read `readings`
and `checks` first (one function and one row for each check), then `report`; `fleet` decides about all nodes as a pure
function of reports, policies and its own earlier state, and `replay` repeats that on stored reports. `readers` alone
touch the machine.
"""
