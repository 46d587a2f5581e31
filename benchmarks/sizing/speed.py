"""How fast jobs are sized, beside the autoconf controller's way: `python -m benchmarks.sizing.speed`.

Processor time of one process, the best of several rounds. `ADO_AUTOCONF_PYTHON` names an interpreter that has
ado-autoconf: without it, its row is left out.
"""

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.sizing.runs import measured
from reconciler.index.sized.job import SizingContext, size_job
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.yaml import Document, read
from reconciler.sizing.answers import Answers
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decide import decide
from reconciler.sizing.engines.wrapper import WrapperPredictor
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.question import Question, engine_question
from reconciler.sizing.training import Method, Training
from tests.sizing.tables import GPU_TABLE, MODEL_TABLE, TABLES

JOBS = 10_000
_ROUNDS = 5
_CALLS = 5  # of a process that takes seconds
_SCRIPT = "import json, sys\njson.dump({'workers': 1, 'gpus': 1}, open(sys.argv[1], 'w'))\n"
_ADO = """\
import json, sys
from autoconf.min_gpu_recommender import min_gpu_recommender
out, model, method, gpu, tokens, batch, version = sys.argv[1:]
found = min_gpu_recommender(model_name=model, method=method, gpu_model=gpu, tokens_per_sample=int(tokens),
                            batch_size=int(batch), model_version=version)
json.dump({"workers": found.get("workers"), "gpus": found.get("gpus")}, open(out, "w"))
"""
_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: job-{number}, namespace: team, labels: {{autoconf-plugin-name: resource-requirements-appwrapper}}}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          nodeSelector: {{nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}}
          containers:
            - name: pytorch
              image: registry.example.com/tuning:2.8
              command: [bash, -c]
              args:
                - |
                  accelerate launch --num_processes 8 -m tuning.sft_trainer \\
                    --model_name_or_path meta-llama/Llama-3.1-8B --peft_method lora --gradient_checkpointing true \\
                    --max_seq_length {sequence} --per_device_train_batch_size {batch}
              resources: {{limits: {{nvidia.com/gpu: 8}}, requests: {{nvidia.com/gpu: 8}}}}
"""


def main() -> int:
    """Print a table."""
    gc.disable()  # as the command does
    runs, questions = measured(), _questions()
    print(
        f"one prediction of a peak, warm           {_each(lambda: [run.predict() for run in runs], len(runs)):10.1f} us"
    )
    each = _each(lambda: [decide(one) for one in questions], JOBS)
    print(f"one question decided (all candidates)    {each:10.1f} us")
    print(f"{JOBS:,} different questions decided      {each * JOBS / 1e6:10.2f} s")
    documents = [_document(number) for number in range(JOBS // 10)]
    context = SizingContext(
        tables=TABLES,
        kinds=BUILT_IN,
        settings=SizingSettings(),
        answers=Answers(),
        file=lambda _: None,
        config_map=lambda _: None,
    )
    whole = _each(lambda: [size_job(one, context) for one in documents], len(documents))
    print(f"job file: line read, decided, rewritten  {whole:10.1f} us")
    _peers(questions[0], each)
    return 0


def _each(work: Callable[[], object], count: int, rounds: int = _ROUNDS) -> float:
    """Return microseconds of one of `count` pieces of work, in the fastest of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / count * 1e6


def _questions() -> list[Question]:
    """Return questions that differ, over all models that ado-autoconf knows, two methods and two GPUs."""
    models = [model for model in MODEL_TABLE if model.autoconf]
    gpus = [gpu for name in ("NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S") if (gpu := GPU_TABLE.find(name))]
    return [
        _question(
            number,
            Training(
                model=models[number % len(models)].name,
                architecture=models[number % len(models)],
                method=(Method.FULL, Method.LORA)[number // len(models) % 2],
                sequence=512 + number % 7_680,
            ),
            gpus[number % 2],
        )
        for number in range(JOBS)
    ]


def _question(number: int, training: Training, gpu: Gpu) -> Question:
    return Question(training=training, gpu=gpu, batch=1 << number % 5, processes=8)


def _document(number: int) -> Document:
    text = _JOB.format(number=number, sequence=512 + number, batch=1 + number % 8)
    return read(f"jobs/{number}.yaml", text.encode()).documents[0]


def _peers(question: Question, ours: float) -> None:
    """Ask a process a question, as the autoconf controller does; an empty script tells what that costs by itself."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "wrapper.py"
        for name, text, python in (
            ("a script that knows nothing", _SCRIPT, sys.executable),
            ("ado-autoconf in a script", _ADO, os.environ.get("ADO_AUTOCONF_PYTHON", "").split(":")[0]),
        ):
            if not python:
                continue
            script.write_text(text)
            with WrapperPredictor(script, python=python) as wrapper:
                start = time.perf_counter()
                for _ in range(_CALLS):
                    wrapper.predict(engine_question(question))
                each = (time.perf_counter() - start) / _CALLS * 1e6
            print(f"peer: {name:<35}{each:10.0f} us {each / ours:10,.0f} x one question decided")


if __name__ == "__main__":
    sys.exit(main())
