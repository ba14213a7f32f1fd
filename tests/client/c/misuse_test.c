/* Mistakes that people make with kiln.h: each is a status with a sentence, and nothing breaks. */
#define _POSIX_C_SOURCE 200809L /* fork, pthreads */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static const char* const kText =
    "dim n: 1..64\n"
    "graph add(%x: f32[n, 2], %y: f32[n, 2]) {\n"
    "  %0 = add %x, %y : f32[n, 2]\n"
    "  output sum = %0\n"
    "}\n";
static const int64_t kShape[] = {3, 2};
static float x[6], y[6], z[7];

static void takes_no_bad_handles(kiln_client* client, kiln_graph* graph) {
  kiln_compiled_graph* fn = NULL;
  CHECK_FAILS(kiln_graph_compile(NULL, graph, NULL, &fn), KILN_INVALID_ARGUMENT, "`client` is NULL");
  CHECK_FAILS(kiln_graph_compile(client, (kiln_graph*)(void*)client, NULL, &fn), KILN_INVALID_ARGUMENT,
              "`graph` is a kiln_client, and must be a kiln_graph");
  CHECK_FAILS(kiln_graph_compile(client, (kiln_graph*)(void*)&fn, NULL, &fn), KILN_INVALID_ARGUMENT,
              "`graph` is no handle of Kiln");
  CHECK_FAILS(kiln_graph_compile(client, graph, NULL, NULL), KILN_INVALID_ARGUMENT, "`fn` is NULL");
  CHECK(fn == NULL);
  CHECK_OK(kiln_free(NULL));
  CHECK_FAILS(kiln_free(&fn), KILN_INVALID_ARGUMENT, "no handle of Kiln");
  CHECK_FAILS(kiln_free((void*)(uintptr_t)-1), KILN_INVALID_ARGUMENT, "no handle of Kiln");

  kiln_graph* freed;
  CHECK_OK(kiln_graph_parse(kText, strlen(kText), NULL, &freed));
  CHECK_OK(kiln_free(freed));
  kiln_bytes* text;
  CHECK_FAILS(kiln_graph_text(freed, &text), KILN_INVALID_ARGUMENT, "`graph` is a kiln_graph that was freed");
  CHECK_FAILS(kiln_free(freed), KILN_INVALID_ARGUMENT, "freed before");
  /* Not even when another object has its place. */
  kiln_graph* other;
  CHECK_OK(kiln_graph_parse(kText, strlen(kText), NULL, &other));
  CHECK(other != freed);
  CHECK_FAILS(kiln_graph_text(freed, &text), KILN_INVALID_ARGUMENT, "freed");
  CHECK_OK(kiln_free(other));

  CHECK(kiln_bytes_data(NULL) == NULL && kiln_bytes_size((kiln_bytes*)(void*)client) == 0);
  CHECK(kiln_graph_input_count(NULL) == 0 && kiln_graph_target(NULL) == NULL && kiln_graph_donor(NULL, 0) == -1);
}

/* Numbers that are no handles, and those that might be. */
static void takes_no_noise(void) {
  uint64_t noise = 1;
  kiln_bytes* bytes;
  kiln_array array;
  for (int i = 0; i < 20000; ++i) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    const uint64_t kind = noise >> 60, slot = noise >> 40 & 0xff, generation = noise >> 20 & 1023;
    void* handle = (void*)(uintptr_t)(i % 2 ? noise : kind << 56 | slot << 32 | (generation + 100000));
    CHECK(kiln_free(handle) == KILN_INVALID_ARGUMENT);
    CHECK(kiln_graph_text(handle, &bytes) == KILN_INVALID_ARGUMENT);
    CHECK(kiln_tensor_array(handle, &array) == KILN_INVALID_ARGUMENT);
    CHECK(kiln_stream_synchronise(handle) == KILN_INVALID_ARGUMENT);
    CHECK(kiln_memory_data(handle) == NULL && kiln_kernel_name(handle) == NULL);
    if (failures > 0) return;
  }
}

