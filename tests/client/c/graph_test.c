/* Graphs in C99: read, compiled, bound, run, on processors and on the interpreter. */
#include <math.h>
#include <stdlib.h>

#include "check.h"

static const char* const kText =
    "dim n: 1..4096\n"
    "graph layer(%x: f32[n, 3], %w: f32[2, 3], %b: f32[2]) {\n"
    "  %0 = linear %x, %w, %b : f32[n, 2]\n"
    "  %1 = relu %0 : f32[n, 2]\n"
    "  output y = %1\n"
    "}\n";
static float w[] = {1, 2, 3, -1, -2, -3}, b[] = {0.5f, 0.25f};
static const int64_t kWShape[] = {2, 3}, kBShape[] = {2};

static float expected(const float* x, size_t row, size_t column) {
  float sum = b[column];
  for (size_t i = 0; i < 3; ++i) sum += x[3 * row + i] * w[3 * column + i];
  return sum > 0 ? sum : 0;
}

static void check_rows(const float* x, const float* y, size_t rows) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < 2; ++j) CHECK(fabsf(y[2 * i + j] - expected(x, i, j)) < 1e-5f);
  }
}

static void describes_itself(kiln_compiled_graph* fn) {
  kiln_tensor_info info;
  CHECK(kiln_graph_input_count(fn) == 3 && kiln_graph_output_count(fn) == 1 && kiln_graph_launch_count(fn) >= 1);
  CHECK_OK(kiln_graph_input(fn, 0, &info));
  CHECK(strcmp(info.name, "x") == 0 && strcmp(info.text, "f32[n, 3]") == 0 && info.type == KILN_F32);
  CHECK(info.rank == 2 && info.shape[0] == -1 && info.shape[1] == 3);
  CHECK_OK(kiln_graph_output(fn, 0, &info));
  CHECK(strcmp(info.name, "y") == 0 && info.rank == 2 && info.shape[1] == 2);
  CHECK(kiln_graph_donor(fn, 0) == -1 && kiln_graph_target(fn) != NULL);
  CHECK_FAILS(kiln_graph_input(fn, 3, &info), KILN_INVALID_ARGUMENT, "there are 3 inputs, and no 3");

  kiln_bytes* text;
  const kiln_named_int size = {"n", 8};
  CHECK_OK(kiln_graph_explain(fn, &size, 1, &text));
  CHECK(kiln_bytes_size(text) == strlen(kiln_bytes_data(text)) && strstr(kiln_bytes_data(text), "launch") != NULL);
  CHECK_OK(kiln_free(text));
  CHECK_OK(kiln_graph_memory_timeline(fn, &size, 1, &text));
  CHECK_OK(kiln_free(text));
}

