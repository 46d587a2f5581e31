"""The kernels, as PTX that the driver compiles for the GPU at hand, and what each must compute to the last bit.

`daxpy` is memory traffic with a result that is exact: small integers in, small integers out. A spin kernel keeps the
arithmetic units busy with operands 1 and 2^-10: every partial sum is a multiple of 2^-10 that the accumulator holds
exactly, so that the sum of a thread does not depend on any order, and one wrong bit shows.
"""

from fractions import Fraction
from pkgutil import get_data

from msgspec import Struct

THREADS = 256
"""Threads in a block of the memory kernels."""
SPIN_THREADS = 1024
"""Threads in a block of a spin kernel: with one block for each multiprocessor no two share one."""
RECORD_BYTES = 32
"""The record of a spin kernel for each block: multiprocessor, clock cycles, start and end in ns, eight bytes each."""
SCALE = 3.0
"""The factor of daxpy."""
X_PERIOD, Y_PERIOD = 1024, 256
"""Element i of x is i modulo the first, of y at the start i modulo the second: addresses that are mixed up show."""

MEMORY_PTX = (get_data("reconciler", "data/memory.ptx") or b"").decode()

_SPIN_PTX = (get_data("reconciler", "data/spin.ptx") or b"").decode()


class SpinKernel(Struct, frozen=True, kw_only=True):
    """A spin kernel. `operations` counts those of one thread and step; a thread's sum grows by `growth` each step.

    Its accumulators start at 0, 1, 2 …: a compiler may merge those that are always equal.

    `operand` and `value` are PTX types: `f64`, `f32`, or `b32` for two bf16 numbers; `left` is 1, `right` is 2^-10.
    """

    name: str
    unit: str  # `tensor` or `vector`
    operand: str
    value: str
    left: float
    right: float
    body: tuple[str, ...]
    chains: int
    operations: int
    growth: Fraction
    steps: int
    version: str = "6.0"
    target: str = "sm_60"

    @property
    def ptx(self) -> str:
        """The text of the kernel."""
        sums = [f"s{number}" for number in range(self.chains)]
        starts = [f"{float(number):.1f}" for number in range(self.chains)]
        return _SPIN_PTX.format(
            version=self.version,
            target=self.target,
            name=self.name,
            operand=self.operand,
            value=self.value,
            value_bytes=self.value_bytes,
            sums=", ".join(sums),
            first=sums[0],
            starts="\n".join(f"  mov.{self.value} {name}, {start};" for name, start in zip(sums, starts, strict=True)),
            body="\n".join(f"  {line}" for line in self.body),
            folds="\n".join(f"  add.{self.value} s0, s0, {name};" for name in sums[1:]),
        )

    @property
    def value_bytes(self) -> int:
        """The size of a sum."""
        return 8 if self.value == "f64" else 4

    def due(self, steps: int) -> float:
        """Return the sum of each thread after `steps`."""
        return float(self.growth * steps + sum(range(self.chains)))


_DMMA = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
_HMMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
_A, _B = "{left, left, left, left}", "{right, right}"
_BF16_ONE, _BF16_SMALL = 0x3F803F80, 0x3A803A80  # two numbers each: 1 and 2^-10

FP64_TENSOR = SpinKernel(
    name="spin_fp64_tensor",
    unit="tensor",
    operand="f64",
    value="f64",
    left=1.0,
    right=2.0**-10,
    body=(
        f"{_DMMA} {{s0, s1}}, {{left}}, {{right}}, {{s0, s1}};",
        f"{_DMMA} {{s2, s3}}, {{left}}, {{right}}, {{s2, s3}};",
    ),
    chains=4,
    operations=2 * 512 // 32,  # two of 8 x 8 x 4 by the 32 threads of a warp
    growth=Fraction(4 * 4, 1024),
    steps=1 << 16,
    version="7.0",
    target="sm_80",
)
BF16_TENSOR = SpinKernel(
    name="spin_bf16_tensor",
    unit="tensor",
    operand="b32",
    value="f32",
    left=_BF16_ONE,
    right=_BF16_SMALL,
    body=(
        f"{_HMMA} {{s0, s1, s2, s3}}, {_A}, {_B}, {{s0, s1, s2, s3}};",
        f"{_HMMA} {{s4, s5, s6, s7}}, {_A}, {_B}, {{s4, s5, s6, s7}};",
    ),
    chains=8,
    operations=2 * 4096 // 32,  # two of 16 x 8 x 16 by the 32 threads of a warp
    growth=Fraction(8 * 16, 1024),
    steps=1 << 16,  # an accumulator stays below 2^11: 21 of the 24 bits of f32
    version="7.0",
    target="sm_80",
)
FP64_VECTOR = SpinKernel(
    name="spin_fp64_vector",
    unit="vector",
    operand="f64",
    value="f64",
    left=1.0,
    right=2.0**-10,
    body=tuple(f"fma.rn.f64 s{number}, left, right, s{number};" for number in range(4)),
    chains=4,
    operations=4 * 2,
    growth=Fraction(4, 1024),
    steps=1 << 16,
)
FP32_VECTOR = SpinKernel(
    name="spin_fp32_vector",
    unit="vector",
    operand="f32",
    value="f32",
    left=1.0,
    right=2.0**-10,
    body=tuple(f"fma.rn.f32 s{number}, left, right, s{number};" for number in range(4)),
    chains=4,
    operations=4 * 2,
    growth=Fraction(4, 1024),
    steps=1 << 16,
)
SPIN_KERNELS = (FP64_TENSOR, BF16_TENSOR, FP64_VECTOR, FP32_VECTOR)

_TENSOR_SINCE = 8  # the major compute capability of A100


def spin_kernels(major: int) -> tuple[tuple[str, SpinKernel], ...]:
    """Return the kernels of a compute capability by the name of their reading. Before A100 there is none for bf16."""
    if major >= _TENSOR_SINCE:
        return ("fp64", FP64_TENSOR), ("bf16", BF16_TENSOR)
    return ("fp64", FP64_VECTOR), ("fp32", FP32_VECTOR)