static void takes_no_bad_options(kiln_client* client, kiln_graph* graph) {
  kiln_compiled_graph* fn;
  kiln_client* none;
  kiln_graph_options options = {0};
  CHECK_FAILS(kiln_graph_compile(client, graph, &options, &fn), KILN_INVALID_ARGUMENT,
              "kiln_graph_options::size is 0: set it to sizeof(kiln_graph_options)");
  options.size = sizeof options - 4; /* no struct of options ends within a pointer */
  CHECK_FAILS(kiln_graph_compile(client, graph, &options, &fn), KILN_INVALID_ARGUMENT,
              "set it to sizeof(kiln_graph_options)");
  options.size = sizeof options;
  options.mode = 7;
  CHECK_FAILS(kiln_graph_compile(client, graph, &options, &fn), KILN_INVALID_ARGUMENT, "`mode` is 7");
  options.mode = 0;
  options.target = "toaster";
  CHECK_FAILS(kiln_graph_compile(client, graph, &options, &fn), KILN_INVALID_ARGUMENT, "toaster");
  /* A field of a later version, which this one does not know. */
  struct {
    kiln_client_options known;
    int64_t later;
  } newer = {{0}, 1};
  newer.known.size = sizeof newer;
  CHECK_FAILS(kiln_client_create(&newer.known, &none), KILN_VERSION_MISMATCH, "does not know");
  newer.later = 0;
  CHECK_OK(kiln_client_create(&newer.known, &none));
  CHECK_OK(kiln_free(none));
  kiln_client_options missing = {sizeof missing};
  missing.daemon_arg_count = 1;
  CHECK_FAILS(kiln_client_create(&missing, &none), KILN_INVALID_ARGUMENT, "`daemon_args` is NULL");
  kiln_client_options alone = {sizeof alone};
  alone.runtime_dir = "nowhere";
  alone.no_autostart = 1;
  CHECK_OK(kiln_client_create(&alone, &none));
  CHECK(kiln_graph_compile(none, graph, NULL, &fn) != KILN_OK && strcmp(kiln_error_message(), "") != 0);
  CHECK_OK(kiln_free(none));
}

static void reads_no_bad_graphs(void) {
  kiln_graph* graph;
  CHECK_FAILS(kiln_graph_read("missing.kg", &graph), KILN_INVALID_ARGUMENT, "missing.kg: cannot be opened");
  CHECK_FAILS(kiln_graph_read(NULL, &graph), KILN_INVALID_ARGUMENT, "`path` is NULL");
  CHECK_FAILS(kiln_graph_parse(NULL, 3, NULL, &graph), KILN_INVALID_ARGUMENT, "`data` is NULL");
  CHECK(kiln_graph_parse(NULL, 0, NULL, &graph) != KILN_OK);
  const char bad[] = "graph g(%x: f32[2]) {\n  %0 = fly %x : f32[2]\n}\n";
  CHECK(kiln_graph_parse(bad, strlen(bad), "bad.kg", &graph) != KILN_OK);
  CHECK(strstr(kiln_error_message(), "bad.kg:2:") != NULL);
  const unsigned char bytes[] = {0x88, 1, 2, 3};
  CHECK(kiln_graph_parse(bytes, sizeof bytes, "bad.cbor", &graph) != KILN_OK);
  CHECK(strstr(kiln_error_message(), "bad.cbor") != NULL);
}

