"""The child process of `InstalledPredictor`: reads requests and writes answers, one line of JSON each.

The interpreter that has ado-autoconf runs this file as a script, until its input ends. The file needs only that library
and also runs on Python 3.10. Whatever the library prints goes to standard error. What its domain check rejects
(`ValueError`) is out of its domain.
"""

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # this folder: its modules must not shadow others

import importlib
import inspect
import json
import logging
import os
import threading
from importlib import metadata
from pathlib import Path
from queue import SimpleQueue
from typing import Any

MODULE = "autoconf.min_gpu_recommender"
PACKAGES = ("ado-autoconf", "ado-core")
NUMBERS = ("number_gpus", "tokens_per_sample", "batch_size")


class Library:
    """The installed ado-autoconf, imported."""

    def __init__(self) -> None:
        package = importlib.import_module("autoconf")
        if not Path(str(package.__file__)).with_name("AutoGluonModels").is_dir():
            raise RuntimeError("this release of ado-autoconf has no model (it would train one): install 1.9.7")
        try:
            self._module = importlib.import_module(MODULE)
        except ModuleNotFoundError as error:
            if error.name == "orchestrator":  # the module of ado-core before release 2
                raise RuntimeError(
                    "this release of ado-autoconf needs an older ado: pip install 'ado-core<2'"
                ) from error
            raise
        self._canonical_name = importlib.import_module("autoconf.utils.config_mapper").map_valid_model_name
        self._frame = importlib.import_module("pandas").DataFrame
        logging.disable(logging.CRITICAL)  # after the import, which sets up logging
        # Releases that take the user's number of GPUs look up names unchanged; older ones rename them first.
        self._accepts_gpus = "number_gpus" in inspect.signature(self._module.avoid_oom_recommender).parameters

    def hello(self) -> dict[str, Any]:
        """Return the versions of the packages."""
        versions = {}
        for name in PACKAGES:
            try:
                versions[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return {"versions": versions}

    def load(self, version: str) -> dict[str, Any]:
        """Load a model, which takes longer than an answer. An unknown version is left to the domain check."""
        module = self._module
        names = [each.propertyDomain.values[0] for each in (module.ModelName, module.TuningMethod, module.GPUModel)]
        if version in module.ModelVersion.propertyDomain.values:
            self.probabilities(version, [[*names, 1, 1024, 8]])
        return {}

    def recommend(
        self, recommender: str, inputs: dict[str, Any], bounds: dict[str, int], layouts: list[list[int]]
    ) -> dict[str, Any]:
        """Return the recommendation, and the probability that each layout (GPUs, batch) fits into memory."""
        accepted = {name: value for name, value in inputs.items() if name != "number_gpus" or self._accepts_gpus}
        try:
            answer = getattr(self._module, recommender)(**accepted, **bounds)
        except ValueError:
            return {"outcome": "refusal", "text": self._rejected_inputs(inputs)}
        model = inputs["model_name"]
        if recommender == "min_gpu_recommender" or not self._accepts_gpus:
            model = self._canonical_name(model)
        names, tokens = [model, inputs["method"], inputs["gpu_model"]], inputs["tokens_per_sample"]
        rows = [[*names, gpus, tokens, batch] for gpus, batch in layouts]
        probabilities = self.probabilities(inputs["model_version"], rows)["probabilities"] if rows else []
        chances = [[*layout, probability] for layout, probability in zip(layouts, probabilities, strict=True)]
        if answer["can_recommend"]:
            gpus, workers = int(answer["gpus"]), int(answer["workers"])
            return {"outcome": "recommendation", "gpus": gpus, "workers": workers, "chances": chances}
        if answer.get("gpus", 0) == -1:  # how one of its recommenders reports a failure
            raise RuntimeError("ado-autoconf failed without a reason")
        return {"outcome": "refusal", "chances": chances}

    def _rejected_inputs(self, inputs: dict[str, Any]) -> str:
        """Name what the domain check rejected; the library itself only logs it."""
        module = self._module
        known = (module.ModelName, module.TuningMethod, module.GPUModel, module.ModelVersion)
        unknown = [
            f"{name.identifier} {inputs[name.identifier]!r}"
            for name in known
            if inputs[name.identifier] not in name.propertyDomain.values
        ]
        return f"ado-autoconf does not know {', '.join(unknown)}" if unknown else "a number is out of range"

    def probabilities(self, version: str, rows: list[list[Any]]) -> dict[str, Any]:
        """Return the probability that each run (model, method, gpu, gpus, tokens, batch) fits into memory."""
        predictor = self._module.load_model(version)
        return {"probabilities": [float(p) for p in predictor.predict_proba(self._data_frame(rows))[1].tolist()]}

    def _data_frame(self, rows: list[list[Any]]) -> Any:
        return self._frame(rows, columns=["model_name", "method", "gpu_model", *NUMBERS])


def _read_lines(lines: SimpleQueue[bytes]) -> None:
    """Queue the lines of the input. At its end the parent is gone, so the process exits, whatever it does."""
    rest = b""
    while chunk := os.read(0, 1 << 16):
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            lines.put(line)
    os._exit(0)


def main() -> None:
    """Answer every line."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the library prints are messages
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_lines, args=(lines,), daemon=True).start()
    library = None
    while True:
        request = json.loads(lines.get())
        try:
            library = library or Library()
            answer = getattr(library, request["method"])(*request["arguments"])
        except Exception as error:  # noqa: BLE001 - sent to the parent
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        line = json.dumps({"id": request["id"], **answer}).encode() + b"\n"
        while line:
            line = line[answers.write(line) :]


if __name__ == "__main__":
    main()
