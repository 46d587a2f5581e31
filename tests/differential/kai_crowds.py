"""Random crowds for KAI: departments, queues, and gangs that run and wait on nodes with GPUs."""

from dataclasses import dataclass
from random import Random
from typing import Any

Body = dict[str, Any]
_NODE = 8  # GPUs of a node
UNLIMITED = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiCrowd:
    """What the program around KAI's scheduler is asked: nodes, queues of two levels, and jobs."""

    nodes: dict[str, int]
    departments: list[Body]
    queues: list[Body]
    jobs: list[Body]

    @property
    def question(self) -> Body:
        """The crowd as the program reads it."""
        return {"nodes": self.nodes, "departments": self.departments, "queues": self.queues, "jobs": self.jobs}


def kai_crowd(seed: int) -> KaiCrowd:
    """Return the crowd of a seed."""
    random = Random(seed)  # noqa: S311 - no secret
    nodes = {f"n{number}": _NODE for number in range(random.randint(1, 4))}
    total = _NODE * len(nodes)
    departments = [
        {"name": f"d{number}", "quota": float(total), "limit": UNLIMITED} for number in range(random.choice((1, 1, 2)))
    ]
    if len(departments) > 1:
        half = float(random.randint(1, total - 1))
        departments[0]["quota"], departments[1]["quota"] = half, total - half
    queues = [
        {
            "name": f"q{number}",
            "parent": random.choice(departments)["name"],
            "quota": float(random.choice((0, 2, 4, 8, 16))),
            "limit": random.choice((UNLIMITED, UNLIMITED, 16.0, 24.0)),
            "weight": float(random.choice((1, 1, 2, 3))),
        }
        for number in range(random.randint(1, 4))
    ]
    free = dict(nodes)
    count = random.choice((2, 4, 8, 12))
    ages = random.sample(range(1, 500), count)
    jobs = [_job(random, number, ages[number], queues, free) for number in range(count)]
    return KaiCrowd(nodes=nodes, departments=departments, queues=queues, jobs=jobs)


def _job(random: Random, number: int, age: int, queues: list[Body], free: dict[str, int]) -> Body:
    gpus, pods = random.choice((1, 2, 4, 8)), random.choice((1, 1, 2, 3))
    job: Body = {
        "name": f"j{number:02}",
        "queue": random.choice(queues)["name"],
        "pods": pods,
        "gpus": gpus,
        "priority": random.choice((50, 50, 50, 75, 100)),
        "age": age,
        "nodes": [],
    }
    if random.random() < 0.6:
        nodes: list[str] = []
        left = dict(free)
        for _ in range(pods):
            node = next((name for name, room in left.items() if room >= gpus), "")
            if not node:
                return job
            left[node] -= gpus
            nodes.append(node)
        free.update(left)
        job["nodes"] = nodes
    return job
