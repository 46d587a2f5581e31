"""The HTTP server: one listener for probes, metrics, webhooks and pages, the table of all metrics, the read-only pages.

A page: request ─ guard ▶ snapshot of the repository ▶ sections ▶ HTML. Reading order: command, site, snapshot, pages.
"""
