"""Every call of AMD SMI that a sweep makes. Runs in the child process; the package comes with ROCm, not from an index.

Answers have many spellings of "not available"; all of them are errors here, never zeros.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from reconciler.nodehealth.readers.calls import NODE, Record, asked
from reconciler.nodehealth.readings import ReadingId

_NAMES = {2: "not_supported", 10: "no_permission", 12: "busy", 30: "busy", 32: "no_driver", 34: "no_driver"}
_PAGES = {0: "reserved", 1: "pending", 2: "unreservable"}
_VIOLATIONS = {
    "per_prochot_thrm": "prochot", "per_ppt_pwr": "ppt", "per_socket_thrm": "socket_thermal",
    "per_vr_thrm": "vr_thermal", "per_hbm_thrm": "hbm_thermal",
}  # fmt: skip


class NotAvailable(Exception):
    """The library answered, but without a number."""


def _whole(answer: Mapping[str, Any], **names: str) -> Record:
    """Return the numbers of an answer under our names; those that are not numbers are left out."""
    found = {ours: answer[theirs] for ours, theirs in names.items() if _is_number(answer.get(theirs))}
    if not found:
        raise NotAvailable(", ".join(names.values()))
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ecc(smi: Any, handle: Any) -> Record:
    answer = smi.amdsmi_get_gpu_total_ecc_count(handle)
    return _whole(answer, uncorrectable="uncorrectable_count", correctable="correctable_count")


def _pages(smi: Any, handle: Any) -> Record:
    pages = smi.amdsmi_get_gpu_bad_page_info(handle)
    counts = dict.fromkeys(_PAGES.values(), 0)
    for page in pages if isinstance(pages, list) else ():  # a text where there are none
        status = page.get("status")
        counts[_PAGES[int(getattr(status, "value", status))]] += 1
    return counts


def _pcie(smi: Any, handle: Any) -> Record:
    answer = smi.amdsmi_get_pcie_info(handle)
    merged = {**answer.get("pcie_static", {}), **answer.get("pcie_metric", {})}
    return _whole(
        merged,
        width="pcie_width",
        max_width="max_pcie_width",
        replays="pcie_replay_count",
        naks="pcie_nak_received_count",
    )


def _violations(smi: Any, handle: Any) -> Record:
    answer = smi.amdsmi_get_violation_status(handle)
    return _whole(answer, **{ours: theirs for theirs, ours in _VIOLATIONS.items()})


def _xgmi(smi: Any, handle: Any) -> int:
    status = smi.amdsmi_gpu_xgmi_error_status(handle)
    return int(getattr(status, "value", status))


def _temperature(smi: Any, handle: Any) -> Record:
    found: Record = {}
    for ours, theirs in (("hotspot", "HOTSPOT"), ("memory", "VRAM")):
        kind = getattr(smi.AmdSmiTemperatureType, theirs)
        for name, metric in ((ours, "CURRENT"), (f"{ours}_limit", "CRITICAL")):
            value = smi.amdsmi_get_temp_metric(handle, kind, getattr(smi.AmdSmiTemperatureMetric, metric))
            if _is_number(value):
                found[name] = value
    if not found:
        raise NotAvailable("temperature")
    return found


def _power(smi: Any, handle: Any) -> Record:
    answer = smi.amdsmi_get_power_info(handle)
    names = ("current_socket_power", "average_socket_power")
    source = next((name for name in names if _is_number(answer.get(name))), names[0])
    found = _whole(answer, watts=source, limit="power_limit")
    if found.get("limit", 0) > _MICRO:  # microwatts
        found["limit"] /= _MICRO
    return found


_MICRO = 1_000_000
CALLS: tuple[tuple[ReadingId, Callable[[Any, Any], Any]], ...] = (
    (ReadingId.AMDSMI_ECC, _ecc),
    (ReadingId.AMDSMI_BAD_PAGES, _pages),
    (ReadingId.AMDSMI_PCIE, _pcie),
    (ReadingId.AMDSMI_VIOLATIONS, _violations),
    (ReadingId.AMDSMI_XGMI_ERROR, _xgmi),
    (ReadingId.AMDSMI_TEMPERATURE, _temperature),
    (ReadingId.AMDSMI_POWER, _power),
)


def _identity(smi: Any, handle: Any) -> Record:
    asic = smi.amdsmi_get_gpu_asic_info(handle)
    return {
        "bus": str(smi.amdsmi_get_gpu_device_bdf(handle)),
        "uuid": str(smi.amdsmi_get_gpu_device_uuid(handle)),
        "serial": str(asic.get("asic_serial", "")),
        "product": str(asic.get("market_name", "")),
    }


def sweep(request: Mapping[str, Any], smi: Any = None) -> Iterator[Record]:
    """Yield a record before each call (`call`) and after it (`value` or `error`). GPUs in `skip` are not touched."""
    smi = smi or import_module("amdsmi")
    begun = {}
    for begun in asked("init", NODE, smi.amdsmi_init, _error):
        yield begun
    if "error" in begun:
        return
    handles: list[Any] = []
    yield from asked("count", NODE, lambda: _extended(handles, smi.amdsmi_get_processor_handles()), _error)
    for index, handle in enumerate(handles):
        if index in request.get("skip", ()):
            continue
        for reading, call in ((ReadingId.AMDSMI_HANDLE, _identity), *CALLS):
            yield from asked(reading.value.removeprefix("amdsmi."), index, partial(call, smi, handle), _error)
    smi.amdsmi_shut_down()


def _extended(handles: list[Any], found: list[Any]) -> int:
    handles.extend(found)
    return len(handles)


def _error(error: Exception) -> tuple[str, str]:
    if isinstance(error, NotAvailable):
        return "not_supported", f"not a number: {error}"
    get = getattr(error, "get_error_code", None)
    code = abs(int(get())) if get else 0
    return _NAMES.get(code, "failed"), f"{type(error).__name__}: {error}"[:200]
