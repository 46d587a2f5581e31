"""FastChat: https://github.com/lm-sys/FastChat."""

from reconciler.core.launch.facts import Fact
from reconciler.core.launch.framework import Extraction, Framework
from reconciler.core.launch.frameworks.transformers import TRAINER_CHANGES, TRAINER_DEFAULTS, TRAINER_SETTINGS
from reconciler.core.launch.settings import is_true
from reconciler.core.launch.training import read_framework_method
from reconciler.core.patterns import later


def _read_method(extraction: Extraction) -> None:
    """Read the method: `train_lora` always trains adapters, on 4 bits with `--q_lora`."""
    name = extraction.invocation.name
    quantised = extraction.resolve("method", extraction.script.find(("q_lora",)))
    if "lora" not in name.rpartition("/")[2].rpartition(".train.")[2]:
        read_framework_method(extraction)
    elif quantised is not None and is_true(quantised):
        extraction.add("method", quantised, "qlora")
        extraction.add("quantisation", quantised, "4bit")
    elif "method" not in extraction.unresolved:
        extraction.facts["method"] = Fact(value="lora", snippet=name)


FASTCHAT = Framework(
    name="fastchat",
    source="FastChat",
    programs=later(r"fastchat\.train\.\w+|(?:.*/)?fastchat/train/\w+\.py"),
    settings=TRAINER_SETTINGS | {"sequence": ("model_max_length",)},
    defaults=TRAINER_DEFAULTS | {"sequence": "512", "lora_rank": "8", "lora_targets": "q_proj,v_proj"},
    read_method=_read_method,
    changes=TRAINER_CHANGES,
)
