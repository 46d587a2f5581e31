"""Masking of text: what is secret goes, what is not stays, and hostile text costs linear time."""

import base64
import time
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.secrets import (
    MASK,
    KnownSecrets,
    holds_secret,
    is_secret_key,
    is_secret_name,
    mask_text,
    mask_tokens,
)
from tests.system.canaries import COMMANDS, FILES, FLAGS, STRINGS, TOKENS, VARIABLES

ROOT = Path(__file__).parents[3]
TOKEN = "C4nary012Zq"
TEMPLATES = (
    *COMMANDS,
    *STRINGS,
    *TOKENS,
    *(f"python train.py {flag} {{c}} --lr 3e-4" for flag in FLAGS),
    *(f"export {name}={{c}}" for name in VARIABLES if name.isidentifier()),
)

PLAIN = (
    "TOKENIZERS_PARALLELISM=false python train.py",
    "python train.py --max_tokens 512 --tokenizer gpt2 --key-value-heads 8",
    "--tokenizer meta-llama/Llama-3.1-8B-Instruct --tokenizer_name_or_path gpt2",
    "max_tokens: 4096\nmax_new_tokens: 512\neos_token: </s>\npad_token: <pad>\npad_token_id: 0\n",
    "tokens_per_second: 1200\nnum_tokens=12\n--tokens-per-batch 65536",
    "model_name_or_path: mistralai/Mixtral-8x7B-v0.1",
    "registry.example.com/train@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "repo:tag@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "uid: 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "digest: sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "/data/datasets/imagenet/train",
    "HF_TOKEN=$HF_TOKEN python train.py --token $HF_TOKEN --api-key=${API_KEY}",
    "password: {{ .Values.password }}",
    "token: ${{ secrets.TOKEN }}",
    "automountServiceAccountToken: false",
    "use_auth_token: true",
    "secretName: registry\nimagePullSecrets: [{name: registry}]",
    "valueFrom: {secretKeyRef: {name: hf, key: token}}",
    "--token-file /run/secrets/token --password-file=/run/secrets/password",
    "topologyKey: kubernetes.io/hostname",
    "sort_keys=True, primary_key=id, cache_key: x",
    "git@github.com:org/repo.git",
    "ssh://git@github.com/org/repo.git",
    "user@example.com",
    "docker run -u 1000:1000 image",
    "python -u train.py",
    "mpirun -np 8 -x NCCL_DEBUG=INFO",
    "--num-processes 8 --main-process-port 29500",
    "the secret of the key is a password",
    "Basic authentication and Bearer tokens",
    "sk-learn-training-pipeline-2024",
    "task-0 risk-free disk-usage",
    "PWD=/workspace",
    "a forward pass: 3 ms; --multi-pass 2",
    "s3://bucket/key?versionId=3",
    "https://example.com/a?page=2&sort=name",
    "NCCL_SOCKET_IFNAME=eth0 MONKEY=1 KEYBOARD=us",
    "attn_implementation: flash_attention_2\nkv_cache_dtype: fp8",
    "kubernetes.io/service-account-token",
    "key: nvidia.com/gpu\noperator: Exists",
    "replicas: 3\nport: 8080\nhost: db.example.com:5432",
    "2026-11-02T10:00:00+00:00",
)


@pytest.mark.parametrize("template", TEMPLATES)
def test_secrets_in_strings_are_masked(template: str) -> None:
    assert TOKEN not in mask_text(template.format(c=TOKEN))


@pytest.mark.parametrize(("name", "content"), [one for one in FILES if one[1] != "{c}" and one[0] != ".htpasswd"])
def test_secrets_in_files_are_masked(name: str, content: str) -> None:
    assert TOKEN not in mask_text(content.format(c=TOKEN)), name


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_text(text) == text
    assert mask_tokens(text) == text