static void runs(kiln_compiled_graph* fn) {
  float x[] = {1, 2, 3, -4, 5, -6, 0.5f, 0.25f, 2, 9, 8, 7}, y[8] = {0};
  const int64_t shape[] = {4, 3}, y_shape[] = {4, 2};
  kiln_array inputs[] = {array_of(x, KILN_F32, 2, shape), array_of(w, KILN_F32, 2, kWShape),
                         array_of(b, KILN_F32, 1, kBShape)};
  kiln_array output = output_of(y, KILN_F32, 2, y_shape);
  int64_t extents[2] = {0, 0};
  CHECK_OK(kiln_graph_output_shapes(fn, inputs, 3, extents, 2, NULL));
  CHECK(extents[0] == 4 && extents[1] == 2);
  CHECK_FAILS(kiln_graph_output_shapes(fn, inputs, 3, extents, 1, NULL), KILN_INVALID_ARGUMENT, "has room for 1");
  CHECK_OK(kiln_graph_prepare(fn, inputs, 3, NULL));
  CHECK_OK(kiln_graph_run(fn, inputs, 3, &output, 1, NULL));
  check_rows(x, y, 4);

  kiln_graph_memory_need need;
  CHECK_OK(kiln_graph_memory(fn, inputs, 3, NULL, &need));
  CHECK(need.results == sizeof y && need.bound == 0);

  /* Every other row, by strides. */
  const int64_t half[] = {2, 3}, half_y[] = {2, 2}, strides[] = {6, 1};
  inputs[0].shape = half;
  inputs[0].strides = strides;
  output.shape = half_y;
  CHECK_OK(kiln_graph_run(fn, inputs, 3, &output, 1, NULL));
  const float rows[] = {1, 2, 3, 0.5f, 0.25f, 2};
  check_rows(rows, y, 2);

  /* Results of the library's own, with every option that a run on the host may have. */
  double times[16];
  kiln_run_options options = {sizeof options};
  options.threads = 1;
  options.memory_limit = 1 << 20;
  options.launch_ms = times;
  kiln_tensor* result;
  kiln_array view;
  CHECK(kiln_graph_launch_count(fn) <= 16);
  CHECK_OK(kiln_graph_results(fn, inputs, 3, &result, 1, &options));
  CHECK_OK(kiln_tensor_array(result, &view));
  CHECK(view.rank == 2 && view.shape[0] == 2 && view.type == KILN_F32 && times[0] >= 0);
  check_rows(rows, view.data, 2);
  CHECK_OK(kiln_free(result));
}

static void binds(kiln_compiled_graph* fn) {
  kiln_tensor* kept;
  kiln_array arrays[] = {array_of(b, KILN_F32, 1, kBShape), {0}};
  CHECK_OK(kiln_tensor_allocate(KILN_F32, 2, kWShape, &kept));
  CHECK_OK(kiln_tensor_array(kept, &arrays[1]));
  memcpy(arrays[1].data, w, sizeof w);
  const char* const names[] = {"b", "w"};
  kiln_tensor* const owners[] = {NULL, kept};
  kiln_compiled_graph* bound;
  CHECK_OK(kiln_graph_bind(fn, names, arrays, owners, 2, NULL, &bound));
  CHECK_OK(kiln_free(kept)); /* the handle keeps it */
  CHECK(kiln_graph_input_count(bound) == 1 && kiln_graph_input_count(fn) == 3);

  float x[] = {3, -1, 2}, y[2];
  const int64_t shape[] = {1, 3}, y_shape[] = {1, 2};
  const kiln_array input = array_of(x, KILN_F32, 2, shape), output = output_of(y, KILN_F32, 2, y_shape);
  CHECK_OK(kiln_graph_run(bound, &input, 1, &output, 1, NULL));
  check_rows(x, y, 1);
  CHECK_OK(kiln_free(bound));
}

static void runs_on_a_stream(kiln_compiled_graph* fn) {
  kiln_device* device;
  kiln_stream* stream;
  CHECK_OK(kiln_device_open(KILN_HOST, 0, &device));
  CHECK_OK(kiln_stream_create(device, NULL, 0, &stream));
  CHECK_OK(kiln_free(device));
  float x[] = {3, -1, 2}, y[2];
  const int64_t shape[] = {1, 3}, y_shape[] = {1, 2};
  const kiln_array inputs[] = {array_of(x, KILN_F32, 2, shape), array_of(w, KILN_F32, 2, kWShape),
                               array_of(b, KILN_F32, 1, kBShape)};
  const kiln_array output = output_of(y, KILN_F32, 2, y_shape);
  kiln_run_options options = {sizeof options};
  options.stream = stream;
  CHECK_OK(kiln_graph_run(fn, inputs, 3, &output, 1, &options));
  CHECK_OK(kiln_stream_synchronise(stream));
  check_rows(x, y, 1);
  CHECK_OK(kiln_free(stream));
}

