"""Questions about sizing from the command line: answers on a page, in a file, or recorded as evidence.

In: flags, launch lines, files. Out: answers. Read `ask`, then `files`; `predictors` chooses the engine.
"""
