"""Tables: compiled from a stand-in of ado-autoconf, read back, damaged, and compared with what they were made of."""

import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.adapters.predictors.compile import compile_table
from reconciler.adapters.predictors.installed import InstalledPredictor
from reconciler.adapters.predictors.recommender import candidate_layouts
from reconciler.adapters.predictors.table import MAGIC, Table, TablePredictor, read_table
from reconciler.core.config import Goal
from reconciler.core.engines import AUTOCONF_TABLE, Outcome
from reconciler.errors import ConfigError, PredictorError
from tests.ports.predictors.asking import LAYOUTS, asked, environ

if TYPE_CHECKING:
    from reconciler.ports import Predictor

POINTS = 2000


@pytest.fixture(scope="module")
def installed() -> Iterator[InstalledPredictor]:
    with InstalledPredictor(environ=environ(), call_seconds=60, start_seconds=60) as found:
        yield found


@pytest.fixture(scope="module")
def table(installed: InstalledPredictor) -> Table:
    return compile_table(installed, points=POINTS)


def test_it_says_what_the_model_says(installed: InstalledPredictor, table: Table) -> None:
    """F-006, F-007: the same recommendations and the same chances, to the last bit."""
    found: Predictor = TablePredictor(table)
    assert found.engine == AUTOCONF_TABLE
    assert found.versions() == {"ado-autoconf": "1.9.7", "model": "3.1.0"}
    questions = [
        asked(),
        asked(batch_size=6),
        asked(model="big", tokens_per_sample=1024, gpus_per_worker=2),
        asked(model="big", tokens_per_sample=1025, max_gpus=64),
        asked(model="alias", batch_size=7),
        asked(model="alias", goal=Goal.AVOID_OOM, number_gpus=3),
        asked(goal=Goal.AVOID_OOM, number_gpus=5),
        asked(goal=Goal.AVOID_OOM, number_gpus=2000),
        asked(gpu_model="toaster", method="qlora"),
        asked(tokens_per_sample=10_000_001),
        asked(batch_size=0, gpu_model="B"),
    ]
    for question in questions:
        for layouts in ((), LAYOUTS, candidate_layouts(question)):
            said, expected = found.predict(question, layouts), installed.predict(question, layouts)
            names = ("outcome", "gpus", "workers", "chances", "text", "versions")
            assert [getattr(said, name) for name in names] == [getattr(expected, name) for name in names]


@given(
    gpus=st.integers(1, 100),
    tokens=st.integers(1, 5000),
    batch=st.integers(1, 100),
    model=st.sampled_from(("small", "big")),
)
def test_every_number_falls_into_its_cell(table: Table, gpus: int, tokens: int, batch: int, model: str) -> None:
    chance = 0.1 + 0.2 * (gpus > 1.5) + 0.3 * (gpus > 3) + 0.3 * (gpus > 6) + 0.05 * (batch <= 7.5)
    need = (4 if model == "big" else 1) * (2 if tokens > 1024 else 1)
    assert table.probability(model, "full", "A", (gpus, tokens, batch)) == chance / need**0.25


