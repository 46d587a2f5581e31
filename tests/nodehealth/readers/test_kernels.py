"""The kernels as text: that they assemble, that sums are exact, and that they compute what their checks expect."""

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.nodehealth.readers.cuda.kernels import (
    MEMORY_PTX,
    RECORD_BYTES,
    SCALE,
    SPIN_KERNELS,
    X_PERIOD,
    Y_PERIOD,
    SpinKernel,
    spin_kernels,
)
from reconciler.nodehealth.readers.cuda.measurements import multiprocessors, wrong_sums
from tests.nodehealth.readers.ptx import PtxKernel

KERNELS = st.sampled_from(SPIN_KERNELS)
_SIGNIFICANT = {"f64": 53, "f32": 24}


def _rounded(value: float, kernel: SpinKernel) -> float:
    """Return the value as the accumulator holds it."""
    return value if kernel.value == "f64" else float(struct.unpack("<f", struct.pack("<f", value))[0])


@given(kernel=KERNELS, steps=st.integers(1, 1 << 16), order=st.randoms(use_true_random=False))
def test_sums_are_exact_in_any_order(kernel: SpinKernel, steps: int, order: object) -> None:
    """Every accumulator, and every partial sum of them, is a number that the format holds exactly."""
    growth = float(kernel.growth) / kernel.chains
    sums = [_rounded(start + growth * steps, kernel) for start in range(kernel.chains)]
    assert sums == [start + growth * steps for start in range(kernel.chains)]
    order.shuffle(sums)  # type: ignore[attr-defined]
    total = 0.0
    for value in sums:
        total = _rounded(total + value, kernel)
    assert total == kernel.due(steps)


@given(kernel=KERNELS, steps=st.integers(1, 300))
def test_the_closed_form_is_the_sum_of_the_steps(kernel: SpinKernel, steps: int) -> None:
    """Add product by product, as an accumulator does, with rounding after each."""
    products = int(kernel.growth * 1024) // kernel.chains
    sums = [float(chain) for chain in range(kernel.chains)]
    for _ in range(steps * products):
        sums = [_rounded(value + 2.0**-10, kernel) for value in sums]
    assert sum(sums) == kernel.due(steps)


@pytest.mark.parametrize("kernel", SPIN_KERNELS, ids=lambda kernel: kernel.name)
def test_accumulators_leave_bits_to_spare(kernel: SpinKernel) -> None:
    """Tensor cores cut off what does not fit: the largest accumulator leaves two bits above the smallest product."""
    largest = float(kernel.growth) / kernel.chains * kernel.steps + kernel.chains
    assert largest * 1024 < 2 ** (_SIGNIFICANT[kernel.value] - 2)


