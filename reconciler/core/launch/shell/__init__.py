"""A reader of POSIX and bash scripts: which programs would be started, with which words. Runs nothing. Pure.

It is our own for three reasons. It says what a shell would pass (variables, defaults, arrays, functions, tests whose
words are known) and marks what only a run could tell, where a grammar alone gives a tree of what is written: bashlex
takes a millisecond for a line of a launcher and raises on much of bash, tree-sitter-bash takes as long as this reader
does to the end, before any word is expanded. It counts its steps, so that no script costs more than a second. And each
word keeps its place, so that an edit changes that word and no other.
"""
