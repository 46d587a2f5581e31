"""The command line: the list of commands, and how errors become exit codes."""
