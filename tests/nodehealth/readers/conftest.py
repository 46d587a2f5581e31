import os
from pathlib import Path

import pytest

from tests.nodehealth.readers.fakes.library import build


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a fake library of a new driver."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a fake library that lacks the functions of newer drivers."""
    return build(tmp_path_factory.mktemp("old-nvml"), "-DOLD_DRIVER")


@pytest.fixture
def environ(library: Path) -> dict[str, str]:
    """Return an environment with the fake library, and nothing that other tests left."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAKE_")}
    return {**kept, "LD_LIBRARY_PATH": str(library), "NODE_NAME": "node-1"}
