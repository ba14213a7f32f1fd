/* Kiln for C, and for every language that calls C: libkiln.so.
 *
 *   kiln_client* client;
 *   kiln_graph* graph;
 *   kiln_compiled_graph* fn;
 *   if (kiln_client_create(NULL, &client) || kiln_graph_read("mlp.kg", &graph) ||
 *       kiln_graph_compile(client, graph, NULL, &fn) || kiln_graph_run(fn, inputs, 3, outputs, 1, NULL))
 *     fprintf(stderr, "%s\n", kiln_error_message());
 *
 * docs/use/c-api.md is the way in. What holds of all functions:
 *
 * Errors. A function that can fail returns a kiln_status: KILN_OK, or what went wrong; kiln_error_message() of the same
 * thread says it in words. A failed call has changed nothing that its comment does not name, and sets no result. No
 * call ends the process, and no C++ exception comes out of one.
 *
 * Handles. A kiln_client*, kiln_graph* and so on is a number and no address: do not read through it. Whoever gets one
 * owns it and gives it to kiln_free(), in any order: what needs another object keeps it. A handle that is NULL, freed,
 * or of another kind is KILN_INVALID_ARGUMENT. (After 2^32 handles in the place of a freed one it may be taken for a
 * newer one.)
 *
 * Threads. Every function may be called from every thread at any time, with the same handles, unless it says otherwise.
 * A handle may be freed while other threads are in calls with it: the object goes when the last of them is done.
 *
 * Pointers that a caller passes are borrowed for the call, unless a comment says otherwise. Texts are UTF-8 and end
 * with a 0. Names that a handle gives live as long as the handle.
 *
 * Structs of options begin with their size, so that later versions can add fields: fill in sizeof, leave the rest 0 for
 * the default. A null pointer to options means all defaults.
 *
 * The library stays in the process: dlclose() does not unload it.
 *
 * A child of fork() may use what is there: clients connect anew; streams and devices of GPUs are lost to it.
 */
#ifndef KILN_H
#define KILN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KILN_API __attribute__((visibility("default")))
#else
#define KILN_API
#endif

/* --- Version ---------------------------------------------------------------------------------------------------- */

/* Of this header. Programs run with a library of the same major and minor version, and of any later one of that major
 * version once that is not 0. */
#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1
#define KILN_VERSION_PATCH 0

/* "0.1.0", of the library. */
KILN_API const char* kiln_version(void);

/* --- Errors ----------------------------------------------------------------------------------------------------- */

typedef int32_t kiln_status;
enum {
  KILN_OK = 0,
  KILN_INVALID_ARGUMENT = 1, /* the caller's input is wrong: a handle, a text, an option, an array */
  KILN_VERIFY_FAILED = 2,    /* the kernel or graph breaks a rule of the language */
  KILN_COMPILE_FAILED = 3,   /* it cannot be compiled for this target; repeating does not help */
  KILN_WORKER_CRASHED = 4,   /* the worker process died while compiling */
  KILN_POISONED = 5,         /* this request killed workers before, and is refused for a while */
  KILN_OUT_OF_MEMORY = 6,
  KILN_DEADLINE_EXCEEDED = 7,
  KILN_CANCELLED = 8,
  KILN_RESOURCE_EXHAUSTED = 9, /* a queue or a limit is full: kiln_error_retry_after_ms() */
  KILN_DRAINING = 10,          /* the daemon is shutting down */
  KILN_VERSION_MISMATCH = 11,
  KILN_PERMISSION_DENIED = 12,
  KILN_NOT_FOUND = 13,
  KILN_UNAVAILABLE = 14, /* no daemon can be reached, and none could be started */
  KILN_INTERNAL = 15     /* a mistake of Kiln's own */
};

/* Of this thread's last call that failed; "" before any. It names the thing and the place, maybe in several lines, and
 * stays until the next call of this thread that fails. */