static void stops(kiln_client* client, kiln_graph* graph, kiln_compiled_graph* fn) {
  kiln_cancel* cancel;
  CHECK_OK(kiln_cancel_create(&cancel));
  CHECK_OK(kiln_cancel_request(cancel));
  float x[] = {3, -1, 2}, y[2];
  const int64_t shape[] = {1, 3}, y_shape[] = {1, 2};
  const kiln_array inputs[] = {array_of(x, KILN_F32, 2, shape), array_of(w, KILN_F32, 2, kWShape),
                               array_of(b, KILN_F32, 1, kBShape)};
  const kiln_array output = output_of(y, KILN_F32, 2, y_shape);
  kiln_run_options options = {sizeof options};
  options.cancel = cancel;
  CHECK_FAILS(kiln_graph_run(fn, inputs, 3, &output, 1, &options), KILN_CANCELLED, "cancelled before launch");
  kiln_graph_options compile = {sizeof compile};
  compile.no_fuse = 1; /* what no cache has */
  compile.cancel = cancel;
  kiln_compiled_graph* none;
  CHECK_FAILS(kiln_graph_compile(client, graph, &compile, &none), KILN_CANCELLED, "");
  CHECK_OK(kiln_free(cancel));
}

/* A program of ATen calls, as torch.compile's backend hands it over. */
static void is_read_from_aten_calls(kiln_client* client) {
  const char* text =
      "{\"graph_module\": {\"graph\": {\"nodes\": [{\"target\": \"torch.ops.aten.relu.default\", \"inputs\": "
      "[{\"name\": \"self\","
      " \"arg\": {\"as_tensor\": {\"name\": \"x\"}}}], \"outputs\": [{\"as_tensor\": {\"name\": \"relu\"}}]}],"
      " \"tensor_values\": {\"x\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 3}]}}}, \"signature\": {\"input_specs\": "
      "[{\"user_input\":"
      " {\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}], \"output_specs\": [{\"user_output\": {\"arg\": {\"as_tensor\":"
      " {\"name\": \"relu\"}}}}]}}, \"schema_version\": {\"major\": 8, \"minor\": 1}}";
  kiln_graph* graph;
  kiln_compiled_graph* fn;
  CHECK_OK(kiln_graph_parse(text, strlen(text), "program", &graph));
  CHECK_OK(kiln_graph_compile(client, graph, NULL, &fn));
  float x[] = {-1, 0, 2}, y[3];
  const int64_t shape[] = {3};
  const kiln_array input = array_of(x, KILN_F32, 1, shape), output = output_of(y, KILN_F32, 1, shape);
  CHECK_OK(kiln_graph_run(fn, &input, 1, &output, 1, NULL));
  CHECK(y[0] == 0 && y[1] == 0 && y[2] == 2);
  CHECK_OK(kiln_free(fn));
  CHECK_OK(kiln_free(graph));
  CHECK_FAILS(kiln_graph_parse("{}", 2, "program", &graph), KILN_INVALID_ARGUMENT,
              "program: `schema_version` is missing");
  CHECK(kiln_graph_knows_aten("aten.relu.default") == 1);
  CHECK(kiln_graph_knows_aten("aten.no_such_thing.default") == 0 && kiln_graph_knows_aten(NULL) == 0);
}

