"""Live workloads: their pods, logs, commands in containers, forwarded ports, and a screen of them."""
