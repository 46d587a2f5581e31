"""Hostile and broken input gives diagnostics, within limits of time and memory, and never an exception."""

import base64
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.launch import ParsedLaunch, edit_launch, parse_launch
from reconciler.launch.shell.ast import ShellError
from reconciler.launch.shell.interpreter import MAX_LEVELS, MAX_STEPS
from reconciler.launch.shell.parser import parse

LINE = (
    "accelerate launch -m tuning.sft_trainer --model_name_or_path m --max_seq_length 1 --per_device_train_batch_size 1"
)
NO_FILES: dict[str, bytes] = {}


def read(script: str, files: dict[str, bytes] | None = None) -> ParsedLaunch:
    return parse_launch(["sh", "-c", script], [], {}, (NO_FILES if files is None else files).get)


HOSTILE_SCRIPTS = {
    "negations": f"if [ {'! ' * 60_000} a ]; then true; fi",
    "negations of patterns": f"if [[ {'! ' * 60_000} a ]]; then true; fi",
    "eval in itself": 'x=\'eval "$x"\'; eval "$x"',
    "words": "a " * 60_000,
    "subshells": "(" * 120_000,
    "expansions": "${" * 60_000,
    "substitutions": "$(" * 60_000,
    "quoted substitutions": '"$(' * 40_000,
    "arithmetic": "echo $((" + "(" * 100_000,
    "many arithmetics": "$(( " * 30_000,
    "process substitutions": "<(" * 60_000,
    "odd double quotes": '"' * 120_001,
    "odd single quotes": "'" * 120_001,
    "backticks": "`" * 120_001,
    "backslashes": "\\" * 120_001,
    "braces": "{" * 120_000,
    "brace lists": "a{b,c}" * 20_000,
    "here-documents": "cat <<E\n" * 15_000,
    "if": "if " * 40_000,
    "case": "case x in a) " * 9_000,
    "loops": "for x in 1 2;do " * 30 + "a" + ";done" * 30,
    "doubling variable": "A=x;" + "A=$A$A;" * 15_000,
    "doubling array": "A=(a);" + 'A=("${A[@]}" "${A[@]}");' * 4_000,
    "doubling function": "f0(){ a;};" + "".join(f"f{n + 1}(){{ f{n};f{n};}};" for n in range(30)) + "f19",
    "endless function": "f(){ f;f;};f",
    "endless eval": "A='eval $A';eval $A",
    "long eval": "A='" + ":;" * 1_000 + "';" + "eval $A;" * 10_000,
    "variables in branches": "".join(f"V{n}=1;" for n in range(9_000)) + "if a;then b;fi;" * 2_000,
    "words of a variable": "A='" + "a " * 50_000 + "';" + "echo $A;" * 2_000,
    "functions": "f () " * 20_000,
    "assignments": "A=" * 60_000,
    "redirections": "<" * 60_000,
    "semicolons": ";" * 60_000,
    "comments": "#" * 100_000 + "\n" * 20_000,
    "unknown marks": "\ufdd0\ufdd1 " * 30_000,
    "launches": "torchrun t.py;" * 9_000,
    "nested shells": "sh -c 'sh -c \"sh -c sh\\ -c\\ sh\\ -c\\ a\"'",
    "megabyte": "a" * 1_000_000,
    "half a character": "echo \ud800",
    "nul": "echo \0",
}


@pytest.mark.parametrize("name", HOSTILE_SCRIPTS)
@pytest.mark.timeout(20)
def test_hostile_scripts_give_diagnostics(name: str) -> None:
    """Depth, length and steps are limited; the diagnostic names the limit."""
    parsed = read(HOSTILE_SCRIPTS[name])
    assert parsed.launch is None
    assert len(parsed.diagnostics) == 1
    assert parsed.diagnostics[0].hint
    text = json.dumps([parsed.diagnostics[0].message, parsed.diagnostics[0].hint])
    assert len(text) < 1_000
    assert text.encode()


def test_shells_and_functions_and_eval_within_each_other_are_bounded_together() -> None:
    """Each is within its own limit; a call at the bottom of each function starts the next one."""
    for call in ("f{}", "eval f{}"):
        functions = [f"f{n}() {{ {'if true; then ' * 18}{call.format(n + 1)}{'; fi' * 18}; }}" for n in range(19)]
        script = "\n".join([*functions, "f19() { bash x.sh; }", "f0"])
        (diagnostic,) = read("bash x.sh", {"x.sh": script.encode()}).diagnostics
        assert (diagnostic.rule, diagnostic.hint) == (
            "launch.shell",
            "correct the script; `bash -n` reports the same error",
        )
        assert f"nested more than {MAX_LEVELS} levels deep (in the file x.sh)" in diagnostic.message


