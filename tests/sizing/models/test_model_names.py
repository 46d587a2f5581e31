"""Which model a job means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.sizing.models.table import ModelRow
from tests.sizing.tables import MODEL_TABLE

REPOSITORIES = {
    "ibm-granite/granite-8b-code-base-4k": "granite-8b-code-base",
    "ibm-granite/granite-3.0-8b-base": "granite-3-8b",
    "ibm-granite/granite-3.1-2b-base": "granite-3.1-2b",
    "ibm-granite/granite-3.1-3b-a800m-instruct": "granite-3.1-3b-a800m-instruct",
    "ibm-granite/granite-3.1-8b-instruct": "granite-3.1-8b-instruct",
    "ibm-granite/granite-3b-code-base-128k": "granite-3b-code-base-128k",
    "ibm-granite/granite-7b-base": "granite-7b-base",
    "ibm-granite/granite-8b-code-base-128k": "granite-8b-code-base-128k",
    "ibm-granite/granite-vision-3.2-2b": "granite-vision-3.2-2b",
    "HuggingFaceTB/SmolLM2-135M": "smollm2-135m",
    "ibm-granite/granite-4.0-micro": "granite-4.0-micro",
    "ibm-granite/granite-4.0-h-1b": "granite-4.0-h-1b",
    "ibm-granite/granite-4.0-350m": "granite-4.0-350m",
    "ibm-granite/granite-4.0-h-small": "granite-4.0-h-small",
    "ibm-granite/granite-4.0-1b": "granite-4.0-1b",
    "ibm-granite/granite-4.0-h-micro": "granite-4.0-h-micro",
    "ibm-granite/granite-4.0-h-tiny": "granite-4.0-h-tiny",
    "meta-llama/Llama-2-7b": "llama-7b",
    "meta-llama/Llama-2-13b": "llama-13b",
    "meta-llama/Llama-2-70b": "llama2-70b",
    "meta-llama/Llama-3.1-8b": "llama3.1-8b",
    "meta-llama/Llama-3.1-70b": "llama3.1-70b",
    "meta-llama/Llama-3.1-405B-Instruct": "llama3.1-405b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b-v0.1",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b-instruct-v0.1",
}
"""The autoconf controller's map of Hugging Face ids."""

SUFFIXES = {
    "/LLaMa/models/hf/7B": "llama-7b",
    "/LLaMa/models/hf/13B": "llama-13b",
    "/LLaMa/models/hf/70B": "llama2-70b",
    "/LLaMa/models/hf/llama3-8b": "llama3-8b",
    "/LLaMa/models/hf/llama3.1-8b": "llama3.1-8b",  # misspelt llama3-1.8b there
    "/LLaMa/models/hf/llama3.1-70b": "llama3.1-70b",
    "/LLaMa/models/hf/llama3.1-405b": "llama3.1-405b",
    "/mistral-large/fp16_240620": "mistral-123b-v2",
    "/mistralai-mistral-7b-v0.1": "mistral-7b-v0.1",
    "/Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b-instruct-v0.1",
    "/allam-1-13b-instruct-20240607": "allam-1-13b",
    "/granite-13b-base-v2/step_300000_ckpt": "granite-13b-v2",
    "/granite-20b-code-base-v2/step_280000_ckpt": "granite-20b-v2",
    "/granite-34b-code-base": "granite-34b-code-base",
}
"""Its map of path suffixes, which it never reaches."""


@pytest.mark.parametrize(("written", "name"), REPOSITORIES.items())
def test_the_controllers_repositories_map(written: str, name: str) -> None:
    """F-004."""
    found = MODEL_TABLE.find(written)
    assert found is not None
    assert found == MODEL_TABLE.find(name) or found.autoconf == name


@pytest.mark.parametrize(("suffix", "name"), SUFFIXES.items())
def test_the_controllers_path_suffixes_map(suffix: str, name: str) -> None:
    """F-004."""
    for path in (suffix, f"/dmf_mount{suffix}", f"/a/b/c{suffix}/"):
        found = MODEL_TABLE.find(path)
        assert found is not None, path
        assert found.autoconf == name


@given(st.text(max_size=80))
def test_no_name_is_an_accident(written: str) -> None:
    MODEL_TABLE.find(written)
    MODEL_TABLE.closest(written)


def test_every_name_finds_its_own_model() -> None:
    for model in tuple(MODEL_TABLE):
        assert MODEL_TABLE.find(model.name) == model


AUTOCONF = (
    *("allam-1-13b", "granite-13b-v2", "granite-20b-v2", "granite-3-8b", "granite-3.1-2b"),
    *("granite-3.1-3b-a800m-instruct", "granite-3.1-8b-instruct", "granite-34b-code-base"),
    *("granite-3b-code-base-128k", "granite-4.0-1b", "granite-4.0-350m", "granite-4.0-h-1b", "granite-4.0-h-micro"),
    *("granite-4.0-h-small", "granite-4.0-h-tiny", "granite-4.0-micro", "granite-7b-base", "granite-8b-code-base"),
    *("granite-8b-japanese", "llama-13b", "llama-7b", "llama2-70b", "llama3-70b", "llama3-8b", "llama3.1-405b"),
    *("llama3.1-70b", "llama3.1-8b", "mistral-123b-v2", "mistral-7b-v0.1", "mixtral-8x7b-instruct-v0.1"),
)
"""The domain of ado-autoconf 1.5.0."""


