"""The interpreter against bash: the arguments that bash passes are those that we expand, or allow."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconciler.launch.shell.ast import ShellError
from tests import sizes
from tests.launch.shell.bash import bash_calls, bash_program_calls, known, matches, our_calls

NAMES = ("A", "B", "C", "D")
PLAIN = st.text("abcXYZ019-_=./:,+@%^", min_size=1, max_size=6)
SPACED = st.text("ab 1\t'\"$\\`#;&|<>(){}é\n=-", max_size=8)


def single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def ansi(text: str) -> str:
    return "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\x09") + "'"


def double(text: str) -> str:
    return '"' + "".join("\\" + char if char in '"\\$`' else char for char in text) + '"'


NAME = st.sampled_from(NAMES)
OPERATOR = st.sampled_from((":-", "-", ":+", "+", ":=", "="))
OPERAND = st.one_of(
    PLAIN, st.just("x y"), st.just("'q  r'"), st.just('"s  t"'), NAME.map(lambda n: f"${n}"), st.just("")
)
PATTERN = st.sampled_from(("a", "*/", "*=", ".b", "1*", "X"))
EXPRESSION = st.recursive(
    st.integers(0, 40).map(str),
    lambda inner: st.tuples(
        inner, st.sampled_from(("+", "-", "*", "/", "%", "<", "==", "&&", "||", "<<", "**")), inner
    ).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
    max_leaves=4,
)
BARE = st.one_of(
    NAME.map(lambda name: f"${name}"),
    NAME.map(lambda name: f"${{{name}}}"),
    st.tuples(NAME, OPERATOR, OPERAND).map(lambda parts: f"${{{parts[0]}{parts[1]}{parts[2]}}}"),
    st.tuples(NAME, st.sampled_from(("#", "##", "%", "%%")), PATTERN).map(lambda p: f"${{{p[0]}{p[1]}{p[2]}}}"),
    NAME.map(lambda name: f"${{#{name}}}"),
    EXPRESSION.map(lambda text: f"$(({text}))"),
    st.sampled_from(
        (
            "$@",
            "$1",
            "$2",
            "$#",
            "${L[@]}",
            "${L[1]}",
            "${#L[@]}",
            "$*",
            "${@:2}",
            "${L[@]:1}",
            "${A/a/b}",
            "${!A}",
            "${A^^}",
        )
    ),
)
QUOTED = st.one_of(
    SPACED.map(single),
    SPACED.map(double),
    SPACED.map(ansi),
    st.tuples(PLAIN, BARE, SPACED).map(lambda parts: f'"{parts[0]}{parts[1]}' + double(parts[2])[1:]),
    BARE.map(lambda text: f'"{text}"'),
    st.sampled_from(tuple("\\" + char for char in " $\"'\\`#ab;&|<>(){}\n")),
)
WORD = st.lists(st.one_of(PLAIN, QUOTED, BARE), min_size=1, max_size=4).map("".join)
BLANK = st.sampled_from((" ", "  ", "\t", " \\\n  ", " \\\n"))
WORDS = st.lists(st.tuples(BLANK, WORD).map("".join), max_size=6).map("".join)
CALL = WORDS.map(lambda words: f"accelerate launch{words}")
VALUE = st.one_of(PLAIN, QUOTED, BARE, st.just(""))
ASSIGNMENT = st.one_of(
    st.tuples(
        st.sampled_from(("", "export ", "declare ", "readonly Q=1; ")), NAME, st.sampled_from(("=", "+=")), VALUE
    ).map("".join),
    st.tuples(st.sampled_from(("=", "+=")), WORDS).map(lambda parts: f"L{parts[0]}({parts[1]} )"),
    st.just("set -- one 'two three'"),
    st.just("shift"),
    st.sampled_from(NAMES).map(lambda name: f"unset {name}; {name}=z"),
)
STRAIGHT = st.one_of(
    CALL,
    CALL.map(lambda text: f"B=7 C='x y' {text}"),
    CALL.map(lambda text: f"{text} > /dev/stdout 2>&1"),
    CALL.map(lambda text: f"{text} | cat"),
    CALL.map(lambda text: f"( {text} )"),
    CALL.map(lambda text: f"{{ {text}; }}"),
    CALL.map(lambda text: f"f() {{ {text}; }}; f p 'q r'"),
    CALL.map(lambda text: f"if true; then {text}; fi"),
    CALL.map(lambda text: f"if [ 1 -lt 2 ] && true; then {text}; fi"),
    CALL.map(
        lambda text: f'if [[ "x y" == "x z" ]]; then accelerate no; elif [ -n a ]; then {text}; else accelerate no; fi'
    ),
    CALL.map(lambda text: f"[ a = b ] || {text}"),
    CALL.map(lambda text: f"! test -z a && {text}"),
    CALL.map(lambda text: f"false && accelerate no || {text}"),
    CALL.map(lambda text: f"for i in only; do {text} $i; done"),
    CALL.map(lambda text: f"cat <<'END' > /dev/null\n{text}\n$( ' \"\nEND\n{text}"),
    CALL.map(lambda text: f"true && {text} # a 'comment"),
    CALL.map(lambda text: f"eval {single(text)}"),
    ASSIGNMENT,
)
BRANCHED = st.one_of(
    STRAIGHT,
    st.tuples(ASSIGNMENT, ASSIGNMENT).map(lambda two: f'if [ "$A" = 1 ]; then {two[0]}; else {two[1]}; fi'),
    st.tuples(NAME, ASSIGNMENT).map(lambda two: f'[ -z "${two[0]}" ] && {two[1]}'),
    st.tuples(NAME, ASSIGNMENT, CALL).map(lambda three: f"[[ ${three[0]} != x* ]] && {three[1]} || {three[2]}"),
    st.tuples(NAME, NAME, CALL).map(lambda three: f'if [ "${three[0]}" = "${three[1]}" ]; then {three[2]}; fi'),
    ASSIGNMENT.map(lambda text: f"false || {text}"),
    st.tuples(ASSIGNMENT, CALL).map(lambda two: f"for i in 1 2; do {two[1]} $i; {two[0]}; done"),
    st.tuples(ASSIGNMENT, CALL).map(lambda two: f'case "$A" in a*) {two[0]};; *) {two[1]} ;; esac'),
    ASSIGNMENT.map(lambda text: f"( {text} )"),
    CALL.map(lambda text: f"{text} $(echo a b) `echo c` {{x,y}} <(true)"),
    st.just("while [ $# -gt 0 ]; do shift; done"),
)
ENV = st.dictionaries(NAME, st.one_of(PLAIN, st.just("a  b"), st.just("dir/m=1.b"), st.just("")), max_size=4)
ARGUMENTS = st.lists(st.one_of(PLAIN, st.just("x y"), st.just("")), max_size=3)
FEW = settings(max_examples=sizes.examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(st.lists(STRAIGHT, min_size=1, max_size=5), ENV, ARGUMENTS)
@example(['accelerate launch "${A:-"b c"}" ${B:-"d e" f}'], {}, [])
@example(["accelerate launch 'a'\"b\"\\ c$'\\x41\\u0042'"], {}, [])
@example(['L=(a \'b c\'); L+=(--d); accelerate launch "${L[@]}" x"$@"y'], {}, ["1", "2"])
def test_arguments_are_those_of_bash(statements: list[str], env: dict[str, str], arguments: list[str]) -> None:
    """F-001: without branches, the calls have the same number, order and arguments (or unknown ones)."""
    script = "\n".join(statements)
    real = bash_calls(script, env, arguments)
    if real is None:
        return
    ours = our_calls(script, env, arguments)
    assert len(ours) == len(real)
    for our, call in zip(ours, real, strict=True):
        assert matches(our, call), (our, call)
    if set(NAMES) <= env.keys() and (plain := known(ours)) is not None:
        assert plain == real


@FEW
@given(st.lists(BRANCHED, min_size=1, max_size=5), ENV, ARGUMENTS)
def test_calls_of_any_branch_are_among_ours(statements: list[str], env: dict[str, str], arguments: list[str]) -> None:
    """Each call that bash makes, on any branch, is among ours."""
    script = "\n".join(statements)
    real = bash_calls(script, env, arguments)
    if real is None:
        return
    ours = our_calls(script, env, arguments)
    for call in real:
        assert any(matches(our, call) for our in ours), call


@FEW
@given(st.text("ab \n'\"\\$(){}`;&|<>#=!*[]-1", max_size=40))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    """Any text is parsed, or raises ShellError."""
    places: list[int] = []
    try:
        our_calls(text, {})
    except ShellError as error:
        places.append(error.at)
    assert all(0 <= place <= len(text) for place in places)


@pytest.mark.parametrize(
    "script",
    [
        "env A=1 accelerate launch x",
        "nohup accelerate launch 'x y' &\nwait",
        "exec accelerate launch $((1+2)); accelerate launch never",
        "time accelerate launch a",
        "command accelerate launch a | tee /dev/null",
        "bash -c 'accelerate launch \"$@\"' -- b 'c d'",
    ],
)
def test_wrapped_programs_are_started_all_the_same(tmp_path: Path, script: str) -> None:
    """F-001: bash starts the program after `env`, `exec`, `nohup` and similar ones."""
    assert bash_program_calls(tmp_path, script, {})