KILN_API const char* kiln_error_message(void);
/* "INVALID_ARGUMENT"; "OK" of 0, and "UNKNOWN" of what is no status. */
KILN_API const char* kiln_status_name(kiln_status status);
/* Of this thread's last failure: whether the same call may succeed later, and after how long it is worth trying. */
KILN_API int32_t kiln_error_is_retryable(void);
KILN_API uint32_t kiln_error_retry_after_ms(void);

/* --- Handles ---------------------------------------------------------------------------------------------------- */

typedef struct kiln_client kiln_client;
typedef struct kiln_bytes kiln_bytes;
typedef struct kiln_cancel kiln_cancel;
typedef struct kiln_graph kiln_graph;
typedef struct kiln_compiled_graph kiln_compiled_graph;
typedef struct kiln_tensor kiln_tensor;
typedef struct kiln_safetensors kiln_safetensors;
typedef struct kiln_model kiln_model;
typedef struct kiln_kernel kiln_kernel;
typedef struct kiln_function kiln_function;
typedef struct kiln_device kiln_device;
typedef struct kiln_stream kiln_stream;
typedef struct kiln_event kiln_event;
typedef struct kiln_recording kiln_recording;
typedef struct kiln_memory kiln_memory;

/* Gives any handle back; NULL is fine. KILN_INVALID_ARGUMENT: it is none, or was freed before. */
KILN_API kiln_status kiln_free(void* handle);

/* Text or bytes that a call gave. Of bad handles NULL and 0. A 0 stands behind the last byte. */
KILN_API const char* kiln_bytes_data(kiln_bytes* bytes);
KILN_API size_t kiln_bytes_size(kiln_bytes* bytes);

/* A word to calls that take one: stop. It may be given before, or from another thread; it cannot be taken back. */
KILN_API kiln_status kiln_cancel_create(kiln_cancel** cancel);
KILN_API kiln_status kiln_cancel_request(kiln_cancel* cancel);

/* --- Client ----------------------------------------------------------------------------------------------------- */

/* How the daemon is found or started; it is when something is first compiled. */
typedef struct kiln_client_options {
  size_t size;
  const char* runtime_dir;  /* where the daemon's socket lies. Default: KILN_RUNTIME_DIR, or the session's */
  const char* kilnd_path;   /* default: KILN_KILND, beside this library's installation, then PATH */
  const char* worker_path;  /* default: where kilnd's installation has kiln-worker */
  const char* programs_dir; /* where kilnd is looked for, in place of this library's installation */
  const char* client_name;  /* in the daemon's log */
  int32_t no_autostart;     /* 1: do not start a daemon where none runs */
  int32_t any_build;        /* 1: a daemon of another build than kilnd_path is used as it is */
  int32_t no_pipe;          /* 1: where no daemon can live, do not start one for this process alone */
  int32_t no_background;    /* 1: do not compile better code behind launches */
  uint32_t start_timeout_ms;
  uint32_t daemon_arg_count;
  const char* const* daemon_args; /* of a daemon that is started */
} kiln_client_options;

/* Freeing it cancels what compiles behind launches; what it compiled stays usable. */
KILN_API kiln_status kiln_client_create(const kiln_client_options* options, kiln_client** client);

/* --- Element types, arrays -------------------------------------------------------------------------------------- */

typedef uint32_t kiln_type;
enum {
  KILN_NO_TYPE = 0,
  KILN_I1 = 1, /* a byte, 0 or 1 */
  KILN_I8 = 2,
  KILN_I16 = 3,
  KILN_I32 = 4,
  KILN_I64 = 5,
  KILN_U8 = 6,
  KILN_U16 = 7,
  KILN_U32 = 8,
  KILN_U64 = 9,
  KILN_F16 = 10,
  KILN_BF16 = 11,
  KILN_F32 = 12,
  KILN_F64 = 13,
  KILN_F8E4M3 = 14,
  KILN_F8E5M2 = 15
};
/* "f32"; NULL of what is no type. */
KILN_API const char* kiln_type_name(kiln_type type);
/* Bytes of an element in memory; 0 of what is no type. */
KILN_API size_t kiln_type_size(kiln_type type);

