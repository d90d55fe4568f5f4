/* The CUDA runtime as far as a pack needs it to launch, on a machine without one: it launches nothing and remembers what
 * it was asked to load and to launch. Functions that a pack links but a launch does not reach are added as stubs by the test.
 */

typedef unsigned long size_type;

struct launch_config {
    unsigned grid[3], block[3];
    size_type dynamic_shared_memory_bytes;
    void *stream, *attributes;
    unsigned attribute_count;
};

enum { MOST_PARAMETERS = 16, MOST_PARAMETER_BYTES = 256, MOST_DEVICES = 8, MOST_LIBRARIES = 1024, OUT_OF_MEMORY = 2 };

/* The caller says how large the kernel's parameters are; the launch itself passes only their addresses. */
int recorded_parameter_count;
size_type recorded_parameter_bytes[MOST_PARAMETERS];
unsigned char recorded_parameters[MOST_PARAMETERS][MOST_PARAMETER_BYTES];
struct launch_config recorded_config;
int recorded_launches;
int recorded_launch_device;

/* A library is the number of its load, counted from 1, and the handle of its one kernel is the same. Images reach a
 * device lazily, as with CUDA: when somebody needs a kernel there that nobody needed before.
 */
int recorded_device_count = 1;
int recorded_failing_device = -1; /* has no memory left for kernels */
int recorded_libraries;
int recorded_lazy_loads[MOST_DEVICES];
int recorded_prepared[MOST_DEVICES]; /* kernels whose attributes were set */
int recorded_set_device_calls;
static char is_on_device[MOST_DEVICES][MOST_LIBRARIES];
static int selected_device;

/* The driver's current context decides, where the test has loaded a driver and there is one. */
extern int cuCtxGetDevice(int *device) __attribute__((weak));
extern int cuDeviceGet(int *device, int ordinal) __attribute__((weak));

static int current_device(void)
{
    int current, device;

    if (cuCtxGetDevice && cuCtxGetDevice(&current) == 0)
        for (int ordinal = 0; ordinal < MOST_DEVICES; ordinal++)
            if (cuDeviceGet(&device, ordinal) == 0 && device == current)
                return ordinal;
    return selected_device;
}

static int need_kernel(const void *kernel)
{
    char *is_here = &is_on_device[current_device()][(size_type)kernel];

    if (current_device() == recorded_failing_device)
        return OUT_OF_MEMORY;
    recorded_lazy_loads[current_device()] += !*is_here;
    *is_here = 1;
    return 0;
}

int cudaFuncGetAttributes(void *attributes, const void *kernel)
{
    return need_kernel(kernel);
}

int cudaSetDevice(int device)
{
    recorded_set_device_calls++;
    selected_device = device;
    return 0;
}

int cudaLaunchKernelExC(const struct launch_config *config, const void *kernel, void **parameters)
{
    int code = need_kernel(kernel);

    if (code)
        return code;
    recorded_config = *config;
    recorded_launches++;
    recorded_launch_device = current_device();
    for (int i = 0; i < recorded_parameter_count; i++)
        for (size_type j = 0; j < recorded_parameter_bytes[i]; j++)
            recorded_parameters[i][j] = ((unsigned char *)parameters[i])[j];
    return 0;
}

int cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cudaGetDevice(int *device)
{
    *device = current_device();
    return 0;
}

int cudaGetDeviceCount(int *count)
{
    *count = recorded_device_count;
    return 0;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = 232448;
    return 0;
}

int cudaLibraryLoadData(void **library)
{
    *library = (void *)(size_type)++recorded_libraries;
    return 0;
}

int cudaLibraryGetKernel(void **kernel, void *library)
{
    *kernel = library;
    return 0;
}

int cudaLibraryGetKernelCount(unsigned *count, void *library)
{
    *count = 1;
    return 0;
}

int cudaLibraryEnumerateKernels(void **kernels, unsigned count, void *library)
{
    kernels[0] = library;
    return 0;
}

int cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int device)
{
    if (device == recorded_failing_device)
        return OUT_OF_MEMORY;
    recorded_prepared[device] += attribute == 8; /* the most dynamic shared memory */
    return 0;
}

static int succeed(void)
{
    return 0;
}

int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags,
                                     int *status)
{
    *function = (void *)succeed;
    *status = 0;
    return 0;
}

const char *cudaGetErrorName(int code)
{
    return code == OUT_OF_MEMORY ? "cudaErrorMemoryAllocation" : "an error of the recording runtime";
}

const char *cudaGetErrorString(int code)
{
    return "an error of the recording runtime";
}