@given(kernel=KERNELS, bits=st.sets(st.tuples(st.integers(0, 63), st.integers(0, 31)), min_size=1, max_size=5))
def test_every_flipped_bit_is_found(kernel: SpinKernel, bits: set[tuple[int, int]]) -> None:
    due = struct.pack("<d" if kernel.value == "f64" else "<f", kernel.due(kernel.steps))
    raw = bytearray(due * 64)
    assert wrong_sums(bytes(raw), kernel) == []
    for place, bit in bits:
        raw[place * len(due) + bit // 8] ^= 1 << bit % 8
    assert wrong_sums(bytes(raw), kernel) == sorted({place for place, _ in bits})


def test_operations_are_those_of_the_instructions() -> None:
    """A matrix instruction m x n x k makes 2mnk operations, shared by the 32 threads of a warp."""
    for kernel in SPIN_KERNELS:
        operations = 0
        for line in kernel.body:
            sizes = re.search(r"\.m(\d+)n(\d+)k(\d+)\.", line)
            rows, columns, depth = map(int, sizes.groups()) if sizes else (4, 4, 1)
            operations += 2 * rows * columns * depth if sizes else 2 * 32
        assert operations == kernel.operations * 32, kernel.name
    assert [name for name, _ in spin_kernels(9)] == ["fp64", "bf16"]
    assert [name for name, _ in spin_kernels(7)] == ["fp64", "fp32"]


def test_multiprocessors_with_two_blocks_are_left_out() -> None:
    rows = [(unit, 1000, 0, 500) for unit in range(7)] + [(7, 1250, 0, 625), (8, 9000, 0, 500), (8, 9000, 500, 1000)]
    found = multiprocessors(rows, 64_000)
    assert (found["sms"], found["smsAlone"], found["slowestSm"], found["slowestPart"]) == (9, 8, 7, 0.8)
    assert (found["flopPerClock"], found["clockMhz"]) == (64, 2000)
    assert multiprocessors([(1, 5, 0, 1), (1, 5, 1, 2)], 8) == {"sms": 1, "smsAlone": 0}
    assert "clockMhz" not in multiprocessors([(1, 5, 7, 7)], 8)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"])
def test_the_kernels_assemble(architecture: str, tmp_path: Path) -> None:
    """The text is valid for the architecture, by the vendor's assembler."""
    assembler = shutil.which("ptxas")
    if assembler is None:
        pytest.skip("left out: ptxas (CUDA toolkit) is not installed")
    texts = {"memory": MEMORY_PTX} | {
        kernel.name: kernel.ptx for kernel in SPIN_KERNELS if kernel.unit == "vector" or architecture != "sm_75"
    }
    for name, text in texts.items():
        source = tmp_path / f"{name}.ptx"
        source.write_text(text)
        done = subprocess.run(
            [assembler, f"-arch={architecture}", str(source), "-o", str(tmp_path / "out")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"


def test_the_sums_of_daxpy_are_exact() -> None:
    """The largest element after the most launches is far below 2^53."""
    assert 255 + SCALE * 1023 * 1000 < 2**53


@settings(max_examples=15)
@given(
    pairs=st.integers(1, 530),
    launches=st.integers(1, 3),
    blocks=st.integers(1, 3),
    threads=st.sampled_from([1, 32, 96]),
)
def test_daxpy_computes_what_its_check_expects(pairs: int, launches: int, blocks: int, threads: int) -> None:
    """Run the text of the kernels: fill, daxpy some times, count. Every element is touched, and nothing beside them."""
    count = 2 * pairs
    size = 8 * count
    memory = bytearray(b"\xee" * (2 * size + 16 + 64))
    x, y, counter = 0, size, 2 * size
    memory[counter : counter + 8] = bytes(8)
    beside = memory[counter + 8 :]
    PtxKernel(MEMORY_PTX, "fill").launch(memory, blocks, threads, [x, y, count])
    for _ in range(launches):
        PtxKernel(MEMORY_PTX, "daxpy").launch(memory, blocks, threads, [SCALE, x, y, pairs])
    values = struct.unpack_from(f"<{count}d", memory, y)
    due = [i % Y_PERIOD + launches * SCALE * (i % X_PERIOD) for i in range(count)]
    assert [*values] == due
    assert memory[counter + 8 :] == beside

    def wrong(total: float) -> int:
        memory[counter : counter + 8] = bytes(8)
        PtxKernel(MEMORY_PTX, "count_wrong").launch(memory, blocks, threads, [total, y, count, counter])
        return int(struct.unpack_from("<Q", memory, counter)[0])

    assert wrong(SCALE * launches) == 0
    struct.pack_into("<d", memory, y, values[0] + 1)
    struct.pack_into("<d", memory, y + 8 * (count - 1), float("nan"))
    assert wrong(SCALE * launches) == 2
    assert (
        wrong(SCALE * (launches + 1)) == sum(1 for i in range(count) if i % X_PERIOD) + 1
    )  # element 0 is wrong as well


@pytest.mark.parametrize("kernel", SPIN_KERNELS, ids=lambda kernel: kernel.name)
def test_spin_kernels_compute_what_is_due(kernel: SpinKernel) -> None:
    """Run the text of the kernel: the sum of every thread, and one record for each block."""
    blocks, threads, steps = 2, 3, 50
    sums = blocks * threads * kernel.value_bytes
    start = -(-sums // 8) * 8
    memory = bytearray(start + blocks * RECORD_BYTES)
    arguments = [0, start, steps, kernel.left, kernel.right]
    PtxKernel(kernel.ptx, kernel.name).launch(memory, blocks, threads, arguments)
    code = "d" if kernel.value == "f64" else "f"
    assert struct.unpack_from(f"<{blocks * threads}{code}", memory) == (kernel.due(steps),) * blocks * threads
    records = [*struct.iter_unpack("<4Q", memory[start:])]
    assert [row[0] for row in records] == [0, 1]
    assert all(row[1] > 0 and row[3] - row[2] > row[1] - 100 for row in records)
    assert multiprocessors(records, 1)["smsAlone"] == blocks
    lines = kernel.ptx.splitlines()
    clocks = [number for number, line in enumerate(lines) if "%clock64" in line]
    assert ["bar.sync" in "".join(lines[number - 2 : number]) for number in clocks] == [True, True]  # all warps count