/* Where an array lies. */
enum {
  KILN_HOST = 0, /* memory that this process reads and writes */
  KILN_CUDA = 1, /* of the NVIDIA GPU `ordinal` */
  KILN_AMD = 2   /* of the AMD GPU `ordinal` */
};
/* What may be done with it. */
enum {
  KILN_WRITABLE = 1 /* an output; of an input: it is donated, and the run may write to it */
};
#define KILN_MAX_RANK 16

/* Elements in memory that somebody else keeps. */
typedef struct kiln_array {
  void* data;             /* of the element at index 0 of each axis; may be NULL where there are no elements */
  const int64_t* shape;   /* `rank` extents */
  const int64_t* strides; /* `rank` numbers of elements, of any sign, 0 repeats; NULL: row-major */
  uint64_t bytes;         /* behind data, as far as it is known; 0: not known. Of row-major arrays it is checked. */
  int32_t rank;           /* 0 … KILN_MAX_RANK */
  kiln_type type;
  uint32_t device;  /* KILN_HOST, … */
  int32_t ordinal;  /* of the device */
  uint32_t flags;   /* KILN_WRITABLE */
  uint32_t ignored; /* keeps the size a multiple of 8 on every machine */
} kiln_array;

/* A name with a number: sizes of dims, constants of a kernel. */
typedef struct kiln_named_int {
  const char* name;
  int64_t value;
} kiln_named_int;

/* An array that keeps its memory, in row-major order if it is one of these two, with 64-byte alignment. */
KILN_API kiln_status kiln_tensor_allocate(kiln_type type, int32_t rank, const int64_t* shape, kiln_tensor** tensor);
/* A view of it, for as long as the handle lives. KILN_WRITABLE is set where it may be written to. */
KILN_API kiln_status kiln_tensor_array(kiln_tensor* tensor, kiln_array* array);

/* Arrays of other libraries, by DLPack 1: a DLManagedTensorVersioned* where `is_versioned` is 1, else a
 * DLManagedTensor*. The tensor takes it over and calls its deleter in the end; after an error it is the caller's still.
 * Nothing is copied. Memory of the host (also pinned or managed), of CUDA and of ROCm; one that is read only gets no
 * KILN_WRITABLE, and one without versions does, for it cannot say. KILN_INVALID_ARGUMENT: a type, device, shape or
 * version that Kiln does not have, or one that was taken over before. */
KILN_API kiln_status kiln_tensor_from_dlpack(void* managed, int32_t is_versioned, kiln_tensor** tensor);
/* For another library: it calls the deleter, from any thread. The elements live as long as that or the tensor needs
 * them. A tensor that is read only has to be versioned. */
KILN_API kiln_status kiln_tensor_to_dlpack(kiln_tensor* tensor, int32_t is_versioned, void** managed);

/* NumPy's `.npy`, versions 1 and 2, little-endian, C order. `type`: what the elements are, for types that NumPy lacks:
 * bf16 in u16, f8 in u8; KILN_NO_TYPE: as the file says. */
KILN_API kiln_status kiln_tensor_read_npy(const char* path, kiln_type type, kiln_tensor** tensor);
/* Of a row-major array of the host. The file is there whole or not at all. */
KILN_API kiln_status kiln_array_write_npy(const kiln_array* array, const char* path);

/* Weights from a `.safetensors` file, by memory map: read when they are used. The file must not be cut short while it
 * is open. */
KILN_API kiln_status kiln_safetensors_open(const char* path, kiln_safetensors** file);
KILN_API size_t kiln_safetensors_count(kiln_safetensors* file);                   /* of bad handles 0 */
KILN_API const char* kiln_safetensors_name(kiln_safetensors* file, size_t index); /* NULL: there is none */
/* Read only; it keeps the file. KILN_NOT_FOUND: the file has none of that name. */
KILN_API kiln_status kiln_safetensors_get(kiln_safetensors* file, const char* name, kiln_tensor** tensor);

/* --- Compiling and running, of graphs and kernels --------------------------------------------------------------- */

/* Who chooses what the caller does not: of a kernel the service, without a measurement, or its tuner; of a graph the
 * kernels' defaults, or the tuner. */