static void runs_no_bad_arrays(kiln_compiled_graph* fn) {
  kiln_array in[] = {array_of(x, KILN_F32, 2, kShape), array_of(y, KILN_F32, 2, kShape)};
  kiln_array out = output_of(z, KILN_F32, 2, kShape);
  const kiln_array good = in[1], good_out = out;
  CHECK_OK(kiln_graph_run(fn, in, 2, &out, 1, NULL));
  CHECK_FAILS(kiln_graph_run(fn, in, 1, &out, 1, NULL), KILN_INVALID_ARGUMENT, "has 2 inputs, and 1 were given");
  CHECK_FAILS(kiln_graph_run(fn, in, 2, &out, 0, NULL), KILN_INVALID_ARGUMENT, "has 1 outputs, and 0 were given");
  CHECK_FAILS(kiln_graph_run(fn, NULL, 2, &out, 1, NULL), KILN_INVALID_ARGUMENT, "`inputs` is NULL");
  kiln_tensor* results[2];
  CHECK_FAILS(kiln_graph_results(fn, in, 2, results, 2, NULL), KILN_INVALID_ARGUMENT, "1 outputs, and 2");
  CHECK_FAILS(kiln_graph_results(fn, in, 2, NULL, 1, NULL), KILN_INVALID_ARGUMENT, "`outputs` is NULL");

#define CHECK_BAD_INPUT(change, words) \
  in[1] = good;                        \
  in[1].change;                        \
  CHECK_FAILS(kiln_graph_run(fn, in, 2, &out, 1, NULL), KILN_INVALID_ARGUMENT, words);
  const int64_t negative[] = {3, -2}, others[] = {4, 2}, large[] = {65, 2}, huge[] = {INT64_MAX, INT64_MAX};
  CHECK_BAD_INPUT(type = 99, "input 1 (`y`): 99 is no kiln_type")
  CHECK_BAD_INPUT(type = KILN_I32, "`y` is i32[3, 2]")
  CHECK_BAD_INPUT(rank = -1, "input 1 (`y`): its rank is -1")
  CHECK_BAD_INPUT(rank = 17, "its rank is 17")
  CHECK_BAD_INPUT(rank = 1, "`y` is f32[3]")
  CHECK_BAD_INPUT(shape = NULL, "its shape is NULL")
  CHECK_BAD_INPUT(shape = negative, "input 1 (`y`): extent 1 is -2")
  CHECK_BAD_INPUT(shape = others, "`y` is f32[4, 2]")
  CHECK_BAD_INPUT(shape = huge, "`y`")
  CHECK_BAD_INPUT(data = NULL, "its data are null")
  CHECK_BAD_INPUT(bytes = 23, "takes 24 bytes; there are 23")
  CHECK_BAD_INPUT(device = KILN_CUDA, "it lies on cuda:0, and this runs on the host")
  CHECK_BAD_INPUT(flags = 2, "flags that are not known")
  in[0].shape = in[1].shape = large;
  in[1] = good;
  in[1].shape = large;
  CHECK_FAILS(kiln_graph_run(fn, in, 2, &out, 1, NULL), KILN_INVALID_ARGUMENT, "65");
  in[0].shape = kShape;
  in[1] = good;

#define CHECK_BAD_OUTPUT(change, words) \
  out = good_out;                       \
  out.change;                           \
  CHECK_FAILS(kiln_graph_run(fn, in, 2, &out, 1, NULL), KILN_INVALID_ARGUMENT, words);
  const int64_t strides[] = {1, 3};
  CHECK_BAD_OUTPUT(flags = 0, "read only")
  CHECK_BAD_OUTPUT(shape = others, "output `sum`")
  CHECK_BAD_OUTPUT(type = KILN_F64, "output `sum`")
  CHECK_BAD_OUTPUT(strides = strides, "not row-major and aligned")
  CHECK_BAD_OUTPUT(data = (char*)(void*)z + 2, "not row-major and aligned")
  CHECK_BAD_OUTPUT(data = x, "overlaps input `x`")
  CHECK_BAD_OUTPUT(device = KILN_AMD, "it lies on amd:0")
  out = good_out;

  kiln_run_options options = {sizeof options};
  options.threads = -1;
  CHECK_FAILS(kiln_graph_run(fn, in, 2, &out, 1, &options), KILN_INVALID_ARGUMENT, "`threads` is -1");
  options.threads = 0;
  options.memory_limit = 1;
  CHECK_OK(kiln_graph_run(fn, in, 2, &out, 1, &options)); /* nothing is allocated: it needs none */
  CHECK_FAILS(kiln_graph_results(fn, in, 2, results, 1, &options), KILN_OUT_OF_MEMORY, "the limit is 1");
  options.memory_limit = 0;
  const kiln_named_int sizes[] = {{"m", 1}, {NULL, 1}};
  options.sizes = sizes;
  options.size_count = 1;
  CHECK_FAILS(kiln_graph_run(fn, in, 2, &out, 1, &options), KILN_INVALID_ARGUMENT, "m");
  options.size_count = 2;
  CHECK_FAILS(kiln_graph_run(fn, in, 2, &out, 1, &options), KILN_INVALID_ARGUMENT, "sizes[1].name");
  options.sizes = NULL;
  options.size_count = 0;
  options.stream = (kiln_stream*)(void*)fn;
  CHECK_FAILS(kiln_graph_run(fn, in, 2, &out, 1, &options), KILN_INVALID_ARGUMENT, "must be a kiln_stream");

  kiln_compiled_graph* bound;
  const char* const names[] = {"w", "y", "y"};
  const kiln_array weights[] = {good, good, good};
  CHECK_FAILS(kiln_graph_bind(fn, names, weights, NULL, 1, NULL, &bound), KILN_INVALID_ARGUMENT, "`w`");
  CHECK_FAILS(kiln_graph_bind(fn, names + 1, weights, NULL, 2, NULL, &bound), KILN_INVALID_ARGUMENT, "`y` twice");
  /* Aligned to nothing, inputs are fine. */
  unsigned char raw[25] = {0};
  in[1].data = raw + 1;
  CHECK_OK(kiln_graph_run(fn, in, 2, &out, 1, NULL));
}

static void opens_no_bad_devices(void) {
  kiln_device* device;
  kiln_stream* stream;
  CHECK_FAILS(kiln_device_open(9, 0, &device), KILN_INVALID_ARGUMENT, "9 is no kind of device");
  CHECK(kiln_device_open(KILN_HOST, 7, &device) != KILN_OK);
  CHECK_OK(kiln_device_open(KILN_HOST, 0, &device));
  CHECK_FAILS(kiln_stream_create(device, NULL, 2, &stream), KILN_INVALID_ARGUMENT, "`cores` is NULL");
  const int32_t cores[] = {-1};
  CHECK(kiln_stream_create(device, cores, 1, &stream) != KILN_OK);
  CHECK_FAILS(kiln_stream_wrap(device, x, &stream), KILN_INVALID_ARGUMENT, "Kiln's own");
  CHECK_FAILS(kiln_stream_synchronise(NULL), KILN_INVALID_ARGUMENT, "`stream` is NULL");
  CHECK_OK(kiln_free(device));
}