def test_functions_within_functions_are_followed() -> None:
    functions = [f"f{n}() {{ f{n + 1}; }}" for n in range(40)]
    assert not read("\n".join([*functions, f"f40() {{ {LINE}; }}", "f0"])).diagnostics


def test_many_arguments_and_deep_scripts_are_bounded() -> None:
    assert [diagnostic.rule for diagnostic in parse_launch(["a"] * 20_000, [], {}, NO_FILES.get).diagnostics] == [
        "launch.text"
    ]
    assert [diagnostic.rule for diagnostic in parse_launch([], [], {}, NO_FILES.get).diagnostics] == ["launch.none"]
    assert [diagnostic.rule for diagnostic in read(f"{':;' * (MAX_STEPS + 1)} {LINE}").diagnostics] == ["launch.shell"]


@given(st.lists(st.text("ab -='\"$(){}\n\\m./\ud800\0\ufdd0é", max_size=12), max_size=6), st.booleans())
def test_any_arguments(words: list[str], shell: bool) -> None:
    """No argument list raises; a launch line can be edited or has a reason why not."""
    command = ["sh", "-c"] if shell else ["accelerate", "launch"]
    parsed = parse_launch(command, words, {"a": "b c", "m": None}, NO_FILES.get)
    assert parsed.launch is not None or parsed.diagnostics
    if parsed.launch is not None and not parsed.launch.not_editable:
        edit_launch(parsed.launch, {"--num_processes": "2"}, {"--x": "1"})


TOKENS = st.sampled_from(
    (
        *(
            "accelerate launch ",
            "torchrun ",
            "python ",
            "-m ",
            "tuning.sft_trainer ",
            "--num_processes",
            "=",
            "4 ",
            "\n",
        ),
        *(
            "--model_name_or_path ",
            "--max_seq_length ",
            "--peft_method ",
            "lora ",
            "$A ",
            "${A:-",
            "}",
            '"',
            "'",
            "$((",
            "))",
        ),
        *(
            "if ",
            "then ",
            "fi",
            "for x in 1;do ",
            "done;",
            "case x in a) ",
            ";; ",
            "esac",
            "<<E\n",
            "E\n",
            "(",
            ")",
            "&& ",
            "| ",
        ),
        *(
            "A=1 ",
            "export A=b ",
            "eval ",
            "exec ",
            "bash -c ",
            "train.yaml ",
            "--config_file ",
            "llamafactory-cli train ",
        ),
    )
)


@given(st.lists(TOKENS, max_size=25).map("".join))
def test_any_script(script: str) -> None:
    """No script raises."""
    parsed = read(script, {"train.yaml": b"a: [1, {b: c}]\n"})
    assert parsed.launch is not None or parsed.diagnostics


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"- 1\n",
        b"a: b: c\n",
        b"\xff\xfe",
        b"{" * 100_000,
        b"a: &a [*a]\n",
        b"a: &a [1]\nb: [*a, *a]\n" * 2,
        b"deepspeed: {zero_optimization: {stage: 3}}\n",
        b"cutoff_len: .inf\nper_device_train_batch_size: -0.5\n",
        b"model_name_or_path: ''\n",
        b"bf16: maybe\nquantization_bit: 3\nfinetuning_type: 7\n",
    ],
)
def test_broken_files(content: bytes) -> None:
    """Any content of a configuration file gives diagnostics."""
    for line in (
        "llamafactory-cli train f.yaml",
        "axolotl train f.yaml",
        "tune run full --config f.yaml",
        "trl sft --config f.yaml",
    ):
        assert read(line, {"f.yaml": content}).diagnostics
    parsed = read(f"{LINE} --deepspeed f.json", {"f.json": content})
    assert parsed.launch is not None