enum {
  KILN_MODE_DEFAULT = 0,
  KILN_MODE_AUTOTUNE = 1, /* runs take the default at once, and what is better when it has been found behind them */
  KILN_MODE_MAX = 2,      /* the first run of some sizes waits for the tuner */
  KILN_MODE_FIXED = 3     /* the kernels' defaults, for all sizes */
};

/* A line that a kernel's `print` gives. Called while the run is, by one thread at a time; it must return. */
typedef void (*kiln_print_fn)(const char* text, void* data);

/* Graphs, and models of PyTorch. */
#include "kiln_graph.h"

/* --- Kernels ---------------------------------------------------------------------------------------------------- */

/* What a kernel file holds is told from its first bytes: `.kiln` text, or what kiln_kernel_encode() gives. The kernel
 * is verified. KILN_VERIFY_FAILED or KILN_INVALID_ARGUMENT with FILE:LINE:COLUMN of what is wrong. */
KILN_API kiln_status kiln_kernel_read(const char* path, kiln_kernel** kernel);
/* The same of bytes in memory; `name` stands for the file in errors, NULL for "kernel". */
KILN_API kiln_status kiln_kernel_parse(const void* data, size_t size, const char* name, kiln_kernel** kernel);
/* One of the kernel library, by its name in docs/use/kernels.md. */
KILN_API kiln_status kiln_kernel_library(const char* name, kiln_kernel** kernel);
KILN_API kiln_status kiln_kernel_text(kiln_kernel* kernel, kiln_bytes** text);
KILN_API kiln_status kiln_kernel_encode(kiln_kernel* kernel, kiln_bytes** bytes);
/* NULL of bad handles. */
KILN_API const char* kiln_kernel_name(kiln_kernel* kernel);

typedef struct kiln_param_info {
  const char* name;
  kiln_type type;     /* of the scalar, or of the elements behind the pointer */
  int32_t is_pointer; /* 1: an array */
  int32_t read_only;  /* 1: an array that the kernel does not write to */
} kiln_param_info;
/* Of bad handles 0. */
KILN_API size_t kiln_kernel_param_count(kiln_kernel* kernel);
KILN_API kiln_status kiln_kernel_param(kiln_kernel* kernel, size_t index, kiln_param_info* info);

typedef struct kiln_kernel_options {
  size_t size;
  const char* target;               /* as in kiln_graph_options */
  const kiln_named_int* constexprs; /* the config: constexprs, and schedule options of docs/reference/schedule.md */
  uint32_t constexpr_count;
  uint32_t deadline_ms; /* 0: the daemon's default */
  int32_t mode;         /* KILN_MODE_DEFAULT, … */
  uint32_t tune_budget_ms;
  uint32_t tune_wait_ms;
  int32_t quick_start; /* 1: of a CPU, begin with code that compiles faster and runs slower; better code follows */
} kiln_kernel_options;

/* A kernel ready to launch. A repeated call for the same kernel asks the daemon again. */
KILN_API kiln_status kiln_kernel_compile(kiln_client* client, kiln_kernel* kernel, const kiln_kernel_options* options,
                                         kiln_function** fn);

/* Of code that is compiled for later or for another machine. */
typedef struct kiln_ahead_options {
  size_t size;
  const char* target; /* as in kiln_graph_options, but not "interp" */
  const kiln_named_int* constexprs;
  uint32_t constexpr_count;
  uint32_t fact_count;
  const char* const* facts; /* by parameter: "none", "align16" of pointers, "x8", "x16", "one" of ints. The code is
                             * sound only for arguments of which they hold. */
  const char* emit;         /* "so" (default): what kiln_function_load() takes; docs/use/cli.md has the others */
  uint32_t deadline_ms;
  uint32_t ignored;
} kiln_ahead_options;
KILN_API kiln_status kiln_kernel_compile_ahead(kiln_client* client, kiln_kernel* kernel,
                                               const kiln_ahead_options* options, kiln_bytes** code,
                                               kiln_bytes** metadata);
