"""Which model a job means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.sizing.models import all_models, closest_models, find_architecture

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
    found = find_architecture(written)
    assert found is not None
    assert found == find_architecture(name) or found.autoconf == name


@pytest.mark.parametrize(("suffix", "name"), SUFFIXES.items())
def test_the_controllers_path_suffixes_map(suffix: str, name: str) -> None:
    """F-004."""
    for path in (suffix, f"/dmf_mount{suffix}", f"/a/b/c{suffix}/"):
        found = find_architecture(path)
        assert found is not None, path
        assert found.autoconf == name


@given(st.text(max_size=80))
def test_no_name_is_an_accident(written: str) -> None:
    find_architecture(written)
    closest_models(written)


def test_every_name_finds_its_own_model() -> None:
    for model in all_models():
        assert find_architecture(model.name) == model
