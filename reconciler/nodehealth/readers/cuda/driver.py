"""The driver's library by ctypes: the two dozen functions that the tests call, with every return code checked."""

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

LIBRARY = "libcuda.so.1"
SUCCESS = 0  # CUDA_SUCCESS
_HANDLE = ctypes.POINTER(c_void_p)
_SIZE = ctypes.POINTER(c_size_t)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (ctypes.POINTER(c_int),),
    "cuDeviceGetByPCIBusId": (ctypes.POINTER(c_int), c_char_p),
    "cuDeviceGetAttribute": (ctypes.POINTER(c_int), c_int, c_int),
    "cuDeviceTotalMem_v2": (_SIZE, c_int),
    "cuDevicePrimaryCtxRetain": (_HANDLE, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (_SIZE, _SIZE),
    "cuMemAlloc_v2": (ctypes.POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemHostAlloc": (_HANDLE, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemsetD32Async": (c_uint64, c_uint, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyPeerAsync": (c_uint64, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p),
    "cuDeviceCanAccessPeer": (ctypes.POINTER(c_int), c_int, c_int),
    "cuCtxEnablePeerAccess": (c_void_p, c_uint),
    "cuModuleLoadDataEx": (_HANDLE, c_char_p, c_uint, c_void_p, c_void_p),
    "cuModuleGetFunction": (_HANDLE, c_void_p, c_char_p),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, ctypes.POINTER(c_void_p), c_void_p),
    "cuEventCreate": (_HANDLE, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (ctypes.POINTER(c_float), c_void_p, c_void_p),
    "cuGetErrorName": (c_int, ctypes.POINTER(c_char_p)),
}


class CudaError(Exception):
    """A call of the driver failed. `code` is a `CUresult`."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {code}{f' {name}' if name else ''}")
        self.call = call
        self.code = code


class MissingLibrary(Exception):
    """The driver's library is not there or cannot be loaded."""


class MissingFunction(Exception):
    """The driver is too old for a function."""


class MissingKernel(Exception):
    """A test has no kernel for GPUs of this compute capability."""


class CudaDriver:
    """The loaded library, initialised."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise MissingLibrary(str(error)) from error
        self._functions: dict[str, Any] = {}
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises `CudaError` for any code but success, `MissingFunction` if there is none."""
        code = self._function(name)(*arguments)
        if code != SUCCESS:
            raise CudaError(name, code, self._error_name(code))

    def handle(self, name: str, *arguments: Any) -> c_void_p:
        """Call a function that returns a handle in its first argument."""
        found = c_void_p()
        self.call(name, ctypes.byref(found), *arguments)
        return found

    def integer(self, name: str, *arguments: Any) -> int:
        """Call a function that returns an int in its first argument."""
        found = c_int()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def launch(self, function: c_void_p, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
        """Queue a kernel on the default stream; `arguments` are ctypes values of the kernel's parameters."""
        addresses = (c_void_p * len(arguments))(*(ctypes.cast(ctypes.pointer(value), c_void_p) for value in arguments))
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, addresses, None)

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            try:
                function = getattr(self._library, name)
            except AttributeError as error:
                raise MissingFunction(f"the driver has no {name}") from error
            function.argtypes = _SIGNATURES[name]
            function.restype = c_int
            self._functions[name] = function
        return self._functions[name]

    def _error_name(self, code: int) -> str:
        text = c_char_p()
        try:
            known = self._function("cuGetErrorName")(code, ctypes.byref(text)) == SUCCESS
        except MissingFunction:
            return ""
        return text.value.decode("ascii", "replace") if known and text.value else ""
