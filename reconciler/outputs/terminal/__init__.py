"""The terminal: pages with styles, printable text, progress bars, the log on standard error."""
