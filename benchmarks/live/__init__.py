"""Measure plans and applies on a real API server beside kubectl, Flux and bare requests: `make bench-live`."""
