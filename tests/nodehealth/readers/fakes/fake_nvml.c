/* A fake libnvidia-ml.so.1 with the functions that a sweep calls. Sound H200s, unless the environment says otherwise:
 *   FAKE_GPUS=8                         how many GPUs there are
 *   FAKE_VALUE_<word>[_<index>]=N       a value, of all GPUs or of one; the words are in the code below
 *   FAKE_ERROR_<function>[_<index>]=N   the function returns this code
 *   FAKE_HANG_<function>[_<index>]=1    the function never returns
 *   FAKE_VALUE_XIDS="0:79 1:31"         Xids that events tell, in order; a wait without one takes FAKE_VALUE_WAIT ms
 * Compiled with -DOLD_DRIVER, it lacks the functions and fields of newer drivers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { int index; } Device;
static Device devices[64];

static char *setting(const char *kind, const char *name, int index) {
  char key[160];
  snprintf(key, sizeof key, "FAKE_%s_%s_%d", kind, name, index);
  char *value = getenv(key);
  if (!value) {
    snprintf(key, sizeof key, "FAKE_%s_%s", kind, name);
    value = getenv(key);
  }
  return value;
}
static long value_of(const char *name, int index, long usual) {
  char *value = setting("VALUE", name, index);
  return value ? strtol(value, 0, 0) : usual;
}
static int fault(const char *function, int index) {
  if (setting("HANG", function, index))
    for (;;) pause();
  char *code = setting("ERROR", function, index);
  return code ? atoi(code) : 0;
}
#define CHECK(function, index) do { int code_ = fault(function, index); if (code_) return code_; } while (0)
#define NODE(function) CHECK(#function, -1)
#define NUMBER(function, word, usual) \
  int function(Device *d, u32 *out) { CHECK(#function, d->index); *out = value_of(word, d->index, usual); return 0; }
#define PAIR(function, word, first, second) \
  int function(Device *d, u32 *a, u32 *b) { CHECK(#function, d->index); *a = value_of(word, d->index, first); \
    *b = value_of(word "_PENDING", d->index, second); return 0; }
#define TEXT(function, word, usual) \
  int function(Device *d, char *out, u32 size) { CHECK(#function, d->index); \
    char *text = setting("VALUE", word, d->index); snprintf(out, size, "%s", text ? text : usual); return 0; }

const char *nvmlErrorString(int code) { (void)code; return "fake error"; }
int nvmlInitWithFlags(u32 flags) { (void)flags; NODE(nvmlInit); return 0; }
int nvmlInit_v2(void) { NODE(nvmlInit); return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *out, u32 size) { NODE(nvmlSystemGetDriverVersion);
  char *text = setting("VALUE", "DRIVER", -1); snprintf(out, size, "%s", text ? text : "580.65.06"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return 0; }
int nvmlSystemGetCudaDriverVersion(int *out) { *out = 13000; return 0; }
int nvmlDeviceGetCount_v2(u32 *out) { NODE(nvmlDeviceGetCount);
  char *count = getenv("FAKE_GPUS"); *out = count ? atoi(count) : 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, Device **out) {
  CHECK("nvmlDeviceGetHandleByIndex", (int)index);
  devices[index].index = index; *out = &devices[index]; return 0; }

typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char busId[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *d, Pci *out) {
  CHECK("nvmlDeviceGetPciInfo", d->index);
  memset(out, 0, sizeof *out);
  out->bus = 0x10 + d->index;
  snprintf(out->busId, sizeof out->busId, "00000000:%02X:00.0", out->bus);
  return 0; }
int nvmlDeviceGetUUID(Device *d, char *out, u32 size) { CHECK("nvmlDeviceGetUUID", d->index);
  snprintf(out, size, "GPU-fa4e0000-0000-0000-0000-%012ld", value_of("UUID", d->index, d->index)); return 0; }
int nvmlDeviceGetSerial(Device *d, char *out, u32 size) { CHECK("nvmlDeviceGetSerial", d->index);
  snprintf(out, size, "16540%05d", d->index); return 0; }
TEXT(nvmlDeviceGetName, "NAME", "NVIDIA H200")
TEXT(nvmlDeviceGetVbiosVersion, "VBIOS", "96.00.9C.00.01")
TEXT(nvmlDeviceGetInforomImageVersion, "INFOROM", "G525.0200.00.02")
int nvmlDeviceValidateInforom(Device *d) { CHECK("nvmlDeviceValidateInforom", d->index); return 0; }
int nvmlDeviceGetGspFirmwareVersion(Device *d, char *out) { CHECK("nvmlDeviceGetGspFirmwareVersion", d->index);
  strcpy(out, "580.65.06"); return 0; }

PAIR(nvmlDeviceGetMigMode, "MIG", 0, 0)
PAIR(nvmlDeviceGetEccMode, "ECC", 1, 1)
int nvmlDeviceGetMemoryErrorCounter(Device *d, u32 kind, u32 life, u32 place, u64 *out) {
  (void)life; (void)place;
  CHECK("nvmlDeviceGetMemoryErrorCounter", d->index);
  *out = value_of(kind ? "UNCORRECTED" : "CORRECTED", d->index, 0); return 0; }
int nvmlDeviceGetTotalEccErrors(Device *d, u32 kind, u32 life, u64 *out) {
  (void)life; *out = value_of(kind ? "UNCORRECTED" : "CORRECTED", d->index, 0); return 0; }
int nvmlDeviceGetRemappedRows(Device *d, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failure) {
  CHECK("nvmlDeviceGetRemappedRows", d->index);
  *corrected = value_of("REMAP_CORRECTED", d->index, 0);
  *uncorrected = value_of("REMAP_UNCORRECTED", d->index, 0);
  *pending = value_of("REMAP_PENDING", d->index, 0);
  *failure = value_of("REMAP_FAILURE", d->index, 0);
  return 0; }
int nvmlDeviceGetRowRemapperHistogram(Device *d, u32 *out) {
  CHECK("nvmlDeviceGetRowRemapperHistogram", d->index);
  u32 values[5] = {2560, 0, 0, value_of("BANKS_LOW", d->index, 0), value_of("BANKS_NONE", d->index, 0)};
  memcpy(out, values, sizeof values);
  return 0; }
int nvmlDeviceGetRetiredPages(Device *d, u32 cause, u32 *count, u64 *pages) {
  (void)cause; (void)pages; (void)count; CHECK("nvmlDeviceGetRetiredPages", d->index); return 3; }
int nvmlDeviceGetRetiredPagesPendingStatus(Device *d, u32 *out) { (void)d; (void)out; return 3; }
#ifndef OLD_DRIVER
typedef struct { u32 version; u64 counts[11]; u32 exceeded; } Sram;
int nvmlDeviceGetSramEccErrorStatus(Device *d, Sram *out) {
  CHECK("nvmlDeviceGetSramEccErrorStatus", d->index);
  memset(out->counts, 0, sizeof out->counts);
  out->counts[3] = value_of("SRAM_UNCORRECTED", d->index, 0);
  out->exceeded = value_of("SRAM_EXCEEDED", d->index, 0);
  return 0; }
int nvmlDeviceGetRepairStatus(Device *d, u32 *out) { CHECK("nvmlDeviceGetRepairStatus", d->index);
  out[1] = value_of("REPAIR_CHANNEL", d->index, 0); out[2] = 0; return 0; }
typedef struct { u32 version; int degrees; } Margin;
int nvmlDeviceGetMarginTemperature(Device *d, Margin *out) { CHECK("nvmlDeviceGetMarginTemperature", d->index);
  out->degrees = value_of("MARGIN", d->index, 45); return 0; }
typedef struct { u32 version; unsigned char uuid[16]; int status; u32 clique; unsigned char state; u32 mask; } Fabric;
int nvmlDeviceGetGpuFabricInfoV(Device *d, Fabric *out) { CHECK("nvmlDeviceGetGpuFabricInfoV", d->index);
  out->status = value_of("FABRIC_STATUS", d->index, 0); out->clique = 0;
  out->state = value_of("FABRIC", d->index, 3); out->mask = value_of("FABRIC_MASK", d->index, 0x1aa); return 0; }
#endif

NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "WIDTH", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "MAX_WIDTH", 16)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "GENERATION", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "MAX_GENERATION", 5)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "MAX_GENERATION", 5)
NUMBER(nvmlDeviceGetPcieReplayCounter, "REPLAYS", 0)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "POWER_LIMIT", 700000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "POWER_DEFAULT", 700000)
NUMBER(nvmlDeviceGetPowerUsage, "POWER", 76000)
NUMBER(nvmlDeviceGetPersistenceMode, "PERSISTENCE", 1)
NUMBER(nvmlDeviceGetMemoryBusWidth, "BUS_WIDTH", 6144)
NUMBER(nvmlDeviceGetPerformanceState, "PSTATE", 0)
NUMBER(nvmlDeviceGetNumaNodeId, "NUMA", 0)
int nvmlDeviceGetNvLinkState(Device *d, u32 link, u32 *out) { CHECK("nvmlDeviceGetNvLinkState", d->index);
  *out = (long)link >= value_of("LINKS_UP", d->index, 18) ? 0 : 1; return 0; }
int nvmlDeviceGetNvLinkErrorCounter(Device *d, u32 link, u32 counter, u64 *out) {
  (void)counter; CHECK("nvmlDeviceGetNvLinkErrorCounter", d->index);
  *out = link ? 0 : value_of("LINK_ERRORS", d->index, 0); return 0; }
int nvmlDeviceGetTemperature(Device *d, u32 sensor, u32 *out) { (void)sensor; CHECK("nvmlDeviceGetTemperature", d->index);
  *out = value_of("TEMPERATURE", d->index, 40); return 0; }
int nvmlDeviceGetTemperatureThreshold(Device *d, u32 kind, u32 *out) {
  CHECK("nvmlDeviceGetTemperatureThreshold", d->index); *out = kind == 2 ? 95 : 90; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(Device *d, u64 *out) {
  CHECK("nvmlDeviceGetCurrentClocksEventReasons", d->index); *out = value_of("REASONS", d->index, 1); return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *d, u64 *out) { return nvmlDeviceGetCurrentClocksEventReasons(d, out); }
int nvmlDeviceGetUtilizationRates(Device *d, u32 *out) { CHECK("nvmlDeviceGetUtilizationRates", d->index);
  out[0] = value_of("BUSY", d->index, 0); out[1] = 0; return 0; }
int nvmlDeviceGetClockInfo(Device *d, u32 kind, u32 *out) { CHECK("nvmlDeviceGetClockInfo", d->index);
  *out = kind == 1 ? value_of("CLOCK", d->index, 1980) : 3201; return 0; }
int nvmlDeviceGetMaxClockInfo(Device *d, u32 kind, u32 *out) { CHECK("nvmlDeviceGetMaxClockInfo", d->index);
  *out = kind == 1 ? 1980 : 3201; return 0; }
int nvmlDeviceGetMemoryInfo(Device *d, u64 *out) { CHECK("nvmlDeviceGetMemoryInfo", d->index);
  out[0] = 150754820096ULL; out[1] = 150136160256ULL; out[2] = 618659840ULL; return 0; }
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, u32 *count, Process *out) {
  CHECK("nvmlDeviceGetComputeRunningProcesses", d->index);
  long pid = value_of("PID", d->index, 0);
  if (!pid) { *count = 0; return 0; }
  if (!out || *count < 1) { *count = 1; return 7; }
  out[0] = (Process){pid, 8ULL << 30, 0, 0}; *count = 1; return 0; }

typedef struct { u32 id, scope; long long time, latency; u32 type, status; union { double d; u32 u; u64 l; } value; } Field;
int nvmlDeviceGetFieldValues(Device *d, int count, Field *fields) {
  CHECK("nvmlDeviceGetFieldValues", d->index);
  for (int i = 0; i < count; i++) {
    Field *f = &fields[i];
    char word[32];
    long usual = -1; /* not supported */
    switch (f->id) {
      case 82: usual = 38; break;                                   /* memory temperature */
      case 91: usual = 18; break;                                   /* links */
      case 164: usual = 26562; break;                               /* link speed */
      case 74: case 76: case 142: case 143: case 144: case 145: usual = 0; break;
#ifndef OLD_DRIVER
      case 194: usual = -2; break;                                  /* slowdown margin */
      case 230: case 269: case 270: case 271: usual = 0; break;
      case 173: case 174: case 180: usual = 0; break;
#endif
    }
    snprintf(word, sizeof word, "FIELD%u", f->id);
    int is_known = usual >= 0 || usual == -2 || setting("VALUE", word, d->index);
    long number = value_of(word, d->index, usual);
    f->type = f->id == 194 ? 5 : 3;
    f->status = is_known ? 0 : 3;
    if (setting("ERROR", word, d->index)) f->status = atoi(setting("ERROR", word, d->index));
    f->value.l = (u64)number;
  }
  return 0; }

