"""What the program serves over HTTP: one listener for probes, metrics and webhooks, and the table of all metrics."""