@pytest.mark.parametrize("name", AUTOCONF)
def test_autoconfs_names_are_known(name: str) -> None:
    """F-004."""
    found = MODEL_TABLE.find(name)
    assert found is not None
    assert found.autoconf == name


def test_no_other_name_goes_to_autoconf() -> None:
    assert {model.autoconf for model in tuple(MODEL_TABLE)} == {*AUTOCONF, ""}


MEASURED = {
    "Llama-2-70B": 68.98,
    "Llama-2-7B": 6.74,
    "Llama-3.1-405B": 405.85,
    "Llama-3.1-70B": 70.55,
    "Llama-3.1-8B": 8.03,
    "Qwen-1.8B": 1.84,
    "Qwen-72B": 72.3,
    "Qwen-7B": 7.72,
    "gemma-2b": 2.51,
    "gemma-7b": 8.54,
    "granite-13b-v2": 13.0,
    "granite-3.1-8b-instruct": 8.17,
    "granite-3b-code-base-128k": 3.48,
    "llama-2-7b": 6.74,
    "llama-3-8b": 8.03,
    "llama-3.1-8b": 8.03,
    "llama-7b": 6.74,
    "llama2-70b": 68.98,
    "llama3.1-8b": 8.03,
    "mistral-7b-v0.2": 7.24,
    "mixtral-8x7b-instruct-v0.1": 46.7,
    "stablelm-base-alpha-3b": 3.64,
    "tiny-llama-1.1b": 1.1,
}
"""The models of the measured runs, with the billions that their tables state."""


@pytest.mark.parametrize(("name", "billions"), MEASURED.items())
def test_models_of_measured_runs_are_known(name: str, billions: float) -> None:
    found = MODEL_TABLE.find(name)
    assert found is not None
    assert found.parameters / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(
    "written",
    [
        "meta-llama/Llama-3.1-8B",
        "META-LLAMA/llama-3.1-8b",
        "meta-llama/Meta-Llama-3.1-8B-Instruct",
        "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit",
        "unsloth/Llama-3.1-8B-Instruct-unsloth-bnb-4bit",
        "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4",
        "hugging-quants/Meta-Llama-3.1-8B-Instruct-GPTQ-INT4",
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic",
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16",
        "meta-llama/Llama-3.1-8B@main",
        "meta-llama/Llama-3.1-8B@refs/pr/7",
        "hf://meta-llama/Llama-3.1-8B-Instruct",
        "s3://models/team-a/llama-3.1-8b-instruct/",
        "gs://bucket/llama3.1-8b",
        "/models/llama-3.1-8b-instruct/",
        "./models/Llama-3.1-8B/checkpoint-500",
        "C:\\models\\Llama-3.1-8B",
        "/root/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B/snapshots/d04e592bb4f6aa9cfee91e2e20afa771667e1d4b",
        "models--meta-llama--Llama-3.1-8B",
        "llama3.1-8b",
        "llama-3.1-8b",
        "Llama_3_1_8B",
        "llama3-1.8b",
        "  meta-llama/Llama-3.1-8B\n",
    ],
)
def test_one_model_has_many_spellings(written: str) -> None:
    """F-004."""
    found = MODEL_TABLE.find(written)
    assert found is not None
    assert found.name == "llama3.1-8b"


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("mistralai/Mistral-7B", "mistral-7b-v0.1"),  # the vocabulary differs between versions
        ("mistral-7b-instruct", "mistral-7b-v0.3"),
        ("llama-3.1", "llama3.1-8b"),
        ("meta-llama/Llama-31-8B", "llama3.1-8b"),
        ("acme/llama-3.1-8b-finetuned-on-tickets", "llama3.1-8b"),
        ("/models/llama-3.1-8b/adapters", None),
        ("toaster", None),
        ("", None),
        ("/", None),
        ("instruct", None),
        ("base/chat", None),
        ("8b", None),
        ("../../etc/passwd", None),
        ("models--", None),
        ("snapshots/abc", None),
        ("a" * 100_000, None),
        ("llama3.1-8b" + "/" * 600, None),
        ("\ud800", None),
        ("٣.١", None),
    ],
)
def test_no_model_is_guessed(written: str, hint: str | None) -> None:
    """F-004: an unknown or ambiguous name gives None, and names that may have been meant."""
    assert MODEL_TABLE.find(written) is None
    hints = MODEL_TABLE.closest(written)
    assert hint is None or hint in hints
    assert len(hints) <= 5


@given(
    st.sampled_from(MODEL_TABLE.rows),
    st.sampled_from(["", "/data/", "hf://", "s3://b/c/"]),
    st.sampled_from(["", "/", "@main"]),
)
def test_repositories_find_their_row_wherever_they_lie(row: ModelRow, before: str, after: str) -> None:
    for name in row.repositories:
        found = MODEL_TABLE.find(before + name + after)
        assert found is not None
        assert found.name == row.name


@given(st.lists(st.sampled_from([*"/@:-._", "models--", "snapshots", "llama", "3.1", "8b", "instruct"]), max_size=12))
def test_names_of_parts_never_raise(parts: list[str]) -> None:
    written = "".join(parts)
    MODEL_TABLE.find(written)
    assert all(MODEL_TABLE.find(name) is not None for name in MODEL_TABLE.closest(written))
