"""Programs that judge the chart; a test that needs one skips where it is not built."""

from pathlib import Path

from tests.cluster.build import part, part_is_built
from tests.cluster.fixtures import left_out
from tests.cluster.parts import Part


def program(what: Part) -> Path:
    """Return the program of a part that has one."""
    if not part_is_built(what):
        left_out(f"{what.name} is not built; `python -m tests.cluster.build {what.name}` builds it once")
    (name,) = (name for name, _ in what.programs)
    return part(what) / name
