"""What a pipeline runs: the scripts of its file, of the actions of its repository, and of the files that it includes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

PUSH, REQUEST = "push", "pull_request"
_GITLAB = {PUSH: '== "push"', REQUEST: "merge_request_event"}


def scripts(root: Path, path: str, event: str = REQUEST) -> dict[str, str]:
    """Return the scripts by name of what a file of a repository runs at an event, without the installation."""
    documents: list[dict[str, Any]] = [
        one for one in yaml.safe_load_all((root / path).read_text()) if "spec" not in one
    ]
    (file,) = documents
    if "runs" in file:
        return _steps(root, file["runs"]["steps"], event)
    if "jobs" in file:
        return _steps(root, [step for job in file["jobs"].values() for step in job["steps"]], event)
    found: dict[str, str] = {}
    for included in file.get("include", ()):
        found |= scripts(root, included["local"], event)
    for name, job in file.items():
        if isinstance(job, dict) and "script" in job and any(_GITLAB[event] in rule["if"] for rule in job["rules"]):
            found[name.rpartition("-")[2].title()] = "\n".join(job["script"])
    return found


def _steps(root: Path, steps: list[Mapping[str, Any]], event: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for step in steps:
        condition = step.get("if", "")
        if (event == PUSH and "!= 'push'" in condition) or (event != PUSH and "== 'push'" in condition):
            continue
        if str(step.get("uses", "")).startswith("./"):
            found |= scripts(root, f"{step['uses']}/action.yml", event)
        elif "run" in step and "pip install" not in step["run"]:
            found[step["name"]] = step["run"]
    return found