#ifndef OLD_DRIVER
typedef struct { Device *device; u64 type, data; u32 gpu_instance, compute_instance; } Event;
int nvmlEventSetCreate(void **out) { NODE(nvmlEventSetCreate); static int set; *out = &set; return 0; }
int nvmlEventSetFree(void *set) { (void)set; return 0; }
int nvmlDeviceGetSupportedEventTypes(Device *d, u64 *out) { CHECK("nvmlDeviceGetSupportedEventTypes", d->index);
  *out = value_of("EVENTS", d->index, 0x1f); return 0; }
int nvmlDeviceRegisterEvents(Device *d, u64 types, void *set) { (void)types; (void)set;
  CHECK("nvmlDeviceRegisterEvents", d->index); return 0; }
int nvmlEventSetWait_v2(void *set, Event *out, u32 milliseconds) {
  (void)set;
  static int told; /* how many Xids were */
  char *text = getenv("FAKE_VALUE_XIDS");
  for (int skip = told; text && *text && skip; skip--) { text = strchr(text, ' '); if (text) text++; }
  if (text && *text) {
    int index = atoi(text);
    devices[index].index = index;
    *out = (Event){&devices[index], 8, strtoul(strchr(text, ':') + 1, 0, 10), 0, 0};
    told++;
    return 0;
  }
  NODE(nvmlEventSetWait);
  usleep(value_of("WAIT", -1, milliseconds) * 1000);
  return 10; }
#endif