@pytest.mark.parametrize("name", VARIABLES)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "max_new_tokens", "tokenizer", "eos_token", "pad_token_id", "PWD", "OLDPWD",
        "SECRET_NAME", "TOKEN_FILE", "PASSWORD_PATH", "public_key", "sort_key", "KEYBOARD", "MONKEY", "PIN_MEMORY",
        "BYPASS", "num_passes", "forward_pass", "AUTHOR", "NCCL_DEBUG", "PATH", "PATTERN", "SIGNAL", "num_key_value_heads",
        "COMPASS", "TOKEN_BUDGET", "HF_HOME", "WANDB_PROJECT", "PASSTHROUGH", "tokens", "secretKeyRef",
    ],
)  # fmt: skip
def test_names_of_what_is_no_secret(name: str) -> None:
    assert not is_secret_name(name)
    assert not is_secret_key(name)


@pytest.mark.parametrize("folder", ["gitops-repo-template", "tests/plan/outputs/golden", "tests/cases"])
def test_no_line_of_the_shipped_repositories_is_masked(folder: str) -> None:
    """Lines that pass through plans stay as they are; the goldens hold masks, which stay too."""
    for path in sorted((ROOT / folder).rglob("*")):
        if path.is_file():
            text = path.read_text()
            assert mask_text(text) == text, path


@pytest.mark.parametrize("path", sorted(ROOT.glob("policies/*/rule.yaml")), ids=lambda path: path.parent.name)
def test_shipped_rules_hold_no_secret(path: Path) -> None:
    """A file that may hold one is not cached, and would be parsed again by every plan."""
    assert not holds_secret(path.read_text())


words = st.sampled_from(
    ["password", "token", "=", ": ", ":", " ", "\n", '"', "'", "\\", "--", "-u ", "{", "}", "[", "]", ",", "://", "@", "a",
     "C4nary", "name", "value", "|", ">", "- ", "Bearer ", "hf_abcdefghijklmnopqrstuvwxyz", "machine", "login", "x1", ";", "&"]
)  # fmt: skip
texts = st.lists(words, max_size=40).map("".join)


@given(st.one_of(texts, st.text(max_size=200)))
def test_masking_twice_is_masking_once(text: str) -> None:
    once = mask_text(text)
    assert mask_text(once) == once


@given(st.one_of(texts, st.text(max_size=200)))
def test_masking_never_makes_text_much_longer(text: str) -> None:
    """A mask takes the place of a character at least."""
    assert len(mask_text(text)) <= len(text) * len(MASK) + len(MASK)


@given(st.text(alphabet=st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=6, max_size=80), texts)
def test_known_values_are_masked_in_every_spelling(value: str, around: str) -> None:
    known = KnownSecrets([value])
    for spelling in (value, base64.b64encode(value.encode()).decode(), urllib.parse.quote(value, safe="")):
        assert spelling not in known.mask(f"{around} {spelling} {around}").replace(MASK, "")


def test_known_values_cost_the_sum_of_text_and_values() -> None:
    """10,000 values and 10,000 messages: their product would take minutes."""
    values = [f"secret-value-{number:06}" for number in range(10_000)]
    messages = [f"the field has secret-value-{number:06} in it" for number in range(10_000)]
    started = time.process_time()
    known = KnownSecrets(values)
    assert all(known.mask(message) == "the field has *** in it" for message in messages)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "piece",
    [
        "password", "token=x ", "password: |\n", "password: [", "-u a:b ", "name: token value: x ", "\n", "mysql -p", "[",
        "'password': ", "passwords:\n- a\n", "<token>", '\\"', 'token=\\"', "-----BEGIN PRIVATE KEY-----", "eyJ", "hf_",
        "login a password b ", "a:1:b:c:", "Basic a", "xtokenx" * 20, "--token-", "https://", "a://b@", "?token", "{",
        '"password": "', 'password = """', "token:\n\n", "x: ", "{password: ",
    ],
)  # fmt: skip
def test_hostile_text_is_masked_in_linear_time(piece: str) -> None:
    """Quadratic time would take minutes."""
    started = time.process_time()
    mask_text(piece * (300_000 // len(piece)))
    assert time.process_time() - started < 5