/* A function of such code, without a daemon. The kernel must be the one that it was compiled from; a launch whose
 * arguments break its facts is an error. */
KILN_API kiln_status kiln_function_load(kiln_kernel* kernel, const void* code, size_t code_size, const char* metadata,
                                        size_t metadata_size, kiln_function** fn);

/* Code of the caller's own for a kernel without ops, which declares it: docs/use/custom-kernels.md. */
enum { KILN_CODE_LLVM_IR = 0, KILN_CODE_PTX = 1, KILN_CODE_AMD_ASSEMBLY = 2 };
typedef struct kiln_custom_code {
  size_t size;
  const char* text; /* needs no 0 at its end */
  size_t text_size;
  const char* entry;     /* the function's name in the text; NULL: the kernel's */
  const char* file;      /* what errors call the text; NULL: by the kernel's name */
  const char* target;    /* as in kiln_graph_options, but not "interp" */
  int32_t form;          /* KILN_CODE_LLVM_IR, … */
  uint32_t threads;      /* of a block, on GPUs; 0: 1 */
  uint64_t shared_bytes; /* on GPUs, beyond what the text declares */
  uint32_t deadline_ms;  /* 0: the daemon's default */
  uint32_t ignored;
} kiln_custom_code;
KILN_API kiln_status kiln_kernel_compile_custom(kiln_client* client, kiln_kernel* kernel, const kiln_custom_code* code,
                                                kiln_function** fn);
/* A function of a shared object, of the type kiln_entry_fn of kiln/abi/cpu_abi.h. A path without "/" is of the working
 * directory. */
KILN_API kiln_status kiln_function_of_object(kiln_kernel* kernel, const char* path, const char* symbol,
                                             kiln_function** fn);

/* What a launch passes for one parameter. */
enum {
  KILN_ARG_POINTER = 1, /* of an array: value.pointer; NULL only where it has 0 elements */
  KILN_ARG_INT = 2,     /* of an int or i1: value.i, which the parameter's type must have */
  KILN_ARG_UINT = 3,    /* the same: value.u */
  KILN_ARG_FLOAT = 4    /* of a float: value.f, rounded to the parameter's type */
};
typedef struct kiln_argument {
  uint32_t kind;  /* KILN_ARG_POINTER, … */
  kiln_type type; /* of a pointer: of its elements, which must be the parameter's; KILN_NO_TYPE: not checked */
  union {
    void* pointer;
    int64_t i;
    uint64_t u;
    double f;
  } value;
  int64_t extent;  /* of a pointer: elements behind it; -1: not known */
  uint32_t device; /* of a pointer: KILN_HOST, …, where the function must run */
  int32_t ordinal;
} kiln_argument;

typedef struct kiln_launch_options {
  size_t size;
  int32_t threads;     /* 0: OpenMP's default */
  int32_t grid_is_set; /* 1: `grid` in place of the kernel's own */
  uint32_t grid[3];
  uint32_t ignored;
  kiln_stream* stream; /* NULL: the device's default stream; of a CPU and the interpreter, done on return */
  kiln_print_fn print; /* of a GPU it is called by who waits for the launch. NULL: to the standard error */
  void* print_data;
} kiln_launch_options;

/* Arguments in the order of the parameters. On a GPU, and on a stream of a CPU, the launch is queued, arrays and the
 * function's handle must stay until it is done, and what goes wrong is the error of a later synchronisation. */
KILN_API kiln_status kiln_function_launch(kiln_function* fn, const kiln_argument* arguments, size_t count,
                                          const kiln_launch_options* options);
/* Compiles the best code for such arguments, and waits; with a mode it waits for the tuner too. Nothing runs. */
KILN_API kiln_status kiln_function_prepare(kiln_function* fn, const kiln_argument* arguments, size_t count);
/* The config that a launch with these arguments takes now, a line "NAME=VALUE" for each constexpr and option. No
 * arguments (NULL and 0): the one that it was compiled with. */
KILN_API kiln_status kiln_function_config(kiln_function* fn, const kiln_argument* arguments, size_t count,
                                          kiln_bytes** text);
