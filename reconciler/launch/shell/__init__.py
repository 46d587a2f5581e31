"""An abstract interpreter of POSIX and bash scripts: which programs a script would start, with which arguments.

Nothing is executed. A library would not do: bashlex takes a millisecond per line and rejects much of bash, and
tree-sitter-bash 0.25 takes longer for its syntax tree alone than the parser here, and divides words wrongly without an
error: it takes a blank behind the backslash at the end of a line for a continued line, and `"$A"$1"$B"` for two words.
Here, variables, arrays, functions and decidable tests are evaluated, text that is only known at run time is marked, the
number of steps is limited, and each argument keeps its place in the source, so that an edit changes nothing else.
"""
