"""The two recommenders, over a forest of one tree; what a model is called decides how it misbehaves."""

import contextlib
import logging
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

pandas: Any = import_module("pandas")  # the one beside this package
logging.basicConfig(level=logging.INFO)
sys.stdout.write("the library greets on standard output\n")
if os.environ.get("STANDIN_STARTS"):
    with Path(os.environ["STANDIN_STARTS"]).open("a", encoding="utf-8") as starts:
        starts.write(f"{os.getpid()}\n")
if os.environ.get("STANDIN_IMPORT") == "hang":
    time.sleep(1000)
if os.environ.get("STANDIN_IMPORT") == "fail":
    raise ImportError("the library\nis broken")


def _property(identifier: str, values: list[str] | None = None, limits: list[int] | None = None) -> Any:
    domain = SimpleNamespace(values=values, domainRange=limits)
    return SimpleNamespace(identifier=identifier, propertyDomain=domain)


MODELS = ["small", "big", "alias"]
UNRULY = [
    "hang",
    "die",
    "die-once",
    "rubbish",
    "two-lines",
    "wrong-id",
    "endless",
    "grow",
    "loud",
    "family",
    "fail",
    "nan",
]
if os.environ.get("STANDIN_UNRULY"):
    MODELS += UNRULY
ModelName = _property("model_name", MODELS)
TuningMethod = _property("method", ["full", "lora"])
GPUModel = _property("gpu_model", ["A", "B"])
ModelVersion = _property("model_version", ["3.1.0"])
TokensPerSample = _property("tokens_per_sample", limits=[1, 10_000_001])
BatchSize = _property("batch_size", limits=[1, 10_000_001])
GPUsPerWorker = _property("gpus_per_worker", limits=[1, 10_000_001])
MaxGPUs = _property("max_gpus", limits=[1, 10_000_001])
NumberGPUs = _property("number_gpus", limits=[1, 1025])


class Predictor:
    def predict_proba(self, frame: Any) -> dict[int, Any]:
        return {1: pandas.Column(self._probability(row) for row in frame.rows)}

    def _probability(self, row: dict[str, Any]) -> float:
        gpus: int = row["number_gpus"]
        tokens: int = row["tokens_per_sample"]
        batch: int = row["batch_size"]
        if row["model_name"] == "nan":
            return float("nan")
        need = 4 if row["model_name"] == "big" else 1
        need *= 2 if row["method"] == "full" and tokens > 1024 else 1
        chance = 0.1 + 0.2 * (gpus > 1.5) + 0.3 * (gpus > 3) + 0.3 * (gpus > 6) + 0.05 * (batch <= 7.5)
        return float(chance / need**0.25)


def load_model(model_version: str) -> Predictor:
    if model_version != "3.1.0":
        raise ValueError("Unknown model_version", model_version)
    return Predictor()


def min_gpu_recommender(*, gpus_per_worker: int = 8, max_gpus: int = 8, **row: Any) -> dict[str, Any]:
    _check(row | {"gpus_per_worker": gpus_per_worker, "max_gpus": max_gpus})
    _misbehave(row["model_name"])
    row["model_name"] = "big" if row["model_name"] == "alias" else row["model_name"]
    powers = [1 << n for n in range(20) if 1 << n <= max_gpus]
    return _first([(n, row["batch_size"]) for n in powers if row["batch_size"] % n == 0], row, gpus_per_worker)


def avoid_oom_recommender(
    *, number_gpus: int, gpus_per_worker: int = 8, max_gpus: int = 64, **row: Any
) -> dict[str, Any]:
    each = row["per_device_train_batch_size"]
    _check({**row, "number_gpus": number_gpus, "gpus_per_worker": gpus_per_worker, "max_gpus": max_gpus})
    if row["model_name"] == "fail":
        return {"can_recommend": False, "gpus": -1, "workers": -1}
    powers = [1 << n for n in range(20) if number_gpus < 1 << n <= max_gpus]
    return _first([(n, n * each) for n in (number_gpus, *powers)], row, gpus_per_worker)


def _first(tried: list[tuple[int, int]], row: dict[str, Any], gpus_per_worker: int) -> dict[str, Any]:
    for gpus, batch in tried:
        if Predictor()._probability(row | {"number_gpus": gpus, "batch_size": batch}) >= 0.5:
            workers = -(-gpus // gpus_per_worker)
            return {"can_recommend": True, "gpus": -(-gpus // workers), "workers": workers}
    return {"can_recommend": False}


def _check(row: dict[str, Any]) -> None:
    for name in (ModelName, TuningMethod, GPUModel, ModelVersion):
        if row[name.identifier] not in name.propertyDomain.values:
            raise ValueError("do not match required/optional properties")
    for limited in (TokensPerSample, BatchSize, GPUsPerWorker, MaxGPUs, NumberGPUs):
        low, end = limited.propertyDomain.domainRange
        if not low <= row.get(limited.identifier, low) < end:
            raise ValueError("do not match required/optional properties")


def _misbehave(model: str) -> None:
    manners = {
        "hang": lambda: time.sleep(1000),
        "die": lambda: os._exit(3),
        "die-once": _die_once,
        "rubbish": lambda: _say(b"rubbish\n"),
        "two-lines": lambda: _say(b'{"id": 2, "outcome": "recommendation", "gpus": 1, "workers": 1}\n{"id": 2}\n'),
        "wrong-id": lambda: _say(b'{"id": 999, "outcome": "recommendation", "gpus": 1, "workers": 1}\n'),
        "endless": _endless,
        "grow": _grow,
        "loud": _loud,
        "family": _family,
        "fail": _fail,
    }
    manners.get(model, lambda: None)()


def _say(line: bytes) -> None:
    """Write to every descriptor that may be the way out."""
    for descriptor in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(descriptor, line)
    time.sleep(1000)


def _endless() -> None:
    while True:
        for descriptor in range(3, 20):
            with contextlib.suppress(OSError):
                os.write(descriptor, b"x" * 65536)


def _die_once() -> None:
    marker = Path(os.environ["STANDIN_MARKER"])
    if not marker.exists():
        marker.touch()
        os._exit(3)


def _grow() -> None:
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 20) * 16))


def _loud() -> None:
    sys.stdout.write("loud" * 100_000 + "\n")
    sys.stderr.write("loud" * 100_000 + "\n")
    os.write(1, b"loud" * 100_000 + b"\n")


def _family() -> None:
    grandchild = subprocess.Popen(["sleep", "1000"])
    Path(os.environ["STANDIN_MARKER"]).write_text(str(grandchild.pid), encoding="utf-8")
    time.sleep(1000)


def _fail() -> None:
    raise RuntimeError("the library\nfailed with \x1b[31mcolours")
