"""Record the parameter counts of real models: `python -m tools.record_models`.

Builds every model of the table with Hugging Face transformers, without weights (torch's meta device), and writes its
parameters and, for each name of linear layers, the sum of their inputs and outputs to
`tests/sizing/models/counted.json`. Needs `transformers` and `torch`, which the project does not depend on.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]
import transformers  # type: ignore[import-not-found,unused-ignore]

from reconciler import resources
from reconciler.sizing.models import ModelTable

_RECORD = Path(__file__).parents[1] / "tests" / "sizing" / "models" / "counted.json"
_ON_HUB = "its code is on the Hub"
_SKIPPED = {
    "qwen": _ON_HUB,
    "chatglm": _ON_HUB,
    "baichuan": _ON_HUB,
    "apertus": "its activation needs memory to be built",
    "stablelm-2-12b": "transformers 4.57 cannot build it",
}
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
    """Write the record, one model per line; equal configurations are built once."""
    known: dict[str, tuple[int, dict[str, int]]] = {}
    lines = []
    for row in ModelTable(resources.read("data/models.json")).rows:
        if row.name in _SKIPPED or row.config["model_type"] in _SKIPPED:
            continue
        key = json.dumps(row.config, sort_keys=True)
        if key not in known:
            known[key] = count(dict(row.config))
        lines.append(f"  {json.dumps(row.name)}: {json.dumps(known[key])}")
    body = ",\n".join(lines)
    text = f'{{\n "transformers": "{transformers.__version__}",\n "models": {{\n{body}\n }}\n}}\n'
    _RECORD.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
