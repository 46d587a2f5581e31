"""Sources, questions and decisions for tests of sized jobs; documents are read and validated as the pipeline does."""

from pathlib import Path
from typing import Any

from reconciler import resources
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.training import training_job
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.launch import Launch, parse_launch
from reconciler.sizing.decision import Candidate, Confidence, Decision, Estimate, Part
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.question import Goal, Question
from reconciler.sizing.training import Architecture, Layout, Method, Training
from reconciler.sizing.training_jobs import Container, TrainingJob

SOURCES = Path(__file__).parent / "sources"
CATALOGUE = Catalogue(resources)
A100 = Gpu(product="NVIDIA-A100-SXM4-80GB", memory_gib=80.0)
LLAMA = Architecture(
    name="llama3.1-8b",
    layers=32,
    hidden=4096,
    intermediate=14336,
    heads=32,
    kv_heads=8,
    head_dim=128,
    vocabulary=128256,
    tied=False,
    parameters=8_030_261_248,
    active_parameters=8_030_261_248,
    autoconf="llama3.1-8b",
)


def source(name: str) -> str:
    """Return the text of a source file."""
    return (SOURCES / f"{name}.yaml").read_text(encoding="utf-8")


def document(text: str | bytes, path: str = "jobs/test.yaml") -> Document:
    """Read the first document of a file that has no problem of form."""
    reading = read(path, text.encode() if isinstance(text, str) else text)
    assert reading.problems == ()
    return reading.documents[0]


def patch(job: str, pods: dict[str, Any], *, manager: str = "example.com/team") -> dict[str, Any]:
    """Return a patch of the pods of one job of a runtime, as a TrainJob holds it."""
    template = {"spec": {"template": {"spec": pods}}}
    return {
        "manager": manager,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": job, "template": template}]}}},
    }


def no_files(_: str) -> None:
    """Find none of the files that a line names."""


def starts(container: Container) -> bool:
    """Whether a container's words start a training."""
    return parse_launch(container.command, container.args, dict(container.env), no_files).launch is not None


def launch_of(job: TrainingJob) -> Launch:
    """Read the launch line of a job."""
    found = parse_launch(job.command, job.args, dict(job.env), no_files).launch
    assert found is not None
    return found


def job_of(text: str | bytes) -> TrainingJob:
    """Read a training job that has no problems."""
    parsed = training_job(BUILT_IN, document(text), starts)
    assert [str(problem) for problem in parsed.problems] == []
    assert parsed.intent is not None
    return parsed.intent


def question(batch: int = 8, processes: int = 1, accumulation: int = 1, goal: Goal = Goal.MIN_GPU) -> Question:
    """Ask for the layout of a llama that keeps this effective batch."""
    training = Training(model="meta-llama/Llama-3.1-8B", architecture=LLAMA, method=Method.FULL, sequence=2048)
    return Question(training=training, gpu=A100, batch=batch, processes=processes, accumulation=accumulation, goal=goal)


def decision(
    gpus: int, workers: int = 1, batch: int = 1, accumulation: int = 1, *, gpu: Gpu = A100, goal: Goal = Goal.MIN_GPU
) -> Decision:
    """Choose a layout."""
    parts = (Part(name="weights", gib=50.0), Part(name="activations", gib=12.345))
    estimate = Estimate(
        peak_gib=62.345,
        need_gib=62.0,
        low_gib=59.0,
        high_gib=66.5,
        floor_gib=30.0,
        confidence=Confidence.HIGH,
        parts=parts,
    )
    layout = Layout(gpus=gpus, workers=workers, batch=batch, accumulation=accumulation)
    chosen = Candidate(layout=layout, gpu=gpu, fits=True, reason="ok", text="fits", estimate=estimate)
    return Decision(
        goal=goal,
        chosen=chosen,
        reason="ok",
        text=f"{gpus} GPUs: predicted peak 62.3 of 80.0 GiB",
        confidence=Confidence.HIGH,
        candidates=(chosen,),
        engines=(("analytic", "1"),),
    )


def no_decision() -> Decision:
    """Find nothing that fits."""
    return Decision(
        goal=Goal.MIN_GPU,
        chosen=None,
        reason="does-not-fit",
        text="64 GPUs are not enough",
        confidence=Confidence.MEDIUM,
        candidates=(),
        engines=(("analytic", "1"), ("autoconf", "1.9.7")),
    )
