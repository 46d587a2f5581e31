/* A driver library without a GPU: host memory for device memory, times of events from the environment.
 *
 * FAKE_CUDA_MS_<kind>   milliseconds between two events, a list whose last one repeats; kinds: h2d, d2h, daxpy, spin, peer
 * FAKE_CUDA_FAIL        <function>=<code> or <function>@<n>=<code>: the n-th call fails, and every call after it
 * FAKE_CUDA_FAIL_SLOT   only for the GPU with this bus id
 * FAKE_CUDA_HANG        the function that never returns
 * FAKE_CUDA_WRONG       elements that daxpy gets wrong
 * FAKE_CUDA_WRONG_BLOCK block whose first thread of a spin kernel has one bit wrong
 * FAKE_CUDA_SLOW_SM     multiprocessor that takes a tenth more cycles
 * FAKE_CUDA_FREE_MIB, FAKE_CUDA_SMS, FAKE_CUDA_MAJOR, FAKE_CUDA_L2, FAKE_CUDA_GPUS, FAKE_CUDA_NO_PEER
 * FAKE_CUDA_LOG         file that gets one line for each call
 *
 * Compile with -DWITHOUT_EVENTS for a library that lacks cuEventElapsedTime.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

static int sticky, calls, current;
static const char *queued = "";

static long number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtol(text, 0, 0) : otherwise;
}

static CUresult enter(const char *name) {
  const char *log = getenv("FAKE_CUDA_LOG"), *fail = getenv("FAKE_CUDA_FAIL"), *hang = getenv("FAKE_CUDA_HANG");
  const char *slot = getenv("FAKE_CUDA_FAIL_SLOT");
  if (log) {
    FILE *file = fopen(log, "a");
    fprintf(file, "%d %s\n", (int)getpid(), name);
    fclose(file);
  }
  if (hang && !strcmp(hang, name)) for (;;) pause();
  if (sticky) return sticky;
  if (fail && (!slot || strtol(slot + 5, 0, 16) == current)) {
    size_t length = strlen(name);
    if (!strncmp(fail, name, length) && (fail[length] == '=' || fail[length] == '@')) {
      int nth = fail[length] == '@' ? atoi(fail + length + 1) : 1;
      if (++calls >= nth) {
        int code = atoi(strchr(fail, '=') + 1);
        if (code >= 200 && code != 801) sticky = code;
        return code;
      }
    }
  }
  return 0;
}
#define ENTER(name) do { CUresult code = enter(name); if (code) return code; } while (0)

CUresult cuInit(unsigned flags) { ENTER("cuInit"); return number("FAKE_CUDA_GPUS", 2) ? 0 : 100; }
CUresult cuDriverGetVersion(int *version) { ENTER("cuDriverGetVersion"); *version = 13000; return 0; }
CUresult cuDeviceGetByPCIBusId(int *device, const char *bus) {
  current = *device = (int)strtol(bus + 5, 0, 16);
  ENTER("cuDeviceGetByPCIBusId");
  return 0;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER("cuDeviceGetAttribute");
  switch (attribute) {
    case 16: *value = number("FAKE_CUDA_SMS", 4); break;
    case 36: *value = 2619000; break;
    case 37: *value = 5120; break;
    case 38: *value = number("FAKE_CUDA_L2", 50 << 20); break;
    case 75: *value = number("FAKE_CUDA_MAJOR", 9); break;
    default: *value = 0;
  }
  return 0;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 80ul << 30; return 0; }
CUresult cuDevicePrimaryCtxRetain(void **context, int device) {
  ENTER("cuDevicePrimaryCtxRetain");
  *context = (void *)(intptr_t)(device + 1);
  return 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(int device) { ENTER("cuDevicePrimaryCtxRelease_v2"); return 0; }
CUresult cuCtxSetCurrent(void *context) {
  current = (int)(intptr_t)context - 1;
  ENTER("cuCtxSetCurrent");
  return 0;
}
CUresult cuCtxSynchronize(void) { ENTER("cuCtxSynchronize"); return 0; }
CUresult cuMemGetInfo_v2(size_t *left, size_t *total) {
  ENTER("cuMemGetInfo_v2");
  *left = (size_t)number("FAKE_CUDA_FREE_MIB", 80000) << 20;
  *total = 80ul << 30;
  return 0;
}
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
  ENTER("cuMemAlloc_v2");
  return (*address = (CUdeviceptr)(intptr_t)malloc(size)) ? 0 : 2;
}
CUresult cuMemFree_v2(CUdeviceptr address) { ENTER("cuMemFree_v2"); free((void *)(intptr_t)address); return 0; }
CUresult cuMemHostAlloc(void **address, size_t size, unsigned flags) {
  ENTER("cuMemHostAlloc");
  return (*address = malloc(size)) ? 0 : 2;
}
CUresult cuMemFreeHost(void *address) { ENTER("cuMemFreeHost"); free(address); return 0; }
CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, void *stream) {
  ENTER("cuMemsetD32Async");
  if (count < 1024) memset((void *)(intptr_t)address, 0, count * 4);
  return 0;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, void *stream) {
  ENTER("cuMemcpyHtoDAsync_v2");
  queued = "h2d";
  return 0;
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, void *stream) {
  ENTER("cuMemcpyDtoHAsync_v2");
  queued = "d2h";
  if (size < (64u << 20)) memcpy(to, (void *)(intptr_t)from, size);
  return 0;
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, void *there, CUdeviceptr from, void *here, size_t size, void *stream) {
  ENTER("cuMemcpyPeerAsync");
  queued = "peer";
  return 0;
}
CUresult cuDeviceCanAccessPeer(int *can, int device, int peer) {
  ENTER("cuDeviceCanAccessPeer");
  *can = !number("FAKE_CUDA_NO_PEER", 0);
  return 0;
}
CUresult cuCtxEnablePeerAccess(void *peer, unsigned flags) { ENTER("cuCtxEnablePeerAccess"); return 0; }
CUresult cuModuleLoadDataEx(void **module, const void *image, unsigned count, void *options, void *values) {
  ENTER("cuModuleLoadDataEx");
  *module = (void *)image;
  return strstr(image, ".entry") ? 0 : 218;
}
CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
  ENTER("cuModuleGetFunction");
  *function = strdup(name);
  return 0;
}

/* What each thread of a spin kernel sums up, step by step. */
static double summed(const char *name, unsigned steps) {
  int chains = strcmp(name, "spin_bf16_tensor") ? 4 : 8;
  int depth = !strcmp(name, "spin_fp64_tensor") ? 4 : !strcmp(name, "spin_bf16_tensor") ? 16 : 1;
  static const char *last = "";
  static double total;
  double sums[8];
  if (!strcmp(last, name)) return total;
  last = strdup(name);
  total = 0;
  for (int chain = 0; chain < chains; chain++) {
    sums[chain] = chain;
    for (unsigned step = 0; step < steps; step++) sums[chain] += depth / 1024.0;
    total += sums[chain];
  }
  return total;
}

