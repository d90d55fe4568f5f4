/* The callable kf_preload of a pack: loads the device code of all its kernels onto the current device.
 *
 * The builder puts the table `preloads` before this text, one function for each kernel of the pack: it initialises the
 * kernel on a device and hands out the handle of its image. Compiled without headers, so that any target can be built
 * with no C library at hand.
 */

/* As tvm/ffi/c_api.h has it. */
struct any {
    int type_index;
    unsigned zero_padding;
    long long integer;
};

enum { INTEGER = 1, INVALID_DEVICE = 101, KERNELS_AT_ONCE = 64 };

extern void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
extern void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int count);
extern void CuteDSLRT_TVMFFISetRaisedCudaError(void (*set_error)(const char *, const char **, int), int code);
extern int cudaGetDevice(int *device);
extern int cudaLibraryGetKernelCount(unsigned *count, void *library);
extern int cudaLibraryEnumerateKernels(void **kernels, unsigned count, void *library);
extern int cudaFuncGetAttributes(void *attributes, const void *kernel);

/* CUDA loads lazily: the image of a kernel reaches the card when somebody needs the kernel there. Asking for its
 * attributes is the need that launches nothing.
 */
static int load_kernels(void *library)
{
    void *kernels[KERNELS_AT_ONCE];
    unsigned long long attributes[128]; /* cudaFuncAttributes has less than 200 bytes, and grows */
    unsigned count = 0;
    int code = cudaLibraryGetKernelCount(&count, library);

    if (code == 0 && count > KERNELS_AT_ONCE) {
        TVMFFIErrorSetRaisedFromCStr("RuntimeError", "one image holds more than 64 kernels");
        return -1;
    }
    if (code == 0)
        code = cudaLibraryEnumerateKernels(kernels, count, library);
    for (unsigned i = 0; code == 0 && i < count; i++)
        code = cudaFuncGetAttributes(attributes, kernels[i]);
    return code;
}

/* (device ordinal) -> number of kernels of the pack. The device must be current: the caller's thread decides which one
 * that is, and no CUDA function here changes it.
 */
int __tvm_ffi_kf_preload(void *self, const struct any *arguments, int count, struct any *result)
{
    const unsigned total = sizeof(preloads) / sizeof(preloads[0]);
    int current = -1, code;

    if (count != 1 || arguments[0].type_index != INTEGER) {
        TVMFFIErrorSetRaisedFromCStr("TypeError", "Expects 1 parameter, the ordinal of a device");
        return -1;
    }
    code = cudaGetDevice(&current);
    if (code == 0 && current != arguments[0].integer)
        code = INVALID_DEVICE;
    for (unsigned i = 0; code == 0 && i < total; i++) {
        void *library = 0;

        code = preloads[i](current, &library);
        if (code == 0)
            code = load_kernels(library);
    }
    if (code > 0)
        CuteDSLRT_TVMFFISetRaisedCudaError(TVMFFIErrorSetRaisedFromCStrParts, code);
    if (code != 0)
        return -1;
    result->type_index = INTEGER;
    result->zero_padding = 0;
    result->integer = total;
    return 0;
}
