"""The HTTP server: one listener for probes, metrics and webhooks, and the table of all metrics."""
