"""`edit_launch`: only the words of the flags change, and bash passes the new values."""

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.launch import Launch, NotEditable, ProcessFlags, edit_launch, parse_launch, script_flag
from tests.launch.shell.bash import bash_calls
from tests.launch.shell.test_interpreter import FEW, double, single

SCRIPT_FLAGS = {"--per_device_train_batch_size": "$AUTOCONF_PER_DEVICE_BATCH_SIZE"}
LAUNCHER_FLAGS = {"--num_processes": "$AUTOCONF_NUM_PROCESSES", "--num_machines": "$AUTOCONF_NUM_MACHINES"}
VALUES = {"AUTOCONF_PER_DEVICE_BATCH_SIZE": "3", "AUTOCONF_NUM_PROCESSES": "16", "AUTOCONF_NUM_MACHINES": "2"}


def launch_of(script: str, env: dict[str, str | None] | None = None) -> Launch:
    parsed = parse_launch(["sh", "-c", script], [], env or {}, dict[str, bytes]().get)
    assert parsed.launch is not None, parsed.diagnostics
    return parsed.launch


def edited(
    script: str, launcher: dict[str, str], flags: dict[str, str], env: dict[str, str | None] | None = None
) -> str:
    command, args = edit_launch(launch_of(script, env), launcher, flags)
    assert command[:2] == ("sh", "-c")
    assert len(command) == 3
    assert not args
    return command[2]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "accelerate launch --num_processes=4 -m t.s --per_device_train_batch_size=8 --x=1",
            "accelerate launch --num_machines=$AUTOCONF_NUM_MACHINES --num_processes=$AUTOCONF_NUM_PROCESSES -m t.s "
            "--per_device_train_batch_size=$AUTOCONF_PER_DEVICE_BATCH_SIZE --x=1",
            id="joined by equals signs",
        ),
        pytest.param(
            "accelerate launch \\\n  --num_processes 4 \\\n  -m t.s \\\n  --x 1 # keep\n",
            "accelerate launch --num_machines $AUTOCONF_NUM_MACHINES \\\n  --num_processes $AUTOCONF_NUM_PROCESSES \\\n"
            "  -m t.s --per_device_train_batch_size $AUTOCONF_PER_DEVICE_BATCH_SIZE \\\n  --x 1 # keep\n",
            id="one flag per line",
        ),
        pytest.param(
            "accelerate launch --num_processes '4' train.py --per_device_train_batch_size=\"$B\" | tee log",
            "accelerate launch --num_machines $AUTOCONF_NUM_MACHINES --num_processes $AUTOCONF_NUM_PROCESSES train.py "
            "--per_device_train_batch_size=$AUTOCONF_PER_DEVICE_BATCH_SIZE | tee log",
            id="quotes and variables are replaced",
        ),
        pytest.param(
            "accelerate launch $A t.py $B",
            "accelerate launch $A --num_processes $AUTOCONF_NUM_PROCESSES --num_machines $AUTOCONF_NUM_MACHINES t.py "
            "$B --per_device_train_batch_size $AUTOCONF_PER_DEVICE_BATCH_SIZE",
            id="flags after a variable override its flags",
        ),
        pytest.param(
            "accelerate launch --num_processes=$(N) -m t.s --name $$(date)",
            "accelerate launch --num_machines=$AUTOCONF_NUM_MACHINES --num_processes=$AUTOCONF_NUM_PROCESSES -m t.s "
            "--per_device_train_batch_size $AUTOCONF_PER_DEVICE_BATCH_SIZE --name $$(date)",
            id="references of Kubernetes",
        ),
    ],
)
def test_only_the_flags_change(before: str, after: str) -> None:
    """F-012: quotes, line breaks, comments and all other words keep their bytes."""
    env: dict[str, str | None] = {
        "A": "--num_processes 2 --num_machines 1",
        "N": "4",
        "B": "--per_device_train_batch_size 9",
    }
    assert edited(before, LAUNCHER_FLAGS, SCRIPT_FLAGS, env) == after


def test_plain_arguments_get_literal_numbers() -> None:
    """F-012: argument lists get literal numbers; each flag stays in its list."""
    command = ["accelerate", "launch", "--num_processes", "4"]
    args = ["-m", "tuning.sft_trainer", "--per_device_train_batch_size=8", "--x", "a b"]
    launch = parse_launch(command, args, {}, dict[str, bytes]().get).launch
    assert launch is not None
    assert not launch.in_shell
    assert edit_launch(
        launch, {"--num_processes": "8", "--num_machines": "2"}, {"--per_device_train_batch_size": "4"}
    ) == (
        ("accelerate", "launch", "--num_machines", "2", "--num_processes", "8"),
        ("-m", "tuning.sft_trainer", "--per_device_train_batch_size=4", "--x", "a b"),
    )


