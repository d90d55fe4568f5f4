/* A CUDA driver without a card, for machines that have neither: two devices, and the checks that a real driver makes.
 *
 * The structures are declared as cuda.h declares them, so that a caller with another idea of their layout gets a wrong
 * answer here as it would there. FAKE_DRIVER chooses what is wrong: "no device", "not initialised", "550", "570" (releases
 * for older CUDA versions); or "twins", where both devices are of one kind. CUDA_VISIBLE_DEVICES counts here too.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef int CUlaunchAttributeID;
typedef union {
  char pad[64];
  struct { unsigned int x, y, z; } clusterDim;
} CUlaunchAttributeValue;
typedef struct {
  CUlaunchAttributeID id;
  char pad[8 - sizeof(CUlaunchAttributeID)];
  CUlaunchAttributeValue value;
} CUlaunchAttribute;
typedef struct {
  unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned int numAttrs;
} CUlaunchConfig;

enum { DEVICES = 2, FIRST_DEVICE = 40, OPT_IN = 232448 };
static CUcontext stack[8];
static int depth, retained, modules, dynamic_bytes, non_portable;

static int is(const char *fault) { return getenv("FAKE_DRIVER") && !strcmp(getenv("FAKE_DRIVER"), fault); }

/* Number of the device that the process sees under an ordinal; -1 for none. "1,0" turns them round. */
static int physical(int ordinal) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) return ordinal < DEVICES ? ordinal : -1;
  return 2 * ordinal < (int)strlen(visible) ? visible[2 * ordinal] - '0' : -1;
}

/* What the test asserts after the calls: nothing may be left behind. */
int fake_driver_leftovers(void) { return depth * 100 + retained * 10 + modules; }
void fake_driver_make_current(int ordinal) { stack[depth++] = (CUcontext)(size_t)(1000 + physical(ordinal)); }

CUresult cuInit(unsigned int flags) { return flags ? 1 : is("no device") ? 100 : is("not initialised") ? 3 : 0; }
CUresult cuGetErrorName(CUresult code, const char **name) {
  *name = code == 3 ? "CUDA_ERROR_NOT_INITIALIZED" : NULL;
  return 0;
}
CUresult cuDriverGetVersion(int *version) { return *version = is("550") ? 12040 : is("570") ? 12080 : 13000, 0; }
CUresult cuDeviceGetCount(int *count) {
  for (*count = 0; physical(*count) >= 0;) ++*count;
  return 0;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) { return *device = FIRST_DEVICE + physical(ordinal), 0; }
CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  return snprintf(name, size, "NVIDIA Fake %d", device - FIRST_DEVICE), 0;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  return *bytes = (size_t)141 << 30, device < FIRST_DEVICE;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  int first = device == FIRST_DEVICE || is("twins");
  switch (attribute) {
  case 16: *value = first ? 132 : 142; return 0;
  case 38: *value = 62914560; return 0;
  case 75: *value = first ? 9 : 8; return 0;
  case 76: *value = first ? 0 : 9; return 0;
  case 81: *value = 233472; return 0;
  case 82: *value = 65536; return 0;
  case 97: *value = OPT_IN; return 0;
  case 120: *value = first; return 0;
  }
  return 1;
}

CUresult cuCtxGetCurrent(CUcontext *context) { return *context = depth ? stack[depth - 1] : NULL, 0; }
CUresult cuCtxGetDevice(CUdevice *device) {
  if (!depth) return 201;
  return *device = FIRST_DEVICE + (int)(size_t)stack[depth - 1] - 1000, 0;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  retained++;
  return *context = (CUcontext)(size_t)(1000 + device - FIRST_DEVICE), 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return retained--, device < FIRST_DEVICE; }
CUresult cuCtxPushCurrent_v2(CUcontext context) { return stack[depth++] = context, 0; }
CUresult cuCtxPopCurrent_v2(CUcontext *context) { return *context = stack[--depth], 0; }

CUresult cuModuleLoadData(CUmodule *module, const char *image) {
  if (!depth) return 201;
  if (strncmp(image, ".version ", 9) || !strstr(image, ".visible .entry")) return 218;
  modules++;
  return *module = (CUmodule)image, 0;
}
CUresult cuModuleUnload(CUmodule module) { return modules--, module == NULL; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  *function = (CUfunction)strstr((const char *)module, name);
  return *function ? 0 : 500;
}
CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  if (attribute == 8) dynamic_bytes = value;
  if (attribute == 14) non_portable = value;
  return function == NULL;
}
/* The counts of a real H200. */
CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config) {
  const CUlaunchAttribute *attribute = config->attrs;
  if (!function || config->numAttrs != 1 || config->hStream || attribute->id != 4) return 1;
  unsigned int size = attribute->value.clusterDim.x;
  if (attribute->value.clusterDim.y != 1 || attribute->value.clusterDim.z != 1) return 1;
  if (config->gridDimX % size || config->gridDimY != 1 || config->gridDimZ != 1) return 1;
  if (config->blockDimX != 128 || config->blockDimY != 1 || config->blockDimZ != 1) return 1;
  if (config->sharedMemBytes != OPT_IN || dynamic_bytes != OPT_IN) return 1;
  if (size > 8 && (!non_portable || is("portable only"))) return 912;
  *clusters = size == 1 ? 132 : size == 2 ? 66 : size == 4 ? 30 : size == 8 ? 15 : 7;
  return 0;
}
