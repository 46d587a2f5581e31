"""Live clusters as what exists before a plan: their objects, what they say to each change, and drift."""
