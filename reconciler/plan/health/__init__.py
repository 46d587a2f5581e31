"""Node health in a plan: nodes that leave use or return, and what changed policies would have done."""
