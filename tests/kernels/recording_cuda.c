/* The CUDA runtime as far as a pack needs it to launch, on a machine without one: it launches nothing and remembers what
 * it was asked to launch. Functions that a pack links but a launch does not reach are added as stubs by the test.
 */

typedef unsigned long size_type;

struct launch_config {
    unsigned grid[3], block[3];
    size_type dynamic_shared_memory_bytes;
    void *stream, *attributes;
    unsigned attribute_count;
};

enum { MOST_PARAMETERS = 16, MOST_PARAMETER_BYTES = 256 };

/* The caller says how large the kernel's parameters are; the launch itself passes only their addresses. */
int recorded_parameter_count;
size_type recorded_parameter_bytes[MOST_PARAMETERS];
unsigned char recorded_parameters[MOST_PARAMETERS][MOST_PARAMETER_BYTES];
struct launch_config recorded_config;
int recorded_launches;

int cudaLaunchKernelExC(const struct launch_config *config, const void *kernel, void **parameters)
{
    recorded_config = *config;
    recorded_launches++;
    for (int i = 0; i < recorded_parameter_count; i++)
        for (size_type j = 0; j < recorded_parameter_bytes[i]; j++)
            recorded_parameters[i][j] = ((unsigned char *)parameters[i])[j];
    return 0;
}

int cudaGetDevice(int *device)
{
    *device = 0;
    return 0;
}

int cudaGetDeviceCount(int *count)
{
    *count = 1;
    return 0;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = 232448;
    return 0;
}

int cudaLibraryLoadData(void **library)
{
    *library = (void *)1;
    return 0;
}

int cudaLibraryGetKernel(void **kernel)
{
    *kernel = (void *)2;
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
    return "an error of the recording runtime";
}

const char *cudaGetErrorString(int code)
{
    return "an error of the recording runtime";
}