/* As JSON: docs/reference/artifact.md. */
KILN_API kiln_status kiln_function_metadata(kiln_function* fn, kiln_bytes** json);

/* --- Devices, streams, events, memory --------------------------------------------------------------------------- */

/* How many devices of a kind there are: KILN_HOST has 1. KILN_UNAVAILABLE or another status where there is no driver.
 */
KILN_API kiln_status kiln_device_count(uint32_t kind, size_t* count);
/* `kind`: KILN_HOST of the processors, KILN_CUDA, KILN_AMD; `ordinal` as its driver counts. */
KILN_API kiln_status kiln_device_open(uint32_t kind, int32_t ordinal, kiln_device** device);

typedef struct kiln_device_info {
  const char* name;   /* "NVIDIA H200" */
  const char* target; /* what kernels are compiled for: "cuda:sm_90a" */
  uint64_t memory_bytes;
  uint64_t cache_bytes; /* of the last cache before memory; 0: not known */
  uint32_t kind;
  int32_t ordinal;
  uint32_t multiprocessors; /* of CPUs: processors that this process may run on */
  uint32_t shared_bytes;    /* shared memory that one block may have */
  int32_t driver_version;
  uint32_t ignored;
} kiln_device_info;
KILN_API kiln_status kiln_device_get_info(kiln_device* device, kiln_device_info* info);
/* Waits for all work of the device. */
KILN_API kiln_status kiln_device_synchronise(kiln_device* device);

/* What this process has of the device's memory by Kiln, in bytes. */
typedef struct kiln_memory_use {
  uint64_t bytes;
  uint64_t peak_bytes;
  uint64_t hard_limit; /* 0: none */
  uint64_t soft_limit;
  uint64_t pieces;
} kiln_memory_use;
KILN_API kiln_status kiln_device_get_memory_use(kiln_device* device, kiln_memory_use* use);
/* Who has it, the largest first, a line "BYTES PIECES NAME" each. */
KILN_API kiln_status kiln_device_get_memory_holders(kiln_device* device, kiln_bytes** text);
/* The peak begins anew at what there is now. */
KILN_API kiln_status kiln_device_forget_memory_peak(kiln_device* device);
/* Most of the device's memory that this process may have by Kiln, as fractions of all; memory that it has stays. Beyond
 * `soft` what waits for a later run is given back first; beyond `hard` an allocation is KILN_OUT_OF_MEMORY, and the
 * message names the largest holders. 0: no limit. */
KILN_API kiln_status kiln_device_set_memory_fraction(kiln_device* device, double hard, double soft);
/* What waits for a later run goes to the driver; `bytes`, if it is not NULL, takes how much that was. */
KILN_API kiln_status kiln_device_give_back_caches(kiln_device* device, uint64_t* bytes);

/* A queue of work beside others. `cores`: of processors, those that it runs on; NULL and 0: any. */
KILN_API kiln_status kiln_stream_create(kiln_device* device, const int32_t* cores, size_t core_count,
                                        kiln_stream** stream);
/* Another library's stream, which stays that library's and outlives the handle: a CUstream, cudaStream_t, hipStream_t.
 * Keep the handle for as long as runs go there: it has what they need. NULL: the driver's default stream. */
KILN_API kiln_status kiln_stream_wrap(kiln_device* device, void* native, kiln_stream** stream);
/* Waits for what was queued. The error names the launch that failed. */
KILN_API kiln_status kiln_stream_synchronise(kiln_stream* stream);
/* The processors of this process in `parts` disjoint parts of neighbours, as even as can be: `cores` takes them part by
 * part, and counts[i] says how many part i has. KILN_INVALID_ARGUMENT: there are fewer processors than parts, or more
 * than `capacity`. */
KILN_API kiln_status kiln_split_cores(int32_t parts, int32_t* cores, size_t capacity, size_t* counts);