@pytest.mark.parametrize(
    ("script", "flags", "batch"),
    [
        ("accelerate launch t.py", ("--num_processes", "--num_machines", True, False), "--per_device_train_batch_size"),
        ("torchrun t.py --micro_batch_size 1", ("--nproc_per_node", "--nnodes", False, False), "--micro_batch_size"),
        ("deepspeed t.py", ("--num_gpus", "--num_nodes", False, False), "--per_device_train_batch_size"),
        ("deepspeed --include localhost:0 t.py", ("", "", False, False), "--per_device_train_batch_size"),
        ("tune run full_finetune_distributed --config x", ("--nproc_per_node", "--nnodes", False, False), "batch_size"),
        ("litgpt finetune_lora x", ("--devices", "--num_nodes", False, True), "--train.micro_batch_size"),
        ("llamafactory-cli train x.yaml", ("", "", False, False), "per_device_train_batch_size"),
        ("python t.py --per_gpu_train_batch_size 2", ("", "", False, False), "--per_gpu_train_batch_size"),
    ],
)
def test_each_launcher_has_its_own_names(script: str, flags: tuple[str, str, bool, bool], batch: str) -> None:
    launch = launch_of(script)
    processes, machines, in_all, of_script = flags
    expected = ProcessFlags(processes=processes, machines=machines, counts_all=in_all, of_script=of_script)
    assert launch.line.invocation.process_flags == expected
    assert script_flag(launch, "batch") == batch


def test_words_of_recipes() -> None:
    """A framework that takes `name=value` words gets them, in place or at the end."""
    line = "tune run --nproc_per_node 4 full_finetune_distributed --config a/b batch_size=2 # x"
    assert edited(line, {"--nproc_per_node": "8"}, {"batch_size": "1", "gradient_accumulation_steps": "4"}) == (
        "tune run --nproc_per_node 8 full_finetune_distributed --config a/b batch_size=1 gradient_accumulation_steps=4 # x"
    )


def test_a_line_in_another_script_is_not_touched() -> None:
    """A line that is not written in the container's words cannot be edited; `not_editable` says so."""
    for script in (
        "bash -c 'accelerate launch t.py'",
        "X='accelerate launch t.py'; eval $X",
        "W='accelerate launch'; $W t.py",
    ):
        launch = launch_of(script)
        assert launch.not_editable
        with pytest.raises(NotEditable):
            edit_launch(launch, {"--num_processes": "2"}, {})


UNQUOTED = st.text("abcXYZ019_=./:,+@%^", min_size=1, max_size=6)
SPACED = st.text("ab 1\t'\"\\`;&|<>(){}é\n=", max_size=8)
ESCAPED = st.sampled_from(tuple("\\" + char for char in " \"'\\`ab;&|<>(){}\n"))
SAFE = st.lists(st.one_of(UNQUOTED, SPACED.map(single), SPACED.map(double), ESCAPED), min_size=1, max_size=4).map(
    "".join
)
"""Words without variables, flags and comments."""
FLAG = st.tuples(
    st.sampled_from(("--alpha", "--num_processes", "--per_device_train_batch_size", "--beta")),
    st.sampled_from(("=", " ")),
    SAFE,
)
FLAGS = st.lists(FLAG.map("".join), max_size=4)
GAP = st.sampled_from((" ", "  ", " \\\n  ", "\t"))


@FEW
@example(["--num_processes \\\n", "--alpha a"], ["--per_device_train_batch_size \\\n", "--beta=1"], " ", "", "")
@given(
    FLAGS,
    FLAGS,
    GAP,
    st.sampled_from(("", "cd /tmp && ", "A=1 ", "true; ", "# note\n")),
    st.sampled_from(("", " # end", " | cat", "\n", " && true")),
)
def test_bash_passes_the_same_words_but_for_the_flags(
    launcher: list[str], script: list[str], gap: str, before: str, behind: str
) -> None:
    """F-012: after an edit, bash passes the same arguments, with the flags set."""
    words = ["accelerate", "launch", *launcher, "-m", "tuning.sft_trainer", *script]
    text = before + gap.join(words) + behind
    real = bash_calls(text, {})
    if real is None or len(real) != 1:
        return
    new = edited(text, LAUNCHER_FLAGS, SCRIPT_FLAGS)
    after = bash_calls(new, VALUES)
    assert after is not None
    assert len(after) == 1
    at = real[0].index("-m")
    head = _set(list(real[0][1:at]), {"--num_processes": "16", "--num_machines": "2"})
    tail = _set(list(real[0][at + 2 :]), {"--per_device_train_batch_size": "3"})
    now = after[0].index("-m")
    assert _sorted(after[0][1:now]) == _sorted(head)
    assert _sorted(after[0][now + 2 :]) == _sorted(tail)


def _set(words: list[str], flags: dict[str, str]) -> list[str]:
    """Set flags as the program reads them: another flag behind a flag is not its value."""
    for flag, value in flags.items():
        places = [at for at, word in enumerate(words) if word == flag or word.startswith(f"{flag}=")]
        if not places:
            words += [flag, value]
        elif words[places[-1]] == flag:
            after = words[places[-1] + 1 : places[-1] + 2]
            has_value = bool(after) and not after[0].startswith("--")
            words[places[-1] + 1 : places[-1] + 1 + has_value] = [value]
        else:
            words[places[-1]] = f"{flag}={value}"
    return words


def _sorted(words: list[str] | tuple[str, ...]) -> list[str]:
    """Split flags from their values: `=` is a matter of style."""
    pieces: list[str] = []
    for word in words:
        pieces += word.split("=", 1) if word.startswith("--") else [word]
    return sorted(pieces)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12))
def test_any_value_reaches_the_program_literally(value: str) -> None:
    """Any value without a reference is quoted."""
    if "$" in value:
        return
    new = edited("accelerate launch t.py", {}, {"--x": value})
    assert shlex.split(new)[3:] == [f"--x={value}"]
    assert launch_of(new).line.invocation.fields[-1].text == f"--x={value}"