/* Without a daemon, and whatever the bytes. */
static void is_exported(kiln_client* client, kiln_compiled_graph* fn) {
  kiln_bytes* package;
  kiln_compiled_graph *loaded, *bound;
  CHECK_OK(kiln_graph_export(client, fn, &package));
  CHECK_OK(kiln_graph_import(kiln_bytes_data(package), kiln_bytes_size(package), &loaded));
  runs(loaded);
  /* Arrays that are aligned to their elements and no more. */
  float memory[9] = {0, 3, -1, 2}, y[3];
  const int64_t shape[] = {1, 3}, y_shape[] = {1, 2};
  for (int skip = 0; skip < 2; ++skip) {
    memmove(memory + skip, memory + 1, 3 * sizeof *memory);
    const kiln_array inputs[] = {array_of(memory + skip, KILN_F32, 2, shape), array_of(w, KILN_F32, 2, kWShape),
                                 array_of(b, KILN_F32, 1, kBShape)};
    const kiln_array output = output_of(y + skip, KILN_F32, 2, y_shape);
    CHECK_OK(kiln_graph_run(loaded, inputs, 3, &output, 1, NULL));
    check_rows(memory + skip, y + skip, 1);
  }
  CHECK_OK(kiln_free(loaded));
  const size_t size = kiln_bytes_size(package);
  char* changed = malloc(size + 1);
  memcpy(changed, kiln_bytes_data(package), size);
  for (size_t cut = 0; cut < size; cut += 1 + size / 50) {
    CHECK_FAILS(kiln_graph_import(changed, cut, &loaded), KILN_INVALID_ARGUMENT, "no package of a graph");
  }
  changed[size] = 0;
  CHECK_FAILS(kiln_graph_import(changed, size + 1, &loaded), KILN_INVALID_ARGUMENT, "bytes behind it");
  changed[3] = 'x';
  CHECK_FAILS(kiln_graph_import(changed, size, &loaded), KILN_INVALID_ARGUMENT, "does not begin like one");
  free(changed);
  CHECK_OK(kiln_free(package));
  const char* const name = "b";
  const kiln_array array = array_of(b, KILN_F32, 1, kBShape);
  CHECK_OK(kiln_graph_bind(fn, &name, &array, NULL, 1, NULL, &bound));
  CHECK_FAILS(kiln_graph_export(client, bound, &package), KILN_INVALID_ARGUMENT, "bound inputs does not travel");
  CHECK_OK(kiln_free(bound));
}

static void travels(kiln_graph* graph) {
  kiln_bytes *bytes, *text, *again;
  kiln_graph* read;
  CHECK_OK(kiln_graph_encode(graph, &bytes));
  CHECK_OK(kiln_graph_parse(kiln_bytes_data(bytes), kiln_bytes_size(bytes), "bytes", &read));
  CHECK_OK(kiln_graph_encode(read, &again));
  CHECK(kiln_bytes_size(bytes) == kiln_bytes_size(again) &&
        memcmp(kiln_bytes_data(bytes), kiln_bytes_data(again), kiln_bytes_size(bytes)) == 0);
  CHECK_OK(kiln_graph_text(read, &text));
  CHECK(strstr(kiln_bytes_data(text), "graph layer(") != NULL);
  FILE* file = fopen("layer.kg", "w");
  CHECK(file != NULL && fputs(kiln_bytes_data(text), file) >= 0 && fclose(file) == 0);
  kiln_graph* from_file;
  CHECK_OK(kiln_graph_read("layer.kg", &from_file));
  void* const all[] = {bytes, text, again, read, from_file};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) CHECK_OK(kiln_free(all[i]));
}

int main(void) {
  kiln_client* client;
  kiln_graph* graph;
  CHECK(strcmp(kiln_version(), "0.1.0") == 0 && strcmp(kiln_error_message(), "") == 0);
  CHECK_OK(kiln_client_create(NULL, &client));
  CHECK_OK(kiln_graph_parse(kText, strlen(kText), "layer.kg", &graph));
  travels(graph);
  const char* const targets[] = {"interp", "cpu"};
  for (size_t i = 0; i < 2; ++i) {
    kiln_graph_options options = {sizeof options};
    options.target = targets[i];
    options.full = 1;
    options.deadline_ms = 120000;
    kiln_compiled_graph* fn;
    CHECK_OK(kiln_graph_compile(client, graph, &options, &fn));
    if (failures > 0) break;
    describes_itself(fn);
    runs(fn);
    binds(fn);
    runs_on_a_stream(fn);
    stops(client, graph, fn);
    is_read_from_aten_calls(client);
    is_exported(client, fn);
    CHECK_OK(kiln_free(fn));
  }
  CHECK_OK(kiln_free(graph));
  CHECK_OK(kiln_free(client));
  return failures > 0;
}
