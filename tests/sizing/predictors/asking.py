"""Questions for the stand-in of ado-autoconf, and what processes leave behind."""

import os
import time
from pathlib import Path
from typing import Any

from reconciler.sizing.question import EngineQuestion

STANDIN = Path(__file__).with_name("standin")
LAYOUTS = ((1, 8), (2, 8), (4, 8), (8, 8))


def asked(**changes: Any) -> EngineQuestion:
    """Ask about a model of the stand-in."""
    return EngineQuestion(
        **{
            "model": "small",
            "method": "full",
            "gpu_model": "A",
            "tokens_per_sample": 512,
            "batch_size": 8,
            "per_device_batch_size": 8,
            "max_gpus": 8,
            **changes,
        }
    )


def environ(*, folder: Path = STANDIN, **more: str) -> dict[str, str]:
    """Give an environment in which `folder` holds the library."""
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **more}


def is_gone(pid: int) -> bool:
    """Wait until a process is neither there nor a zombie; give up after a while."""
    for _ in range(500):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False
