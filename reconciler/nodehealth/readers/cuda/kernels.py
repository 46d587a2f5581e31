"""The kernels, as PTX that the driver compiles for the GPU at hand, and what each must compute to the last bit.

`daxpy` is memory traffic with a result that is exact: small integers in, small integers out. A spin kernel keeps the
arithmetic units busy with operands 1 and 2^-10: every partial sum is a multiple of 2^-10 that the accumulator holds
exactly, so that the sum of a thread does not depend on any order, and one wrong bit shows.
"""

from fractions import Fraction

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

MEMORY_PTX = """
.version 6.0
.target sm_60
.address_size 64

// Element i of x becomes i mod 1024, element i of y becomes i mod 256.
.visible .entry fill(.param .u64 x_param, .param .u64 y_param, .param .u64 count_param)
{
  .reg .pred past;
  .reg .u32 thread, block, threads, blocks;
  .reg .u64 x, y, count, i, stride, wide, offset, place;
  .reg .f64 value;
  ld.param.u64 x, [x_param];
  ld.param.u64 y, [y_param];
  ld.param.u64 count, [count_param];
  cvta.to.global.u64 x, x;
  cvta.to.global.u64 y, y;
  mov.u32 thread, %tid.x;
  mov.u32 block, %ctaid.x;
  mov.u32 threads, %ntid.x;
  mov.u32 blocks, %nctaid.x;
  cvt.u64.u32 wide, thread;
  mul.wide.u32 i, block, threads;
  add.u64 i, i, wide;
  mul.wide.u32 stride, threads, blocks;
next:
  setp.ge.u64 past, i, count;
  @past bra done;
  shl.b64 offset, i, 3;
  and.b64 wide, i, 1023;
  cvt.rn.f64.u64 value, wide;
  add.u64 place, x, offset;
  st.global.f64 [place], value;
  and.b64 wide, i, 255;
  cvt.rn.f64.u64 value, wide;
  add.u64 place, y, offset;
  st.global.f64 [place], value;
  add.u64 i, i, stride;
  bra next;
done:
  ret;
}

// y = scale * x + y, two elements at a time; pairs is half the number of elements.
.visible .entry daxpy(.param .f64 scale_param, .param .u64 x_param, .param .u64 y_param, .param .u64 pairs_param)
{
  .reg .pred past;
  .reg .u32 thread, block, threads, blocks;
  .reg .u64 x, y, pairs, i, stride, wide, offset, x_place, y_place;
  .reg .f64 scale, x0, x1, y0, y1;
  ld.param.f64 scale, [scale_param];
  ld.param.u64 x, [x_param];
  ld.param.u64 y, [y_param];
  ld.param.u64 pairs, [pairs_param];
  cvta.to.global.u64 x, x;
  cvta.to.global.u64 y, y;
  mov.u32 thread, %tid.x;
  mov.u32 block, %ctaid.x;
  mov.u32 threads, %ntid.x;
  mov.u32 blocks, %nctaid.x;
  cvt.u64.u32 wide, thread;
  mul.wide.u32 i, block, threads;
  add.u64 i, i, wide;
  mul.wide.u32 stride, threads, blocks;
next:
  setp.ge.u64 past, i, pairs;
  @past bra done;
  shl.b64 offset, i, 4;
  add.u64 x_place, x, offset;
  add.u64 y_place, y, offset;
  ld.global.v2.f64 {x0, x1}, [x_place];
  ld.global.v2.f64 {y0, y1}, [y_place];
  fma.rn.f64 y0, scale, x0, y0;
  fma.rn.f64 y1, scale, x1, y1;
  st.global.v2.f64 [y_place], {y0, y1};
  add.u64 i, i, stride;
  bra next;
done:
  ret;
}

// Adds the number of elements of y that are not (i mod 256) + total * (i mod 1024) to the counter. NaN is wrong, too.
.visible .entry count_wrong(.param .f64 total_param, .param .u64 y_param, .param .u64 count_param,
                            .param .u64 counter_param)
{
  .reg .pred past, wrong;
  .reg .u32 thread, block, threads, blocks;
  .reg .u64 y, count, counter, i, stride, wide, offset, place, found;
  .reg .f64 total, value, due, factor;
  ld.param.f64 total, [total_param];
  ld.param.u64 y, [y_param];
  ld.param.u64 count, [count_param];
  ld.param.u64 counter, [counter_param];
  cvta.to.global.u64 y, y;
  cvta.to.global.u64 counter, counter;
  mov.u32 thread, %tid.x;
  mov.u32 block, %ctaid.x;
  mov.u32 threads, %ntid.x;
  mov.u32 blocks, %nctaid.x;
  cvt.u64.u32 wide, thread;
  mul.wide.u32 i, block, threads;
  add.u64 i, i, wide;
  mul.wide.u32 stride, threads, blocks;
  mov.u64 found, 0;
next:
  setp.ge.u64 past, i, count;
  @past bra done;
  shl.b64 offset, i, 3;
  add.u64 place, y, offset;
  ld.global.f64 value, [place];
  and.b64 wide, i, 1023;
  cvt.rn.f64.u64 factor, wide;
  and.b64 wide, i, 255;
  cvt.rn.f64.u64 due, wide;
  fma.rn.f64 due, total, factor, due;
  setp.neu.f64 wrong, value, due;
  @wrong add.u64 found, found, 1;
  add.u64 i, i, stride;
  bra next;
done:
  setp.ne.u64 wrong, found, 0;
  @wrong red.global.add.u64 [counter], found;
  ret;
}
"""

_SPIN_PTX = """
.version {version}
.target {target}
.address_size 64

// Each thread repeats the step and writes its sum; each block writes its multiprocessor, cycles and times.
.visible .entry {name}(.param .u64 sums_param, .param .u64 records_param, .param .u32 steps_param,
                       .param .{operand} left_param, .param .{operand} right_param)
{{
  .reg .pred more, is_first;
  .reg .u32 thread, block, threads, position, step, steps, unit;
  .reg .u64 sums, records, place, cycles0, cycles1, time0, time1, wide;
  .reg .{operand} left, right;
  .reg .{value} {sums};
  ld.param.u64 sums, [sums_param];
  ld.param.u64 records, [records_param];
  ld.param.u32 steps, [steps_param];
  ld.param.{operand} left, [left_param];
  ld.param.{operand} right, [right_param];
  cvta.to.global.u64 sums, sums;
  cvta.to.global.u64 records, records;
  mov.u32 thread, %tid.x;
  mov.u32 block, %ctaid.x;
  mov.u32 threads, %ntid.x;
  mad.lo.u32 position, block, threads, thread;
{starts}
  mov.u32 step, 0;
  bar.sync 0;
  mov.u64 time0, %globaltimer;
  mov.u64 cycles0, %clock64;
next:
{body}
  add.u32 step, step, 1;
  setp.lt.u32 more, step, steps;
  @more bra next;
{folds}
  mul.wide.u32 place, position, {value_bytes};
  add.u64 place, sums, place;
  st.global.{value} [place], {first};
  bar.sync 0;
  mov.u64 cycles1, %clock64;
  mov.u64 time1, %globaltimer;
  setp.eq.u32 is_first, thread, 0;
  @!is_first bra done;
  mov.u32 unit, %smid;
  cvt.u64.u32 wide, unit;
  mul.wide.u32 place, block, 32;
  add.u64 place, records, place;
  sub.u64 cycles1, cycles1, cycles0;
  st.global.u64 [place], wide;
  st.global.u64 [place+8], cycles1;
  st.global.u64 [place+16], time0;
  st.global.u64 [place+24], time1;
done:
  ret;
}}
"""


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