/* A point in a stream's work. One that was never recorded is reached. */
KILN_API kiln_status kiln_event_create(kiln_device* device, kiln_event** event);
/* Moves it behind what the stream has now. */
KILN_API kiln_status kiln_event_record(kiln_event* event, kiln_stream* stream);
KILN_API kiln_status kiln_event_synchronise(kiln_event* event);
/* 1 in `done` where the point is reached, else 0; does not wait. */
KILN_API kiln_status kiln_event_is_done(kiln_event* event, int32_t* done);
/* What is queued on the stream from now on waits for the event. */
KILN_API kiln_status kiln_event_hold_back(kiln_event* event, kiln_stream* stream);
/* Between two events that are done. */
KILN_API kiln_status kiln_event_elapsed_ms(kiln_event* from, kiln_event* to, float* milliseconds);

/* Launches and copies recorded once, and queued again as one. What `work` queues on the stream is recorded and not run;
 * where it gives a status that is not KILN_OK, that is the result. The stream is one of kiln_stream_create() or
 * kiln_stream_wrap(). Arrays stay as long as the recording is replayed. */
typedef kiln_status (*kiln_work_fn)(void* data);
KILN_API kiln_status kiln_recording_capture(kiln_stream* stream, kiln_work_fn work, void* data,
                                            kiln_recording** recording);
/* One recording runs one replay at a time. */
KILN_API kiln_status kiln_recording_replay(kiln_recording* recording, kiln_stream* stream);

/* Memory of a device; given back with the handle, once the device is done with what was queued before. */
KILN_API kiln_status kiln_memory_allocate(kiln_device* device, uint64_t bytes, kiln_memory** memory);
/* In the order of a stream: given back, it waits for whoever allocates on this stream next, without a call of the
 * driver. For what this stream alone uses. KILN_INVALID_ARGUMENT: the stream is captured. */
KILN_API kiln_status kiln_memory_allocate_on(kiln_stream* stream, uint64_t bytes, kiln_memory** memory);
/* Its address on the device; NULL and 0 of bad handles. */
KILN_API void* kiln_memory_data(kiln_memory* memory);
KILN_API uint64_t kiln_memory_size(kiln_memory* memory);
/* `bytes` from or to the memory's begin. With a stream they are queued, and the host's bytes stay until it has run;
 * NULL: done on return, on the default stream. */
KILN_API kiln_status kiln_memory_copy_from_host(kiln_memory* memory, const void* host, uint64_t bytes,
                                                kiln_stream* stream);
KILN_API kiln_status kiln_memory_copy_to_host(kiln_memory* memory, void* host, uint64_t bytes, kiln_stream* stream);
/* All of `from` to the begin of memory that is at least as large: of the same kind of device, or of the host to one. */
KILN_API kiln_status kiln_memory_copy(kiln_memory* to, kiln_memory* from, kiln_stream* stream);
/* Sets every byte. */
KILN_API kiln_status kiln_memory_fill(kiln_memory* memory, uint8_t value, kiln_stream* stream);

/* --- Profiles --------------------------------------------------------------------------------------------------- */

/* Notes from now on what launches, copies, waits, compiles and runs of graphs take, of all threads;
 * docs/use/profiling.md. `device_times` that is not 0: also when GPUs run launches, by two events around each.
 * KILN_INVALID_ARGUMENT: a profile is on. */
KILN_API kiln_status kiln_profile_start(int32_t device_times);
/* Ends it. `summary` takes a table for people, `trace` JSON for ui.perfetto.dev; either may be NULL.
 * KILN_INVALID_ARGUMENT: no profile is on. */
KILN_API kiln_status kiln_profile_stop(kiln_bytes** summary, kiln_bytes** trace);
/* A part of the program by name, in this thread; parts nest. */
KILN_API kiln_status kiln_profile_begin(const char* name);
/* Ends the part that this thread has begun last. KILN_INVALID_ARGUMENT: there is none. */
KILN_API kiln_status kiln_profile_end(void);
/* Notes that something is done in another way than it was asked to, on the host perhaps, and why; `bytes`: so many went
 * to where it is done and back. Where no profile is on it does nothing. */
KILN_API kiln_status kiln_profile_fallback(const char* name, const char* why, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
