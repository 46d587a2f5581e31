"""Questions about real models, cards and frameworks, for properties of remedies and limits."""

from typing import Any

from hypothesis import strategies as st

from reconciler.launch import FRAMEWORKS, Framework
from reconciler.sizing.question import Question
from reconciler.sizing.training import Attention, Layout, Method, Precision, Strategy, Training
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE

MODELS = ("llama3.1-8b", "mistral-7b-v0.3", "granite-3.1-8b", "mixtral-8x7b-v0.1", "gemma2-2b", "llama3.1-70b")
CARDS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S", "NVIDIA-H200", "NVIDIA-A10G")
BY_NAME = {row.name: row for row in FRAMEWORKS if row.name and not row.unsupported}
frameworks = st.sampled_from(("", "trl", "axolotl", "torchtune", "ms-swift", "fms-hf-tuning", "llama-factory"))


def training(model: str = "llama3.1-8b", **changes: Any) -> Training:
    """Return a training of a model of the table."""
    architecture = MODEL_TABLE.find(model)
    assert architecture is not None, model
    values = {"model": model, "architecture": architecture, "method": Method.FULL, "sequence": 4096, **changes}
    return Training(**values)


def question(one: Training, layout: Layout, card: str = "NVIDIA-A100-SXM4-80GB", **changes: Any) -> Question:
    """Ask about a training on exactly the GPUs of a layout."""
    gpu = GPU_TABLE.find(card)
    assert gpu is not None, card
    values = {
        "training": one,
        "gpu": gpu,
        "batch": layout.batch,
        "processes": layout.gpus,
        "accumulation": layout.accumulation,
        "requested_gpus": layout.gpus,
        "max_gpus": layout.gpus,
        **changes,
    }
    return Question(**values)


def framework(name: str) -> Framework | None:
    return BY_NAME.get(name)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Question, Layout, Framework | None]:
    """Return a question, its layout, and a framework that may be unknown."""
    name = draw(frameworks)
    method = draw(st.sampled_from((Method.FULL, Method.LORA, Method.QLORA)))
    one = training(
        draw(st.sampled_from(MODELS)),
        method=method,
        sequence=draw(st.sampled_from((512, 4096, 16384, 65536))),
        precision=draw(st.sampled_from((Precision.BF16, Precision.BF16_MIXED, Precision.FP32))),
        checkpointing=draw(st.booleans()),
        fused_loss=draw(st.booleans()),
        attention=draw(st.sampled_from(Attention)),
        strategy=draw(st.sampled_from(Strategy)),
        optimizer=draw(st.sampled_from(("adamw_torch", "adafactor", "paged_adamw_8bit"))),
        framework=name,
    )
    gpus = draw(st.sampled_from((1, 2, 4, 8, 16)))
    layout = Layout(
        gpus=gpus, workers=-(-gpus // 8), batch=draw(st.integers(1, 16)), accumulation=draw(st.sampled_from((1, 2, 4)))
    )
    uncertain = draw(st.booleans())
    asked = question(one, layout, draw(st.sampled_from(CARDS)), is_uncertain=uncertain)
    return asked, layout, framework(name)