static void makes_no_bad_tensors(void) {
  kiln_tensor* tensor;
  const int64_t negative[] = {-1}, huge[] = {INT64_MAX, INT64_MAX};
  CHECK_FAILS(kiln_tensor_allocate(0, 2, kShape, &tensor), KILN_INVALID_ARGUMENT, "0 is no kiln_type");
  CHECK_FAILS(kiln_tensor_allocate(KILN_F32, -1, kShape, &tensor), KILN_INVALID_ARGUMENT, "`rank` is -1");
  CHECK_FAILS(kiln_tensor_allocate(KILN_F32, 1, negative, &tensor), KILN_INVALID_ARGUMENT, "below 0");
  CHECK_FAILS(kiln_tensor_allocate(KILN_F32, 2, huge, &tensor), KILN_OUT_OF_MEMORY, "no memory");
  CHECK_FAILS(kiln_tensor_allocate(KILN_F32, 1, NULL, &tensor), KILN_INVALID_ARGUMENT, "`shape` is NULL");
}

/* A handle is freed under the hands of threads that use it: each call does its work, or says that it was freed. */
static kiln_compiled_graph* shared;
static void* use_shared(void* wrong) {
  float from[6] = {1, 2, 3, 4, 5, 6}, to[6];
  const kiln_array in[] = {array_of(from, KILN_F32, 2, kShape), array_of(from, KILN_F32, 2, kShape)};
  const kiln_array out = output_of(to, KILN_F32, 2, kShape);
  for (;;) {
    const kiln_status status = kiln_graph_run(shared, in, 2, &out, 1, NULL);
    if (status == KILN_OK && to[5] == 12) continue;
    if (status != KILN_INVALID_ARGUMENT ||
        strstr(kiln_error_message(), "`fn` is a kiln_compiled_graph that was freed") == NULL) {
      *(int*)wrong = 1;
    }
    return NULL;
  }
}

static void frees_what_is_used(kiln_client* client, kiln_graph* graph, const kiln_graph_options* options) {
  pthread_t threads[3];
  int wrong[3] = {0};
  const struct timespec moment = {0, 2000000};
  for (int round = 0; round < 10; ++round) {
    CHECK_OK(kiln_graph_compile(client, graph, options, &shared));
    for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, use_shared, &wrong[i]) == 0);
    nanosleep(&moment, NULL);
    CHECK_OK(kiln_free(shared));
    for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0 && wrong[i] == 0);
  }
}

static void works_in_a_child(kiln_client* client, kiln_graph* graph, kiln_compiled_graph* fn,
                             const kiln_graph_options* options) {
  const pid_t child = fork();
  if (child == 0) {
    kiln_compiled_graph* own;
    const kiln_array in[] = {array_of(x, KILN_F32, 2, kShape), array_of(y, KILN_F32, 2, kShape)};
    const kiln_array out = output_of(z, KILN_F32, 2, kShape);
    failures = 0;
    CHECK_OK(kiln_graph_run(fn, in, 2, &out, 1, NULL));
    CHECK_OK(kiln_graph_compile(client, graph, options, &own));
    CHECK_OK(kiln_graph_run(own, in, 2, &out, 1, NULL));
    CHECK_OK(kiln_free(fn));
    exit(failures > 0);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
  kiln_client* client;
  kiln_graph* graph;
  kiln_compiled_graph* fn;
  CHECK(strcmp(kiln_status_name(KILN_INVALID_ARGUMENT), "INVALID_ARGUMENT") == 0);
  CHECK(strcmp(kiln_status_name(0), "OK") == 0 && strcmp(kiln_status_name(-3), "UNKNOWN") == 0);
  CHECK(kiln_type_name(0) == NULL && kiln_type_size(16) == 0 && strcmp(kiln_type_name(KILN_BF16), "bf16") == 0);
  CHECK_OK(kiln_client_create(NULL, &client));
  CHECK_OK(kiln_graph_parse(kText, strlen(kText), "add.kg", &graph));
  takes_no_bad_handles(client, graph);
  takes_no_noise();
  takes_no_bad_options(client, graph);
  reads_no_bad_graphs();
  kiln_graph_options options = {sizeof options};
  options.target = "interp";
  CHECK_OK(kiln_graph_compile(client, graph, &options, &fn));
  runs_no_bad_arrays(fn);
  frees_what_is_used(client, graph, &options);
  works_in_a_child(client, graph, fn, &options);
  opens_no_bad_devices();
  makes_no_bad_tensors();
  CHECK_OK(kiln_free(client));
  CHECK_OK(kiln_free(graph));
  /* It outlives both. */
  runs_no_bad_arrays(fn);
  CHECK_OK(kiln_free(fn));
  return failures > 0;
}
