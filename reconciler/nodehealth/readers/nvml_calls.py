"""Every call of NVML that a sweep makes, in order. Runs in the child process.

A value is plain data for JSON. An error is one of the words of `ReadError`; nothing here decides what it means.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pynvml

from reconciler.nodehealth.readers.calls import NODE, Record, asked
from reconciler.nodehealth.readings import ReadingId

Call = tuple[ReadingId, Callable[[Any], Any]]

_ERRORS = {
    3: "not_supported", 13: "not_supported", 25: "not_supported", 26: "not_supported",
    4: "no_permission", 9: "no_driver", 10: "deadline", 12: "no_library", 14: "corrupted_inforom",
    15: "gpu_lost", 16: "reset_required", 18: "driver_mismatch", 19: "busy",
}  # fmt: skip
_NAMES = {
    int(getattr(pynvml, name)): name
    for name in dir(pynvml)
    if name.startswith("NVML_ERROR_") and isinstance(getattr(pynvml, name), int)
}
_RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
_MEMORY_TEMPERATURE, _SLOWDOWN_MARGIN = 82, 194  # NVML_FI_DEV_MEMORY_TEMP and _TEMPERATURE_SLOWDOWN_TLIMIT
_LINKS, _LINK_SPEED = 91, 164  # NVML_FI_DEV_NVLINK_LINK_COUNT and _GET_SPEED
_REMAPPED = {142: "corrected", 143: "uncorrected", 144: "pending", 145: "failure"}
_PCIE = {
    173: "correctable", 174: "naks_received", 175: "receiver", 176: "bad_tlp", 177: "naks_sent", 178: "bad_dllp",
    179: "non_fatal", 180: "fatal", 181: "unsupported", 182: "lcrc", 183: "lane",
}  # fmt: skip
_THROTTLED = {
    74: "sw_power_cap", 76: "sync_boost", 269: "sw_thermal", 270: "hw_thermal", 271: "hw_power_brake",
}  # fmt: skip
_NVLINK5 = {
    206: "malformed", 207: "overrun", 208: "receive", 209: "remote", 210: "general", 211: "integrity",
    212: "discards", 213: "recovery_success", 214: "recovery_failed", 215: "recovery_events", 219: "effective",
    221: "symbol",
}  # fmt: skip
_TRAFFIC = {138: ("nvlink", 1024), 139: ("nvlink", 1024), 197: ("pcie", 1), 198: ("pcie", 1)}
"""Fields of bytes sent and received: the part of the total they belong to, and their unit."""

_ALL_LINKS = 0xFFFFFFFF  # a scope: NVML adds up what all links carried
_OLD_LINK_ERRORS = ("replay", "recovery", "crc_flit", "crc_data")


def _number(value: Any) -> Any:
    """Return the number in a field value, by its type."""
    union, kind = value.value, value.valueType
    return {0: union.dVal, 1: union.uiVal, 2: union.ulVal, 3: union.ullVal, 4: union.sllVal, 5: union.siVal}.get(kind)


def _field(number: int) -> Callable[[Any], Any]:
    def read(handle: Any) -> Any:
        (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [number])
        if value.nvmlReturn:
            raise pynvml.NVMLError(value.nvmlReturn)
        return _number(value)

    return read


def _fields(names: dict[int, str]) -> Callable[[Any], dict[str, Any]]:
    """Return a call that reads several fields: those that are supported, or the first error if none is."""

    def read(handle: Any) -> dict[str, Any]:
        values = pynvml.nvmlDeviceGetFieldValues(handle, list(names))
        found = {names[value.fieldId]: _number(value) for value in values if value.nvmlReturn == 0}
        if not found:
            raise pynvml.NVMLError(values[0].nvmlReturn)
        return found

    return read


def _errors(kind: int) -> Callable[[Any], int]:
    """Return a call that counts volatile errors of the device memory; of all memories where that is not supported."""

    def read(handle: Any) -> int:
        try:
            return int(pynvml.nvmlDeviceGetMemoryErrorCounter(handle, kind, pynvml.NVML_VOLATILE_ECC, 2))
        except pynvml.NVMLError_NotSupported:
            return int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC))

    return read


def _struct(structure: Any) -> dict[str, Any]:
    """Return the numbers of a structure by name."""
    values = {name: getattr(structure, name) for name, *_ in structure._fields_}
    return {name: value for name, value in values.items() if isinstance(value, int | float) and name != "version"}


def _sram(handle: Any) -> dict[str, Any]:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(handle, pynvml.byref(status))  # a bare structure would go by value
    return _struct(status)


def _remapped(handle: Any) -> dict[str, Any]:
    try:
        values = pynvml.nvmlDeviceGetRemappedRows(handle)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return _fields(_REMAPPED)(handle)
    return dict(zip(_REMAPPED.values(), values, strict=True))


def _retired(handle: Any) -> dict[str, Any]:
    # the count first: the binding of the list with times passes one argument too few to ask for it
    pages = {
        name: len(pynvml.nvmlDeviceGetRetiredPages(handle, cause))
        for cause, name in ((0, "single_bit"), (1, "double_bit"))
    }
    return {**pages, "pending": pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle)}


def _repair(handle: Any) -> dict[str, Any]:
    channel, tpc = pynvml.nvmlDeviceGetRepairStatus(handle)
    return {"channel_pending": channel, "tpc_pending": tpc}


def _unrepairable(handle: Any) -> int:
    flag = pynvml.c_nvmlUnrepairableMemory_v1_t()
    call = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetUnrepairableMemoryFlag_v1")  # noqa: SLF001 - no other binding
    if code := call(handle, pynvml.byref(flag)):
        raise pynvml.NVMLError(code)
    return int(flag.unrepairableMemory)


def _pair(function: str) -> Callable[[Any], dict[str, Any]]:
    def read(handle: Any) -> dict[str, Any]:
        current, pending = getattr(pynvml, function)(handle)
        return {"current": current, "pending": pending}

    return read


def _links(handle: Any) -> int:
    count = int(_field(_LINKS)(handle))
    if not count:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return min(count, int(pynvml.NVML_NVLINK_MAX_LINKS))


def _link_states(handle: Any) -> list[int]:
    return [int(pynvml.nvmlDeviceGetNvLinkState(handle, link)) for link in range(_links(handle))]


def _link_speeds(handle: Any) -> list[Any]:
    values = pynvml.nvmlDeviceGetFieldValues(handle, [(_LINK_SPEED, link) for link in range(_links(handle))])
    if values[0].nvmlReturn:
        raise pynvml.NVMLError(values[0].nvmlReturn)
    return [_number(value) if value.nvmlReturn == 0 else None for value in values]


def _link_errors(handle: Any) -> dict[str, Any]:
    """Count errors over all links: by the fields of NVLink 5, else by the counters of older ones."""
    links, totals = range(_links(handle)), dict[str, float]()
    for value in pynvml.nvmlDeviceGetFieldValues(handle, [(number, link) for number in _NVLINK5 for link in links]):
        if value.nvmlReturn == 0:
            name = _NVLINK5[value.fieldId]
            totals[name] = totals.get(name, 0) + (_number(value) or 0)
    if totals:
        return totals
    for counter, name in enumerate(_OLD_LINK_ERRORS):
        totals[name] = sum(pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, counter) for link in links)
    return totals


def _traffic(handle: Any) -> dict[str, Any]:
    """Return the bytes that moved since the driver was loaded, by NVLink and by PCIe, both directions together."""
    values = pynvml.nvmlDeviceGetFieldValues(handle, [(number, _ALL_LINKS) for number in _TRAFFIC])
    totals = dict[str, float]()
    for value in values:
        if value.nvmlReturn == 0:
            name, unit = _TRAFFIC[value.fieldId]
            totals[name] = totals.get(name, 0) + unit * (_number(value) or 0)
    if not totals:
        raise pynvml.NVMLError(values[0].nvmlReturn)
    return totals


def _fabric(handle: Any) -> dict[str, Any]:
    found = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, pynvml.byref(found))
    return {"state": found.state, "status": found.status, "health_mask": found.healthMask}


def _violations(handle: Any) -> dict[str, Any]:
    """Return nanoseconds of throttling by reason: by fields, else by the older call."""
    try:
        return _fields(_THROTTLED)(handle)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_FunctionNotFound):
        thermal = pynvml.nvmlDeviceGetViolationStatus(handle, pynvml.NVML_PERF_POLICY_THERMAL)
        return {"sw_thermal": thermal.violationTime}


def _processes(handle: Any) -> list[Record]:
    return [
        {"pid": process.pid, "memory": process.usedGpuMemory}
        for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    ]


def _text(function: str) -> Callable[[Any], str]:
    def read(handle: Any) -> str:
        value = getattr(pynvml, function)(handle)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    return read


def _call(function: str, *arguments: Any) -> Callable[[Any], Any]:
    return lambda handle: getattr(pynvml, function)(handle, *arguments)


def _done(function: str) -> Callable[[Any], bool]:
    """Return a call whose success is all that it tells."""

    def read(handle: Any) -> bool:
        getattr(pynvml, function)(handle)
        return True

    return read


def _flat(function: str) -> Callable[[Any], dict[str, Any]]:
    return lambda handle: _struct(getattr(pynvml, function)(handle))


GPU_CALLS: tuple[Call, ...] = (
    (ReadingId.NVML_RECOVERY_ACTION, _field(_RECOVERY_ACTION)),
    (ReadingId.NVML_MIG_MODE, _pair("nvmlDeviceGetMigMode")),
    (ReadingId.NVML_ECC_MODE, _pair("nvmlDeviceGetEccMode")),
    (ReadingId.NVML_ECC_UNCORRECTED, _errors(1)),
    (ReadingId.NVML_ECC_CORRECTED, _errors(0)),
    (ReadingId.NVML_SRAM_ECC, _sram),
    (ReadingId.NVML_REMAPPED_ROWS, _remapped),
    (ReadingId.NVML_ROW_HISTOGRAM, _flat("nvmlDeviceGetRowRemapperHistogram")),
    (ReadingId.NVML_RETIRED_PAGES, _retired),
    (ReadingId.NVML_REPAIR, _repair),
    (ReadingId.NVML_UNREPAIRABLE, _unrepairable),
    (ReadingId.NVML_PCIE_WIDTH, _call("nvmlDeviceGetCurrPcieLinkWidth")),
    (ReadingId.NVML_PCIE_MAX_WIDTH, _call("nvmlDeviceGetMaxPcieLinkWidth")),
    (ReadingId.NVML_PCIE_GENERATION, _call("nvmlDeviceGetCurrPcieLinkGeneration")),
    (ReadingId.NVML_PCIE_MAX_GENERATION, _call("nvmlDeviceGetMaxPcieLinkGeneration")),
    (ReadingId.NVML_PCIE_GPU_GENERATION, _call("nvmlDeviceGetGpuMaxPcieLinkGeneration")),
    (ReadingId.NVML_PCIE_REPLAYS, _call("nvmlDeviceGetPcieReplayCounter")),
    (ReadingId.NVML_PCIE_ERRORS, _fields(_PCIE)),
    (ReadingId.NVML_NVLINK_STATES, _link_states),
    (ReadingId.NVML_NVLINK_SPEEDS, _link_speeds),
    (ReadingId.NVML_NVLINK_ERRORS, _link_errors),
    (ReadingId.NVML_FABRIC, _fabric),
    (ReadingId.NVML_TEMPERATURE, _call("nvmlDeviceGetTemperature", 0)),
    (ReadingId.NVML_TEMPERATURE_SLOWDOWN, _call("nvmlDeviceGetTemperatureThreshold", 1)),
    (ReadingId.NVML_TEMPERATURE_MARGIN, _call("nvmlDeviceGetMarginTemperature")),
    (ReadingId.NVML_MARGIN_LIMIT, _field(_SLOWDOWN_MARGIN)),
    (ReadingId.NVML_MEMORY_TEMPERATURE, _field(_MEMORY_TEMPERATURE)),
    (ReadingId.NVML_MEMORY_TEMPERATURE_MAX, _call("nvmlDeviceGetTemperatureThreshold", 2)),
    (ReadingId.NVML_CLOCKS_EVENT_REASONS, _call("nvmlDeviceGetCurrentClocksEventReasons")),
    (ReadingId.NVML_VIOLATIONS, _violations),
    (ReadingId.NVML_UTILIZATION, _flat("nvmlDeviceGetUtilizationRates")),
    (ReadingId.NVML_PERFORMANCE_STATE, _call("nvmlDeviceGetPerformanceState")),
    (ReadingId.NVML_CLOCK_SM, _call("nvmlDeviceGetClockInfo", 1)),
    (ReadingId.NVML_CLOCK_SM_MAX, _call("nvmlDeviceGetMaxClockInfo", 1)),
    (ReadingId.NVML_CLOCK_MEMORY_MAX, _call("nvmlDeviceGetMaxClockInfo", 2)),
    (ReadingId.NVML_MEMORY_BUS_WIDTH, _call("nvmlDeviceGetMemoryBusWidth")),
    (ReadingId.NVML_POWER_USAGE, _call("nvmlDeviceGetPowerUsage")),
    (ReadingId.NVML_ENERGY, _call("nvmlDeviceGetTotalEnergyConsumption")),
    (ReadingId.NVML_TRAFFIC, _traffic),
    (ReadingId.NVML_POWER_LIMIT, _call("nvmlDeviceGetEnforcedPowerLimit")),
    (ReadingId.NVML_POWER_DEFAULT_LIMIT, _call("nvmlDeviceGetPowerManagementDefaultLimit")),
    (ReadingId.NVML_INFOROM, _done("nvmlDeviceValidateInforom")),
    (ReadingId.NVML_INFOROM_VERSION, _text("nvmlDeviceGetInforomImageVersion")),
    (ReadingId.NVML_VBIOS, _text("nvmlDeviceGetVbiosVersion")),
    (ReadingId.NVML_GSP_FIRMWARE, _text("nvmlDeviceGetGspFirmwareVersion")),
    (ReadingId.NVML_MEMORY, _flat("nvmlDeviceGetMemoryInfo")),
    (ReadingId.NVML_PROCESSES, _processes),
)
NODE_CALLS: tuple[Call, ...] = (
    (ReadingId.NVML_DRIVER, lambda _: _text_of(pynvml.nvmlSystemGetDriverVersion())),
    (ReadingId.NVML_COUNT, lambda _: pynvml.nvmlDeviceGetCount()),
)


def _text_of(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _identity(handle: Any) -> Record:
    """Return the place and the name of a GPU; what it does not tell is empty."""
    found: Record = {"bus": _text_of(pynvml.nvmlDeviceGetPciInfo(handle).busId)}
    for name, function in (
        ("uuid", "nvmlDeviceGetUUID"),
        ("serial", "nvmlDeviceGetSerial"),
        ("product", "nvmlDeviceGetName"),
    ):
        try:
            found[name] = _text_of(getattr(pynvml, function)(handle))
        except pynvml.NVMLError as error:
            if getattr(error, "value", None) != pynvml.NVML_ERROR_NOT_SUPPORTED:
                raise
    return found


def sweep(request: Mapping[str, Any]) -> Iterator[Record]:
    """Yield a record before each call (`call`) and after it (`value` or `error`). GPUs in `skip` are not touched."""
    begun = {}
    for begun in asked("init", NODE, pynvml.nvmlInit, _error):
        yield begun
    if "error" in begun:
        return
    count = 0
    for reading, call in NODE_CALLS:
        for record in asked(_short(reading), NODE, partial(call, None), _error):
            yield record
            count = record["value"] if reading is ReadingId.NVML_COUNT and "value" in record else count
    for index in range(count):
        if index not in request.get("skip", ()):
            yield from _gpu(index)
    pynvml.nvmlShutdown()


def _short(reading: ReadingId) -> str:
    """Return the name of a reading in records."""
    return reading.value.removeprefix("nvml.")


def _gpu(index: int) -> Iterator[Record]:
    handles: list[Any] = []

    def identify() -> Record:
        handles.append(pynvml.nvmlDeviceGetHandleByIndex(index))
        return _identity(handles[0])

    yield from asked("handle", index, identify, _error)
    for reading, call in GPU_CALLS if handles else ():
        yield from asked(_short(reading), index, partial(call, handles[0]), _error)


def _error(error: Exception) -> tuple[str, str]:
    if not isinstance(error, pynvml.NVMLError):
        return "failed", f"{type(error).__name__}: {error}"[:200]  # the binding failed
    code = int(getattr(error, "value", 999))
    return _ERRORS.get(code, "failed"), f"{_NAMES.get(code, 'NVML error')}, {code}"