@pytest.mark.parametrize(
    "content",
    [
        b"model: m\nglobal_batch_size: " + b"9" * 5_000 + b"\n",
        b"model: m\nglobal_batch_size: -3\nmicro_batch_size: 0\n",
        b"model: m\npeft_config: lora\nquant_config: [1]\ndist_config: {name: {a: b}}\n",
        b"model: m\npeft_config: {name: lora, r: 1.5}\nquant_config: {quantization_bit: many}\n",
        b"model: m\ndist_config: {name: deepspeed, config_file: f.yaml}\n",
        b"model: m\ndist_config: {name: fsdp2, mp_replicate_size: x, cp_size: -1}\n",
        b"model: [m]\noptim_config: {name: 3}\nflash_attn: 9\n",
    ],
)
def test_broken_files_of_llama_factory_v1(content: bytes) -> None:
    parsed = read("USE_V1=1 NPROC_PER_NODE=8 llamafactory-cli sft f.yaml", {"f.yaml": content})
    assert parsed.launch is not None
    read("litgpt finetune_lora m --devices 2 --train.global_batch_size " + "9" * 5_000)


@pytest.mark.parametrize(
    "trl",
    [
        b"trl: [1]\n",
        b"trl: {use_vllm: maybe, vllm_mode: 7}\n",
        b"trl: {use_vllm: true, vllm_mode: colocate}\nvllm: {gpu_memory_utilization: .nan}\n",
        b"trl: {max_completion_length: " + b"9" * 5_000 + b"}\n",
        b"trl: {max_completion_length: -1, beta: {a: 1}}\nvllm: 3\n",
    ],
)
def test_broken_files_of_grpo(trl: bytes) -> None:
    read("axolotl train f.yaml", {"f.yaml": b"base_model: m\nrl: grpo\n" + trl})


@pytest.mark.parametrize("name", ["", "llama3_1/8B_lora x", "c=1", "../8B_lora", "é", "llama3_1/8B_lora" * 1_000])
def test_names_of_configurations_that_no_package_has(name: str) -> None:
    assert read(f"tune run lora_finetune_single_device --config '{name}' optimizer=").diagnostics


@pytest.mark.parametrize("text", ["rank=" + "9" * 5_000, "rank=0", "rank", "[rank=1", "rank=1.5,rank=x"])
def test_broken_ranks_of_projections(text: str) -> None:
    for line in (
        f"python run_clm.py --optim galore_adamw --optim_args '{text}'",
        f"trl sft --optim apollo_adamw --optim_args={text}",
    ):
        assert read(line).diagnostics


def test_a_pickle_is_never_opened() -> None:
    """fms-hf-tuning would unpickle the variable; this is a diagnostic instead."""
    text = base64.b64encode(pickle.dumps({"model_name_or_path": "m"})).decode()
    env = {"SFT_TRAINER_CONFIG_JSON_ENV_VAR": text}
    parsed = parse_launch(["python", "-m", "tuning.sft_trainer"], [], env, NO_FILES.get)
    assert "launch.file" in [diagnostic.rule for diagnostic in parsed.diagnostics]


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("echo 'a", 5),
        ("if a; then b", 12),
        ("a; )", 3),
        ("echo ${a", 5),
        ('echo "a $(b', 11),
        ("a ;; b", 2),
        ("a && ", 5),
    ],
)
def test_errors_point_at_the_place(script: str, place: int) -> None:
    with pytest.raises(ShellError) as caught:
        parse(script)
    assert caught.value.at == place
    diagnostic = read(script).diagnostics[0]
    assert diagnostic.rule == "launch.shell"
    assert diagnostic.span is not None
    assert diagnostic.span.start == place


def test_variables_that_double_each_other_are_bounded() -> None:
    env = {"V0": "x" * 100} | {f"V{n}": f"$(V{n - 1})$(V{n - 1})" for n in range(1, 200)}
    parsed = parse_launch(["sh", "-c", "echo $(V199)" * 5_000], ["$(V5)" * 20_000], env, NO_FILES.get)
    assert [diagnostic.rule for diagnostic in parsed.diagnostics] == ["launch.none"]


def test_secrets_of_a_line_are_in_no_message() -> None:
    """Diagnostics quote the line, and logs keep them."""
    secret = "hunter2hunter2hunter2"
    for flag in (
        f"--hub_token {secret}",
        f"--wandb_api_key={secret}",
        f"HF_TOKEN={secret}",
        f"--data s3://u:{secret}@h/x",
    ):
        line = (
            f"{flag} {LINE}" if flag[0] != "-" else LINE.replace(" -m", f" {flag} -m").replace("2048", f"2048 {flag}")
        )
        for script in (f"{line} && {line} --max_seq_length 3", f"({line}"):
            parsed = parse_launch(["bash", "-c"], [script], {}, lambda _: None)
            assert secret not in repr([(diagnostic.message, diagnostic.hint) for diagnostic in parsed.diagnostics])
