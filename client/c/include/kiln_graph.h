/* Graphs and models of PyTorch: a part of kiln.h, which includes it where it belongs. */
#ifndef KILN_H
#include "kiln.h"
#elif !defined(KILN_GRAPH_H)
#define KILN_GRAPH_H

#ifdef __cplusplus
extern "C" {
#endif

/* --- Graphs ----------------------------------------------------------------------------------------------------- */

/* What a graph file holds is told from its first bytes: `.kg` text, the CBOR that kiln_graph_encode() gives, or a
 * program of ATen calls as JSON of PyTorch's export schema 8 (the `models/NAME.json` of a `.pt2`), without its weights.
 * KILN_VERIFY_FAILED or KILN_INVALID_ARGUMENT with FILE:LINE:COLUMN of what is wrong. */
KILN_API kiln_status kiln_graph_read(const char* path, kiln_graph** graph);
/* The same of bytes in memory; `name` stands for the file in errors, NULL for "graph". */
KILN_API kiln_status kiln_graph_parse(const void* data, size_t size, const char* name, kiln_graph** graph);
/* Whether graphs can have calls of this overload of PyTorch's, "aten.add.Tensor": 1 or 0. Of NULL 0. */
KILN_API int32_t kiln_graph_knows_aten(const char* target);
/* As `.kg` text, and as bytes that are the same for equal graphs. */
KILN_API kiln_status kiln_graph_text(kiln_graph* graph, kiln_bytes** text);
KILN_API kiln_status kiln_graph_encode(kiln_graph* graph, kiln_bytes** bytes);

typedef struct kiln_graph_options {
  size_t size;
  const char* target;   /* "cpu" (default), "cuda", "amd", "interp", or one in full: "cuda:sm_90a" */
  int32_t no_fuse;      /* 1: a launch for each op, to see what fusion does */
  int32_t full;         /* 1: a kernel that cannot be compiled is an error; else its ops run apart */
  uint32_t deadline_ms; /* of all of it together; 0: the daemon's default for each request */
  int32_t mode;         /* KILN_MODE_DEFAULT, … */
  uint32_t tune_budget_ms;
  uint32_t tune_wait_ms; /* how long KILN_MODE_MAX waits; 0: until the tuner has answered */
  kiln_cancel* cancel;
} kiln_graph_options;

/* Asks the daemon for the plan of the graph, and for all kernels of it that no cache has. The result is ready to run,
 * for all sizes that the graph allows. */
KILN_API kiln_status kiln_graph_compile(kiln_client* client, kiln_graph* graph, const kiln_graph_options* options,
                                        kiln_compiled_graph** fn);

/* Plan and code as bytes, for programs where no daemon is; of a CPU with the features that the target has. Not of a
 * handle with bound inputs. */
KILN_API kiln_status kiln_graph_export(kiln_client* client, kiln_compiled_graph* fn, kiln_bytes** package);
/* Code in it is run: take it only from whom you trust. Arrays on a GPU are aligned to 16 bytes in its runs; others are
 * KILN_INVALID_ARGUMENT. */
KILN_API kiln_status kiln_graph_import(const void* package, size_t size, kiln_compiled_graph** fn);

/* An input or output of a compiled graph. */
typedef struct kiln_tensor_info {
  const char* name;
  const char* text;     /* "f32[n, 784]" */
  const int64_t* shape; /* `rank` extents; -1 of those that sizes decide */
  int32_t rank;
  kiln_type type;
} kiln_tensor_info;

/* Of bad handles 0. Inputs that are bound are not counted. */
KILN_API size_t kiln_graph_input_count(kiln_compiled_graph* fn);
KILN_API size_t kiln_graph_output_count(kiln_compiled_graph* fn);
KILN_API size_t kiln_graph_launch_count(kiln_compiled_graph* fn);
KILN_API kiln_status kiln_graph_input(kiln_compiled_graph* fn, size_t index, kiln_tensor_info* info);
KILN_API kiln_status kiln_graph_output(kiln_compiled_graph* fn, size_t index, kiln_tensor_info* info);
/* The input whose memory the output takes over where its array is writable; -1: none, and of bad handles. */
KILN_API int64_t kiln_graph_donor(kiln_compiled_graph* fn, size_t output);
/* The target in full, "cpu:znver5,…"; NULL of bad handles. */
KILN_API const char* kiln_graph_target(kiln_compiled_graph* fn);

typedef struct kiln_run_options {
  size_t size;
  int32_t threads;             /* 0: OpenMP's default */
  uint32_t size_count;         /* of `sizes` */
  const kiln_named_int* sizes; /* of dims that no input says */
  /* Most bytes that the run may ask for: arena, results, copies of inputs. 0: no limit. KILN_OUT_OF_MEMORY comes before
   * anything is allocated, and names the largest values. */
  uint64_t memory_limit;
  kiln_cancel* cancel; /* is looked at between launches */
  /* Of the device that the graph is compiled for: the run is queued, and the call returns. Inputs are row-major, of a
   * GPU on it; they, the outputs and the graph's handle stay until the stream is done. What fails there is the error of
   * kiln_stream_synchronise(). NULL: the run is done when the call returns. */
  kiln_stream* stream;
  kiln_print_fn print; /* NULL: to the standard error */
  void* print_data;
  double* launch_ms; /* takes how long each launch took: kiln_graph_launch_count() numbers; not with a stream */
} kiln_run_options;

/* Inputs in the order of the graph's, outputs into arrays of the caller's: writable, row-major, aligned, of the shapes
 * that the sizes give. Inputs that are not row-major or not aligned are copied first; on a GPU those of the host are
 * copied to it, and outputs of the host back. An output may be an input that is donated to it; else it overlaps no
 * other array. The call allocates nothing of its own. Errors name the array with its shape and what the graph declares,
 * or the launch with its source line; outputs then hold anything. */
KILN_API kiln_status kiln_graph_run(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                                    const kiln_array* outputs, size_t output_count, const kiln_run_options* options);
/* The same with results in memory of their own, on the host: `output_count` handles. Nothing is donated, and there is
 * no stream. */
KILN_API kiln_status kiln_graph_results(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                                        kiln_tensor** outputs, size_t output_count, const kiln_run_options* options);
/* The shapes of all outputs for inputs of these types and shapes, one behind the other. `capacity`: numbers that
 * `extents` has room for, at least the sum of the outputs' ranks. Data are not looked at. */
KILN_API kiln_status kiln_graph_output_shapes(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                                              int64_t* extents, size_t capacity, const kiln_run_options* options);

/* Compiles what a run with such inputs would like best, and waits; nothing runs. With a mode it waits for the tuner
 * too. */
KILN_API kiln_status kiln_graph_prepare(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                                        const kiln_run_options* options);

/* Weights: a handle in which these inputs, by name, stay as they are. What can be computed of them alone is computed
 * here, once. Its runs take the other inputs, in their order. Arrays are borrowed for as long as the new handle, and
 * handles made of it, live; tensors of `owners`, one for each array or NULL, are kept by it in place of that. */
KILN_API kiln_status kiln_graph_bind(kiln_compiled_graph* fn, const char* const* names, const kiln_array* arrays,
                                     kiln_tensor* const* owners, size_t count, const kiln_run_options* options,
                                     kiln_compiled_graph** bound);

typedef struct kiln_graph_memory_need {
  uint64_t arena;   /* bytes of intermediate values */
  uint64_t results; /* of all outputs */
  uint64_t bound;   /* that the handle keeps of bound inputs, whatever runs */
} kiln_graph_memory_need;
KILN_API kiln_status kiln_graph_memory(kiln_compiled_graph* fn, const kiln_array* inputs, size_t input_count,
                                       const kiln_run_options* options, kiln_graph_memory_need* memory);
/* For people: the launches, what each moves, and why the planner chose them. `sizes` of all dims, or none. */
KILN_API kiln_status kiln_graph_explain(kiln_compiled_graph* fn, const kiln_named_int* sizes, size_t size_count,
                                        kiln_bytes** text);
/* For people: who lies in the arena when. `sizes` of all dims. */
KILN_API kiln_status kiln_graph_memory_timeline(kiln_compiled_graph* fn, const kiln_named_int* sizes, size_t size_count,
                                                kiln_bytes** text);

/* --- Models of PyTorch ------------------------------------------------------------------------------------------ */

/* What torch.export.save() wrote, a `.pt2`: a graph, weights, and states, which runs give new values, such as the
 * running mean of a batch norm that trains. `name`: of several models in the file, or NULL. Values are mapped from the
 * file, which must not be cut short while they are used. Errors name the calls that there is no graph of. */
KILN_API kiln_status kiln_model_open(const char* path, const char* name, kiln_model** model);
/* Ready to run with its weights bound. Inputs are the states, then the arguments of forward(); outputs are the states'
 * next values, then the results of forward(): kiln_graph_input() and kiln_graph_output() say names and shapes. */
KILN_API kiln_status kiln_model_compile(kiln_client* client, kiln_model* model, const kiln_graph_options* options,
                                        kiln_compiled_graph** fn);
/* The graph by itself, whose inputs are weights and states too. */
KILN_API kiln_status kiln_model_graph(kiln_model* model, kiln_graph** graph);
/* Inputs that are states, by name; each is donated to an output of its name with `_next`. */
KILN_API size_t kiln_model_state_count(kiln_model* model);              /* of bad handles 0 */
KILN_API const char* kiln_model_state(kiln_model* model, size_t index); /* NULL: there is none */
/* Of a weight, or the first value of a state: read only, and not row-major where PyTorch's is not. It keeps the file.
 * KILN_NOT_FOUND: the file has no value of that input. */
KILN_API kiln_status kiln_model_value(kiln_model* model, const char* input, kiln_tensor** tensor);

#ifdef __cplusplus
}
#endif

#endif
