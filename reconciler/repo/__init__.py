"""The config repository: Git, revisions, files by role, the configuration, and what ships with the package.

In: a folder, a revision. Out: the bytes of its files by role, and commits. Read `port` first (what a repository can
do), then `revision` and `files`; `git` runs the program, `checkout` makes the user's own commits.
"""
