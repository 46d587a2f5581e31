"""The real mix: lengths, kinds and styles as in config repositories of teams that train and serve models.

The shapes lie beside this module as YAML with `<names>` to fill in. `%? SHARE` begins lines that only so many of the
files have, `%1` alternatives that `%|` separates; `%.` ends either.
"""

import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

Values = dict[str, str]

# Documents of each kind in a hundred; a Deployment's file holds its Service too, and each team has a queue.
_WEIGHTS = {"torchrunjob": 35, "pytorchjob": 25, "deployment": 13, "configmap": 14}
_DOCUMENTS = {"deployment": 2}
_FOLDERS = {"torchrunjob": "jobs", "pytorchjob": "jobs", "deployment": "manifests", "configmap": "manifests"}
_JOBS_PER_QUEUE = 50

# How plain objects name their queue under each backend: label of jobs; of Deployments, label, pods' label, scheduler.
_QUEUED = {
    "kai": (
        "kai.scheduler/queue",
        "",
        "        kai.scheduler/queue: <queue>\n",
        "      schedulerName: kai-scheduler\n",
    ),
    "kueue": ("kueue.x-k8s.io/queue-name", "    kueue.x-k8s.io/queue-name: <queue>\n", "", ""),
    "none": ("example.com/queue", "", "", ""),
}
_MODELS = {
    "llama-8b": "meta-llama/Llama-3.1-8B",
    "granite-8b": "ibm-granite/granite-3.1-8b-base",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "qwen-14b": "Qwen/Qwen2.5-14B",
    "mixtral": "mistralai/Mixtral-8x7B-v0.1",
    "gemma-2b": "google/gemma-2-2b",
}
_DATASETS = ("fineweb-edu", "support-tickets", "code-review", "medical-notes", "speech-2025", "product-images")
_GOALS = (
    "Pre-training from the last checkpoint, with the new data mixture.",
    "Ablation of the tokenizer: everything else as in the run before.",
    "Nightly fine-tuning; the evaluation picks up the checkpoint in the morning.",
    "Sweep over the learning rate, one file a value. Delete it when the sweep is done.",
)


def files(count: int, *, backend: str, seed: int) -> Iterator[tuple[str, str]]:
    """Yield path and text of the source files."""
    chance = random.Random(seed)
    teams = [f"team-{number:03}" for number in range(max(2, count // _JOBS_PER_QUEUE))]
    for team in teams:
        yield f"queues/{team}.yaml", _made("torchrunqueue", _values(chance, team, 0, f"{team}-train", backend), chance)
    made = len(teams)
    number = 0
    while made < count:
        team = teams[number % len(teams)]
        kind = chance.choices(tuple(_WEIGHTS), weights=tuple(_WEIGHTS.values()))[0]
        name = f"{kind.removeprefix('torchrun')}-{number:05}"
        text = _made(kind, _values(chance, team, number, name, backend), chance)
        yield f"{_FOLDERS[kind]}/{team}/{name}.yaml", text
        made += _DOCUMENTS.get(kind, 1)
        number += 1


def _values(chance: random.Random, team: str, number: int, name: str, backend: str) -> Values:
    model = chance.choice(tuple(_MODELS))
    label, own, pod, scheduler = _QUEUED[backend]
    return {
        "name": name,
        "team": team,
        "queue": f"{team}-train",
        "queue_label": label,
        "own_queue": own.replace("<queue>", f"{team}-train"),
        "pod_queue": pod.replace("<queue>", f"{team}-train"),
        "pod_scheduler": scheduler,
        "run": f"{number:05}",
        "model": model,
        "hub": _MODELS[model],
        "package": model.replace("-", "_"),
        "dataset": chance.choice(_DATASETS),
        "goal": chance.choice(_GOALS),
        "priority": chance.choice(("research", "production", "nightly")),
        "gpus": str(chance.choice((1, 2, 4, 8, 8, 16, 16, 32, 64))),
        "per_node": str(chance.choice((1, 2, 4, 8, 8))),
        "epochs": str(chance.randrange(1, 100)),
        "batch": str(chance.randrange(1, 64)),
        "length": str(chance.choice((2048, 4096, 8192))),
        "rate": f"{chance.randrange(1, 90) / 1e6:.6f}",
        "restarts": str(chance.randrange(5)),
        "replicas": str(chance.randrange(1, 6)),
        "minor": str(chance.randrange(1, 10)),
        "cost": str(chance.randrange(4000, 5000)),
        "ticket": str(chance.randrange(100, 9000)),
        "commit": f"{chance.getrandbits(160):040x}",
    }


def _made(kind: str, values: Values, chance: random.Random) -> str:
    text = _chosen(iter(_shape(kind)), chance)
    return re.sub(r"^<(\w+)>\n|<(\w+)>", lambda match: values[match[1] or match[2]], text, flags=re.MULTILINE)


@cache
def _shape(kind: str) -> list[str]:
    return (Path(__file__).parent / "shapes" / f"{kind}.yaml").read_text().splitlines(keepends=True)


def _chosen(lines: Iterator[str], chance: random.Random, share: float | None = None) -> str:
    """Read up to `%.` or the end; of optional lines, and of alternatives, make a choice."""
    parts = [""]
    for line in lines:
        mark = line[:2]
        if mark == "%.":
            break
        if mark == "%|":
            parts.append("")
        elif mark in {"%?", "%1"}:
            parts[-1] += _chosen(lines, chance, float(line[2:]) if mark == "%?" else None)
        else:
            parts[-1] += line
    if share is not None and chance.random() >= share:
        return ""
    return chance.choice(parts)