static void spin(const char *name, unsigned blocks, unsigned threads, void **arguments) {
  char *sums = (char *)(intptr_t)*(CUdeviceptr *)arguments[0];
  uint64_t *records = (uint64_t *)(intptr_t)*(CUdeviceptr *)arguments[1];
  double due = summed(name, *(unsigned *)arguments[2]);
  int is_double = strstr(name, "fp64") != 0;
  long slow = number("FAKE_CUDA_SLOW_SM", -1), wrong = number("FAKE_CUDA_WRONG_BLOCK", -1);
  for (unsigned place = 0; place < blocks * threads; place++) {
    if (is_double) ((double *)sums)[place] = due;
    else ((float *)sums)[place] = (float)due;
  }
  if (wrong >= 0) sums[wrong * threads * (is_double ? 8 : 4)] ^= 1;
  for (unsigned block = 0; block < blocks; block++) {
    uint64_t cycles = 1000000 + (block == slow ? 100000 : 0);
    uint64_t row[4] = {block, cycles, 5000000, 5000000 + cycles * 1000 / 1980};
    memcpy(records + 4 * block, row, sizeof row);
  }
}

CUresult cuLaunchKernel(void *function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                        unsigned shared, void *stream, void **arguments, void **extra) {
  const char *name = function;
  ENTER("cuLaunchKernel");
  if (!strcmp(name, "daxpy")) queued = "daxpy";
  if (!strncmp(name, "spin", 4)) { queued = "spin"; spin(name, bx, tx, arguments); }
  if (!strcmp(name, "count_wrong"))
    *(uint64_t *)(intptr_t)*(CUdeviceptr *)arguments[3] = number("FAKE_CUDA_WRONG", 0);
  return 0;
}
CUresult cuEventCreate(void **event, unsigned flags) { ENTER("cuEventCreate"); *event = malloc(1); return 0; }
CUresult cuEventDestroy_v2(void *event) { ENTER("cuEventDestroy_v2"); free(event); return 0; }
CUresult cuEventRecord(void *event, void *stream) { ENTER("cuEventRecord"); return 0; }
CUresult cuEventSynchronize(void *event) { ENTER("cuEventSynchronize"); return 0; }
#ifndef WITHOUT_EVENTS
CUresult cuEventElapsedTime(float *milliseconds, void *start, void *end) {
  static struct { const char *kind; int taken; } seen[8];
  char name[64];
  int row = 0, skip;
  ENTER("cuEventElapsedTime");
  while (seen[row].kind && strcmp(seen[row].kind, queued)) row++;
  seen[row].kind = queued;
  snprintf(name, sizeof name, "FAKE_CUDA_MS_%s", queued);
  const char *text = getenv(name);
  if (!text) text = "20";
  for (skip = seen[row].taken++; skip > 0 && strchr(text, ','); skip--) text = strchr(text, ',') + 1;
  *milliseconds = strtof(text, 0);
  return 0;
}
#endif
CUresult cuGetErrorName(CUresult code, const char **name) {
  *name = code == 214 ? "CUDA_ERROR_ECC_UNCORRECTABLE" : code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_OTHER";
  return 0;
}
