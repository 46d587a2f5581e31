"""An abstract interpreter of POSIX and bash scripts: which programs a script would start, with which arguments.

Nothing is executed. A library would not do: bashlex takes a millisecond per line and rejects much of bash, and
tree-sitter-bash only gives the syntax tree, in the time that this package needs for the expanded arguments. Here,
variables, arrays, functions and decidable tests are evaluated, text that is only known at run time is marked, the
number of steps is limited, and each argument keeps its place in the source, so that an edit changes nothing else.
"""
