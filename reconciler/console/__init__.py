"""The terminal: the options of commands, printable text, pages with styles, progress bars, and the log."""
