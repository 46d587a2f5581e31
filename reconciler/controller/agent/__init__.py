"""The agent of a node as a process: its HTTP interface, its metrics, kernel messages from another container."""
