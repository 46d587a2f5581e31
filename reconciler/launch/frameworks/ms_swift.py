"""ms-swift: https://swift.readthedocs.io."""

from reconciler.launch.framework import Extraction
from reconciler.launch.launchers import read_variables


def read_processes(extraction: Extraction) -> None:
    """Read the counts. Without NPROC_PER_NODE, one process places the layers on all visible GPUs."""
    read_variables(extraction)
    extraction.set_default("processes", "1", "ms-swift without NPROC_PER_NODE")
    visible = extraction.line.env.get("CUDA_VISIBLE_DEVICES") or ""
    if "processes" in extraction.defaults and "," in visible:
        message = (
            f"CUDA_VISIBLE_DEVICES={visible} without NPROC_PER_NODE: one process places the layers on several GPUs"
        )
        extraction.reject("processes", message, None, "set NPROC_PER_NODE")
