"""Record what real models count: `python tests/core/sizing/models/models_record.py`, into counted.json beside it.

Builds every row of the table with Hugging Face transformers, without weights (torch's meta device), and writes down its
parameters and, for each name of linear layers, the sum of their inputs and outputs. Needs `transformers` and `torch`,
which the project does not; the recording is committed.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]
import transformers  # type: ignore[import-not-found,unused-ignore]

from reconciler.core.sizing.models.rows import ROWS

_LEFT_OUT = {"qwen": "its code lies on the hub", "stablelm-2-12b": "transformers 4.57 cannot build it"}
_SAME_CODE = {"kimi_k2": "deepseek_v3"}


def count(config: dict[str, Any]) -> tuple[int, dict[str, int]]:
    """Return the parameters of a model with that `config.json`, and the sizes of its decoder's linear layers."""
    kind = config.pop("model_type")
    whole = transformers.AutoConfig.for_model(_SAME_CODE.get(kind, kind), **config)
    maker = transformers.AutoModelForImageTextToText if "text_config" in config else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = maker.from_config(whole)
    sizes: Counter[str] = Counter()
    decoder = model.get_decoder() if "text_config" in config else model
    for name, module in decoder.named_modules():
        linear = isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
        if linear and module is not model.get_output_embeddings():
            sizes[name.rsplit(".", 1)[-1]] += sum(module.weight.shape)
    return sum(weight.numel() for weight in model.parameters()), dict(sorted(sizes.items()))


def main() -> None:
    """Write the recording, a model a line; equal configurations are built once."""
    known: dict[str, tuple[int, dict[str, int]]] = {}
    lines = []
    for row in ROWS:
        if row.name in _LEFT_OUT or row.config["model_type"] in _LEFT_OUT:
            continue
        key = json.dumps(row.config, sort_keys=True)
        if key not in known:
            known[key] = count(dict(row.config))
        lines.append(f"  {json.dumps(row.name)}: {json.dumps(known[key])}")
    body = ",\n".join(lines)
    text = f'{{\n "transformers": "{transformers.__version__}",\n "models": {{\n{body}\n }}\n}}\n'
    Path(__file__).with_name("counted.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
