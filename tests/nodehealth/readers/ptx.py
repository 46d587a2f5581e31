"""An interpreter of the PTX that our kernels use, one thread after the other.

That is enough because no thread reads what another one writes, and because all threads of a warp have the same operands
in a matrix instruction: each accumulator grows by depth x left x right.
"""

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

_ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)\s*\{(.*?)^\}", re.DOTALL | re.MULTILINE)
_FORMATS = {"f64": "<d", "f32": "<f", "u64": "<Q"}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "ge": lambda one, two: one >= two,
    "lt": lambda one, two: one < two,
    "eq": lambda one, two: one == two,
    "ne": lambda one, two: one < two or one > two,  # false where one is no number
    "neu": lambda one, two: not one == two,  # noqa: SIM201 - also true where one is no number
}
_STEP = 4  # cycles and nanoseconds of each instruction


class PtxKernel:
    """One entry of a text, ready to be launched."""

    def __init__(self, text: str, name: str) -> None:
        body, parameters = next((found[3], found[2]) for found in _ENTRY.finditer(text) if found[1] == name)
        self._parameters = re.findall(r"\.param \.\w+ (\w+)", parameters)
        self._code: list[tuple[str, str, list[str]]] = []
        self._labels: dict[str, int] = {}
        for raw in body.splitlines():
            line = raw.partition("//")[0].strip()
            if line.endswith(":"):
                self._labels[line[:-1]] = len(self._code)
            elif line and not line.startswith(".reg"):
                guard, operation, rest = re.fullmatch(r"(@!?\w+)?\s*([\w.]+)\s*(.*);", line).groups()  # type: ignore[union-attr]
                self._code.append((guard or "", operation, _operands(rest)))

    def launch(self, memory: bytearray, blocks: int, threads: int, arguments: Sequence[float]) -> None:
        """Run all threads of all blocks. Addresses are places in `memory`."""
        values = dict(zip(self._parameters, arguments, strict=True))
        for block in range(blocks):
            for thread in range(threads):
                special = {"%tid.x": thread, "%ctaid.x": block, "%ntid.x": threads, "%nctaid.x": blocks, "%smid": block}
                self._run(memory, dict[str, Any](special), values)

    def _run(self, memory: bytearray, registers: dict[str, Any], parameters: dict[str, float]) -> None:
        at, clock = 0, 0
        while True:
            guard, operation, operands = self._code[at]
            at, clock = at + 1, clock + _STEP
            registers["%clock64"] = registers["%globaltimer"] = clock
            if guard and registers[guard.strip("@!")] == guard.startswith("@!"):
                continue
            if operation == "ret":
                return
            if operation == "bra":
                at = self._labels[operands[0]]
            else:
                _execute(operation.split("."), operands, registers, memory, parameters)


def _operands(text: str) -> list[str]:
    """Split operands; those in braces or brackets stay together."""
    return [part.strip() for part in re.findall(r"\s*(\{[^}]*\}|\[[^\]]*\]|[^,]+)", text) if part.strip()]


def _value(text: str, registers: dict[str, Any]) -> Any:
    if text in registers:
        return registers[text]
    return float(text) if "." in text else int(text)


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.strip("{}").split(",")]


def _place(text: str, registers: dict[str, Any]) -> int:
    register, _, offset = text.strip("[]").partition("+")
    return int(registers[register]) + int(offset or 0)


def _rounded(value: float, kind: str) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0]) if kind == "f32" else value


def _execute(
    parts: list[str], operands: list[str], registers: dict[str, Any], memory: bytearray, parameters: dict[str, float]
) -> None:
    name, kind = parts[0], parts[-1]
    if name == "bar":
        return
    if name == "mma":
        _mma(parts, operands, registers)
    elif name == "ld" and parts[1] == "param":
        registers[operands[0]] = parameters[operands[1].strip("[]")]
    elif name in {"ld", "st"}:
        registers_text, place_text = operands if name == "ld" else reversed(operands)
        size = struct.calcsize(_FORMATS[kind])
        for number, register in enumerate(_names(registers_text)):
            place = _place(place_text, registers) + number * size
            assert place % size == 0, "misaligned"
            if name == "ld":
                (registers[register],) = struct.unpack_from(_FORMATS[kind], memory, place)
            else:
                struct.pack_into(_FORMATS[kind], memory, place, _value(register, registers))
    elif name == "red":
        place = _place(operands[0], registers)
        (before,) = struct.unpack_from("<Q", memory, place)
        struct.pack_into("<Q", memory, place, before + _value(operands[1], registers))
    else:
        target, *others = operands
        registers[target] = _computed(name, parts, kind, [_value(other, registers) for other in others])


_COMPUTED: dict[str, Callable[..., Any]] = {
    "mov": lambda value: value,
    "cvta": lambda value: value,
    "add": lambda one, two: one + two,
    "sub": lambda one, two: one - two,
    "mul": lambda one, two: one * two,
    "mad": lambda one, two, three: (one * two + three) % 2**32,
    "shl": lambda one, two: one << two,
    "and": lambda one, two: one & two,
    "fma": lambda one, two, three: one * two + three,
}


def _computed(name: str, parts: list[str], kind: str, values: list[Any]) -> Any:
    if name == "setp":
        return _COMPARE[parts[1]](*values)
    if name == "cvt":
        return float(values[0]) if parts[-2].startswith("f") else values[0]
    return _rounded(_COMPUTED[name](*values), kind)


def _mma(parts: list[str], operands: list[str], registers: dict[str, Any]) -> None:
    """Multiply matrices whose elements are all the same: D = C + depth x left x right, for each element of D."""
    depth = int(parts[3].rpartition("k")[2])
    targets, left, right, added = map(_names, operands)
    sides = [{_number(registers[name], parts[7]) for name in names} for names in (left, right)]
    ((one,), (two,)) = sides
    for target, name in zip(targets, added, strict=True):
        registers[target] = _rounded(registers[name] + depth * one * two, parts[6])


def _number(value: Any, kind: str) -> float:
    """Return the number in a register, which holds two equal ones of bf16."""
    if kind != "bf16":
        return float(value)
    low, high = value & 0xFFFF, value >> 16
    assert low == high
    return float(struct.unpack("<f", struct.pack("<I", low << 16))[0])