def test_it_survives_the_file(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "a.table"
    path.write_bytes(table.to_bytes())
    again = read_table(path)
    assert again.header == table.header
    assert again.to_bytes() == table.to_bytes()
    assert again.digest == table.digest == sha256(table.to_bytes().partition(b"\n")[2]).hexdigest()
    assert TablePredictor(again).predict(asked(), LAYOUTS) == TablePredictor(table).predict(asked(), LAYOUTS)
    assert table.header.points == POINTS
    assert table.header.cells == 3 * 2 * 2 * 4 * 2 * 2


def test_compiling_twice_gives_the_same_bytes(installed: InstalledPredictor, table: Table) -> None:
    assert compile_table(installed, points=POINTS).to_bytes() == table.to_bytes()


def test_another_version_of_the_model_is_an_error(table: Table) -> None:
    with pytest.raises(PredictorError, match=r"the table is for model 3.1.0; the question is for model 3.0.0"):
        TablePredictor(table).predict(asked(model_version="3.0.0"))


@given(at=st.integers(0), flip=st.integers(1, 255))
def test_any_damage_is_found(table: Table, at: int, flip: int) -> None:
    raw = bytearray(table.to_bytes())
    raw[at % len(raw)] ^= flip
    with pytest.raises(PredictorError):
        Table.from_bytes(bytes(raw))


@given(size=st.integers(0))
def test_half_a_file_is_found(table: Table, size: int) -> None:
    raw = table.to_bytes()
    with pytest.raises(PredictorError):
        Table.from_bytes(raw[: size % len(raw)])


def forged(table: Table, packed: bytes | None = None, **changes: Any) -> bytes:
    """Make a file with a true digest that makes no sense."""
    rest = table.to_bytes().partition(b"\n")[2]
    line, _, old = rest.partition(b"\n")
    header = msgspec.json.decode(line) | changes
    rest = msgspec.json.encode(header) + b"\n" + (old if packed is None else packed)
    return MAGIC + sha256(rest).hexdigest().encode() + b"\n" + rest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"models": ["small"]}, "cannot be read"),
        ({"models": [], "renamed": {}}, "0 cells"),
        ({"models": [str(number) for number in range(100_000)], "renamed": {}}, "19200000 cells|6400000 cells"),
        ({"borders": [[], [], []]}, "cannot be read"),
        ({"surprise": 1}, "cannot be read"),
        ({"threshold": "high"}, "cannot be read"),
        ({"threshold": 2.0}, "not valid"),
        ({"renamed": {"small": "nobody"}}, "not valid"),
        ({"ranges": {}}, "ranges"),
        ({"borders": [[3.0, 1.5, 6.0], [1024.0], [7.5]]}, "not in ascending order"),
        ({"packed": b""}, "has 0 cells, expected 192"),
        ({"packed": zlib.compress(b"\0" * 7)}, "cannot be read"),
        ({"packed": zlib.compress(b"\xff" * 8 * 192)}, "a cell is not a probability"),
        ({"packed": zlib.compress(b"\0" * (1 << 26))}, "cannot be read"),
        ({"packed": b"no zlib"}, "cannot be read"),
    ],
)
def test_forged_files(table: Table, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PredictorError, match=words):
        Table.from_bytes(forged(table, **changes))


@pytest.mark.parametrize(
    "raw", [b"", b"\n", b"PK\x03\x04", MAGIC, MAGIC + b"\n", b"gpu-reconciler autoconf table 2 " + b"0" * 64]
)
def test_files_that_are_no_table(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(raw)
    with pytest.raises(PredictorError, match=str(tmp_path / "a")):
        read_table(tmp_path / "a")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, error, words in (
        (tmp_path / "none", ConfigError, "does not exist"),
        (tmp_path, PredictorError, "Is a directory"),
    ):
        with pytest.raises(error, match=words):
            read_table(path)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PredictorError, match="too large"):
        read_table(tmp_path / "large")


def test_a_model_with_a_network_cannot_be_compiled() -> None:
    with (
        InstalledPredictor(environ=environ(STANDIN_NETWORK="1")) as found,
        pytest.raises(PredictorError, match=r"not only decision trees \(NetworkModel\).*1\.9\.7"),
    ):
        compile_table(found, points=POINTS)


def test_a_model_that_is_not_what_its_trees_say_is_refused() -> None:
    """The comparison can fail: here the model splits between its borders."""
    with (
        InstalledPredictor(environ=environ(STANDIN_SMOOTH="1")) as found,
        pytest.raises(PredictorError, match="differs from the model and was not written"),
    ):
        compile_table(found, points=POINTS)


def test_a_table_is_safe_to_share(table: Table) -> None:
    with TablePredictor(table) as found:
        found.close()
        assert found.predict(asked()).outcome is Outcome.RECOMMENDATION
