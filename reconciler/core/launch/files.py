"""Files that launch lines name: a model's `config.json`, configurations of accelerate, DeepSpeed and frameworks.

They are not Kubernetes objects. A source folder may hold them; they are read for sizing and never rendered.
"""

from collections.abc import Iterable, Mapping
from typing import Any

_TELLING = frozenset(
    {
        "model_type",  # config.json of a model
        "architectures",
        "distributed_type",  # accelerate
        "compute_environment",
        "zero_optimization",  # DeepSpeed
        "base_model",  # axolotl
        "model_name_or_path",  # LLaMA-Factory, TRL
        "checkpoint_dir",  # litgpt
        "tokenizer",  # torchtune
    }
)


def is_configuration(data: Mapping[str, Any]) -> bool:
    """Whether a document is a configuration that launch lines name: by its keys, and because it claims no kind."""
    return "apiVersion" not in data and "kind" not in data and not _TELLING.isdisjoint(data)


def resolve_file(written: str, paths: Iterable[str], near: str) -> str | None:
    """Return the path in the repository of a file that a launch line names as it is mounted in the container.

    Of the files with the same name, the one whose folders agree the longest with what is written wins, then the one
    in the job's own folder (`near` is the job's path); None where there is none, or where two are equally good.
    """
    wanted = [part for part in written.split("/") if part not in {"", ".", ".."}]
    if not wanted:
        return None
    scored: dict[tuple[int, bool], list[str]] = {}
    folder = near.rpartition("/")[0]
    for path in paths:
        parts = path.split("/")
        if parts[-1] == wanted[-1]:
            score = (_agreement(parts, wanted), path.rpartition("/")[0] == folder)
            scored.setdefault(score, []).append(path)
    best = scored[max(scored)] if scored else []
    return best[0] if len(best) == 1 else None


def _agreement(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count
