/* The one function that objects need and NVIDIA's static runtime lacks: turn a CUDA error code into a tvm-ffi error.
 *
 * Contract: CuteDSLRuntime.h in the compiler's wheel. Compiled without headers, so that any target can be built with
 * no C library at hand.
 */

typedef void (*set_error_from_parts)(const char *kind, const char **parts, int count);

extern const char *cudaGetErrorName(int code);
extern const char *cudaGetErrorString(int code);

void CuteDSLRT_TVMFFISetRaisedCudaError(set_error_from_parts set_error, int code)
{
    const char *parts[] = {"CUDA error ", cudaGetErrorName(code), ": ", cudaGetErrorString(code)};

    set_error("RuntimeError", parts, (int)(sizeof(parts) / sizeof(parts[0])));
}
