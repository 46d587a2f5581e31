"""Launch lines: what a container's command trains, read from scripts and plain argument lists. Pure."""
