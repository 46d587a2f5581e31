"""The program that waits for NVML's events: one line of JSON for each Xid, and one whenever a wait ends without any.

Runs in a process of its own, because a wait may hang in the kernel. It ends when nobody reads its lines any more.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pynvml

WAIT_MILLISECONDS = 5000
_PAUSE_SECONDS, _LONG_PAUSE_SECONDS = 5.0, 60.0  # before all begins anew: after a wait, and without a driver
_TIMEOUT = 10  # NVML_ERROR_TIMEOUT
_WORDS = {3: "not_supported", 13: "not_supported", 4: "no_permission", 9: "no_driver", 12: "no_library",
          15: "gpu_lost", 16: "reset_required", 18: "driver_mismatch"}  # fmt: skip

Line = dict[str, Any]


def lines() -> Iterator[Line]:
    """Yield what happens, without end: which GPUs are watched, their Xids, and errors after which all begins anew."""
    while True:
        pause = _LONG_PAUSE_SECONDS
        try:
            pynvml.nvmlInit()
            pause = _PAUSE_SECONDS
            yield from _watch(pynvml.nvmlEventSetCreate())
        except pynvml.NVMLError as error:
            yield {"error": _word(error), "detail": str(error)[:200]}
        with suppress(pynvml.NVMLError):  # the driver may be gone
            pynvml.nvmlShutdown()
        time.sleep(pause)


def _watch(events: Any) -> Iterator[Line]:
    """Yield Xids until a wait fails: of a lost GPU nothing more comes, and the others must be registered again."""
    yield _registered(events)
    while True:
        try:
            data = pynvml.nvmlEventSetWait_v2(events, WAIT_MILLISECONDS)
        except pynvml.NVMLError as error:
            if getattr(error, "value", 0) != _TIMEOUT:
                raise
            yield {"alive": True}
            continue
        if data.eventType == pynvml.nvmlEventTypeXidCriticalError:
            yield {"slot": _slot(data.device), "code": int(data.eventData), "seconds": round(time.time(), 3)}


def _registered(events: Any) -> Line:
    """Register all GPUs; return those that are watched, and those that cannot be with their errors."""
    watched: list[str] = []
    refused: dict[str, str] = {}
    for index in range(int(pynvml.nvmlDeviceGetCount())):
        slot = f"gpu-{index}"
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            slot = _slot(handle)
            _register(handle, events)
        except pynvml.NVMLError as error:
            refused[slot] = _word(error)
        else:
            watched.append(slot)
    return {"watched": watched, "refused": refused}


def _register(handle: Any, events: Any) -> None:
    wanted = pynvml.nvmlEventTypeXidCriticalError & pynvml.nvmlDeviceGetSupportedEventTypes(handle)
    if not wanted:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    pynvml.nvmlDeviceRegisterEvents(handle, wanted, events)


def _slot(handle: Any) -> str:
    text = pynvml.nvmlDeviceGetPciInfo(handle).busId
    return text.decode("ascii", "replace") if isinstance(text, bytes) else str(text)


def _word(error: pynvml.NVMLError) -> str:
    return _WORDS.get(int(getattr(error, "value", 999)), "failed")


def main() -> None:
    """Write lines until nobody reads them."""
    try:
        for line in lines():
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # not through the interpreter, which would write the rest


if __name__ == "__main__":
    main()
