"""Record what real models count: `python tests/core/sizing/models/models_record.py > tests/core/sizing/models/counted.json`.

Builds every row of the table with Hugging Face transformers, without weights (torch's meta device), and writes down its
parameters and, for each name of linear layers, the sum of their inputs and outputs. Needs `transformers` and `torch`,
which the project does not; the recording is committed.
"""

import json
import sys
from collections import Counter
from typing import Any

import torch  # type: ignore[import-not-found]
import transformers  # type: ignore[import-not-found]

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
    """Print the recording; equal configurations are built once."""
    known: dict[str, tuple[int, dict[str, int]]] = {}
    models = {}
    for row in ROWS:
        if row.name in _LEFT_OUT or row.config["model_type"] in _LEFT_OUT:
            continue
        key = json.dumps(row.config, sort_keys=True)
        if key not in known:
            known[key] = count(dict(row.config))
            sys.stderr.write(f"{row.name} {known[key][0]}\n")
        models[row.name] = {"parameters": known[key][0], "linears": known[key][1]}
    json.dump({"transformers": transformers.__version__, "models": models}, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
