"""Compiled files: one record for each file of a revision, kept until the file or what it looked up changes.

In: the files of a revision. Out: object summaries, findings and dependencies of each file, and the totals of all.
Read `build` first, then `compile` (one file, without side effects) and `store`; `sized` writes the numbers of a
sizing decision into its document.
"""
