"""The shipped tables of models and GPUs: valid by their schemas, and extended by one row."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from reconciler import resources
from reconciler.sizing.tables import SizingTables
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE

DATA = Path(resources.__file__).parent / "data"

MODEL = {
    "name": "acme-1b",
    "repositories": ["acme/Acme-1B"],
    "source": "huggingface.co/acme/Acme-1B: config.json",
    "config": {
        "model_type": "llama",
        "num_hidden_layers": 16,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
}
GPU = {
    "product": "NVIDIA-ACME-96GB",
    "aliases": ["ACME"],
    "vendor": "nvidia",
    "memoryMib": 98304,
    "tflops": 1000,
    "bandwidthGbs": 4000,
    "price": 2,
    "source": "nvidia-smi",
}


def table(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return data


def with_row(name: str, row: dict[str, Any]) -> SizingTables:
    """Return the tables with one more row, after its schema has accepted it."""
    data = table(name)
    data[name].append(row)
    jsonschema.validate(data, json.loads((DATA / f"{name}.schema.json").read_text(encoding="utf-8")))
    return SizingTables(lambda path: json.dumps(data).encode() if path == f"data/{name}.json" else resources.read(path))


@pytest.mark.parametrize("name", ["models", "gpus"])
def test_the_schema_accepts_the_table(name: str) -> None:
    schema = json.loads((DATA / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(table(name), schema)


@pytest.mark.parametrize("name", ["models", "gpus"])
def test_one_row_per_line(name: str) -> None:
    """A change of one row is a change of one line."""
    lines = (DATA / f"{name}.json").read_text(encoding="utf-8").splitlines()
    others = [rows for part, rows in table(name).items() if part not in {name, "$schema"}]
    assert len(lines) == len(table(name)[name]) + 5 + sum(len(rows) + 2 for rows in others)


def test_adding_a_model_is_one_row() -> None:
    models = with_row("models", MODEL).models
    architecture = models.find("/data/acme-1b-instruct")
    assert architecture is not None
    assert (architecture.name, architecture.layers, architecture.source) == ("acme-1b", 16, MODEL["source"])
    assert models.find("llama3.1-8b") == MODEL_TABLE.find("llama3.1-8b")


def test_adding_a_gpu_is_one_row() -> None:
    gpus = with_row("gpus", GPU).gpus
    gpu = gpus.find("acme")
    assert gpu is not None
    assert (gpu.product, gpu.memory_gib, gpu.tflops) == ("NVIDIA-ACME-96GB", 96.0, 1000)
    assert gpus.find("L40S") == GPU_TABLE.find("L40S")


@pytest.mark.parametrize(("name", "row"), [("models", {**MODEL, "layers": 3}), ("gpus", {**GPU, "memory": 3})])
def test_an_unknown_field_is_an_error(name: str, row: dict[str, Any]) -> None:
    data = {name: [row]}
    tables = SizingTables(lambda _: json.dumps(data).encode())
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        next(iter(tables.models if name == "models" else tables.gpus))
