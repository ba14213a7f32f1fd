/* Kernels in C99: read, compiled, launched, on processors and on the interpreter; what they launch on, and mistakes. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <math.h>
#include <stdlib.h>

#include "check.h"

#define COUNT 1000
static float x[COUNT], y[COUNT], out[COUNT];

static kiln_argument pointer_to(void* data, kiln_type type, int64_t extent) {
  kiln_argument made = {0};
  made.kind = KILN_ARG_POINTER;
  made.type = type;
  made.value.pointer = data;
  made.extent = extent;
  return made;
}

static kiln_argument integer(int64_t value) {
  kiln_argument made = {0};
  made.kind = KILN_ARG_INT;
  made.value.i = value;
  return made;
}

static void fill(void) {
  for (int i = 0; i < COUNT; ++i) {
    x[i] = (float)i;
    y[i] = 0.5f * (float)i;
    out[i] = -1;
  }
}

static int is_sum(void) {
  for (int i = 0; i < COUNT; ++i) {
    if (out[i] != x[i] + y[i]) return 0;
  }
  return 1;
}

static void travels(kiln_kernel* kernel) {
  kiln_bytes *text, *bytes, *again;
  kiln_kernel *from_text, *from_bytes;
  kiln_param_info info;
  CHECK(strcmp(kiln_kernel_name(kernel), "vector_add") == 0 && kiln_kernel_param_count(kernel) == 4);
  CHECK_OK(kiln_kernel_param(kernel, 0, &info));
  CHECK(strcmp(info.name, "x") == 0 && info.type == KILN_F32 && info.is_pointer && info.read_only);
  CHECK_OK(kiln_kernel_param(kernel, 3, &info));
  CHECK(strcmp(info.name, "n") == 0 && info.type == KILN_I32 && !info.is_pointer);
  CHECK_FAILS(kiln_kernel_param(kernel, 4, &info), KILN_INVALID_ARGUMENT, "there are 4 parameters, and no 4");
  CHECK_OK(kiln_kernel_text(kernel, &text));
  CHECK_OK(kiln_kernel_encode(kernel, &bytes));
  FILE* file = fopen("add.kiln", "w");
  CHECK(file != NULL && fputs(kiln_bytes_data(text), file) >= 0 && fclose(file) == 0);
  CHECK_OK(kiln_kernel_read("add.kiln", &from_text));
  CHECK_OK(kiln_kernel_parse(kiln_bytes_data(bytes), kiln_bytes_size(bytes), NULL, &from_bytes));
  CHECK_OK(kiln_kernel_encode(from_bytes, &again));
  CHECK(kiln_bytes_size(bytes) == kiln_bytes_size(again) &&
        memcmp(kiln_bytes_data(bytes), kiln_bytes_data(again), kiln_bytes_size(bytes)) == 0);
  void* const all[] = {text, bytes, again, from_text, from_bytes};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) CHECK_OK(kiln_free(all[i]));
}

static void launches(kiln_function* fn) {
  const kiln_argument arguments[] = {pointer_to(x, KILN_F32, COUNT), pointer_to(y, KILN_F32, COUNT),
                                     pointer_to(out, KILN_F32, COUNT), integer(COUNT)};
  kiln_bytes *config, *json;
  fill();
  CHECK_OK(kiln_function_prepare(fn, arguments, 4));
  CHECK_OK(kiln_function_launch(fn, arguments, 4, NULL));
  CHECK(is_sum());
  CHECK_OK(kiln_function_config(fn, arguments, 4, &config));
  CHECK(strstr(kiln_bytes_data(config), "BLOCK=256\n") != NULL);
  CHECK_OK(kiln_function_metadata(fn, &json));
  CHECK(kiln_bytes_data(json)[0] == '{' && strstr(kiln_bytes_data(json), "vector_add") != NULL);
  CHECK_OK(kiln_free(config));
  CHECK_OK(kiln_free(json));

  /* The first program alone: a grid of the caller's. */
  kiln_launch_options options = {sizeof options};
  options.threads = 1;
  options.grid_is_set = 1;
  options.grid[0] = options.grid[1] = options.grid[2] = 1;
  fill();
  CHECK_OK(kiln_function_launch(fn, arguments, 4, &options));
  CHECK(out[255] == x[255] + y[255] && out[256] == -1);
}

static void refuses(kiln_function* fn) {
  const kiln_argument good[] = {pointer_to(x, KILN_F32, COUNT), pointer_to(y, KILN_F32, COUNT),
                                pointer_to(out, KILN_F32, COUNT), integer(COUNT)};
  kiln_argument bad[4];
#define CHECK_BAD(index, change, words) \
  memcpy(bad, good, sizeof bad);        \
  bad[index].change;                    \
  CHECK_FAILS(kiln_function_launch(fn, bad, 4, NULL), KILN_INVALID_ARGUMENT, words);
  CHECK_BAD(0, type = KILN_F64, "argument 0 (`x`, ptr<f32>): the array is of f64")
  CHECK_BAD(1, kind = KILN_ARG_INT, "argument 1 (`y`, ptr<f32>): the parameter is an array")
  CHECK_BAD(1, value.pointer = NULL, "the array is NULL")
  CHECK_BAD(1, value.pointer = (char*)(void*)y + 1, "not aligned to its elements")
  CHECK_BAD(2, extent = -5, "its extent is -5")
  CHECK_BAD(2, device = KILN_CUDA, "it lies on cuda:0, and this runs on the host")
  CHECK_BAD(3, kind = KILN_ARG_FLOAT, "argument 3 (`n`, i32): the parameter is an int")
  CHECK_BAD(3, kind = KILN_ARG_POINTER, "the parameter is an int")
  CHECK_BAD(3, kind = 77, "the parameter is an int")
  CHECK_BAD(3, value.i = INT64_MAX, "its type does not have 9223372036854775807")
  CHECK_FAILS(kiln_function_launch(fn, good, 3, NULL), KILN_INVALID_ARGUMENT, "takes 4 arguments, not 3");
  CHECK_FAILS(kiln_function_launch(fn, NULL, 4, NULL), KILN_INVALID_ARGUMENT, "`arguments` is NULL");
  kiln_launch_options options = {sizeof options};
  options.threads = -2;
  CHECK_FAILS(kiln_function_launch(fn, good, 4, &options), KILN_INVALID_ARGUMENT, "`threads` is -2");
  options.threads = 0;
  options.stream = (kiln_stream*)(void*)fn;
  CHECK_FAILS(kiln_function_launch(fn, good, 4, &options), KILN_INVALID_ARGUMENT, "must be a kiln_stream");
}

static void finds_indices_outside(kiln_function* interpreted) {
  const kiln_argument small[] = {pointer_to(x, KILN_F32, 10), pointer_to(y, KILN_F32, COUNT),
                                 pointer_to(out, KILN_F32, COUNT), integer(COUNT)};
  CHECK_FAILS(kiln_function_launch(interpreted, small, 4, NULL), KILN_INVALID_ARGUMENT, "outside `x`");
}

struct Step {
  kiln_function* fn;
  kiln_stream* stream;
  const kiln_argument* arguments;
};

static kiln_status queue_step(void* data) {
  const struct Step* step = data;
  kiln_launch_options options = {sizeof options};
  options.stream = step->stream;
  return kiln_function_launch(step->fn, step->arguments, 4, &options);
}

static kiln_status give_up(void* data) {
  (void)data;
  return kiln_free(&failures);
}

/* One text for every kind of device; here the processors. */
static void queues(kiln_function* fn) {
  kiln_device* device;
  kiln_stream* stream;
  kiln_event *begin, *end;
  kiln_memory *a, *b;
  kiln_device_info info;
  size_t devices = 0;
  CHECK_OK(kiln_device_count(KILN_HOST, &devices));
  CHECK(devices == 1);
  CHECK_OK(kiln_device_open(KILN_HOST, 0, &device));
  CHECK_OK(kiln_device_get_info(device, &info));
  CHECK(info.kind == KILN_HOST && info.multiprocessors > 0 && strcmp(info.target, "cpu") == 0);
  int32_t cores[4096];
  size_t counts[1];
  CHECK_OK(kiln_split_cores(1, cores, 4096, counts));
  CHECK(counts[0] >= 1);
  CHECK_OK(kiln_stream_create(device, cores, 1, &stream));
  CHECK_OK(kiln_event_create(device, &begin));
  CHECK_OK(kiln_event_create(device, &end));
  CHECK_OK(kiln_memory_allocate(device, sizeof x, &a));
  CHECK_OK(kiln_memory_allocate(device, sizeof x, &b));
  CHECK(kiln_memory_size(a) == sizeof x && kiln_memory_data(a) != NULL);

  kiln_memory* in_order;
  kiln_memory_use use;
  kiln_bytes* holders;
  uint64_t given = 1;
  CHECK_OK(kiln_memory_allocate_on(stream, 1000, &in_order));
  const void* first = kiln_memory_data(in_order);
  CHECK_OK(kiln_free(in_order));
  CHECK_OK(kiln_memory_allocate_on(stream, 900, &in_order));
  CHECK(kiln_memory_data(in_order) == first && kiln_memory_size(in_order) == 900);
  CHECK_OK(kiln_free(in_order));
  CHECK_OK(kiln_device_give_back_caches(device, &given));
  CHECK(given == 1024);
  CHECK_FAILS(kiln_memory_allocate_on(NULL, 1, &in_order), KILN_INVALID_ARGUMENT, "`stream`");
  CHECK_OK(kiln_device_get_memory_use(device, &use));
  CHECK(use.bytes == 2 * sizeof x && use.pieces == 2 && use.peak_bytes >= use.bytes && use.hard_limit == 0);
  CHECK_OK(kiln_device_get_memory_holders(device, &holders));
  CHECK(strcmp(kiln_bytes_data(holders), "8000 2 arrays\n") == 0);
  CHECK_OK(kiln_free(holders));
  kiln_memory* none_left;
  CHECK_OK(kiln_device_set_memory_fraction(device, 1e-9, 0));
  CHECK_FAILS(kiln_memory_allocate(device, 1000, &none_left), KILN_OUT_OF_MEMORY, "8000 in 2 pieces for arrays");
  CHECK_OK(kiln_device_set_memory_fraction(device, 0, 0));
  CHECK_FAILS(kiln_device_set_memory_fraction(device, 2, 0), KILN_INVALID_ARGUMENT, "from 0 to 1");
  CHECK_OK(kiln_device_give_back_caches(device, &given));
  CHECK(given == 0);
  CHECK_OK(kiln_device_forget_memory_peak(device));

  fill();
  float sum[COUNT];
  const kiln_argument arguments[] = {pointer_to(kiln_memory_data(a), KILN_F32, COUNT), pointer_to(y, KILN_F32, COUNT),
                                     pointer_to(kiln_memory_data(b), KILN_F32, COUNT), integer(COUNT)};
  struct Step step = {fn, stream, arguments};
  CHECK_OK(kiln_event_record(begin, stream));
  CHECK_OK(kiln_memory_copy_from_host(a, x, sizeof x, stream));
  CHECK_OK(queue_step(&step));
  CHECK_OK(kiln_memory_copy_to_host(b, out, sizeof out, stream));
  CHECK_OK(kiln_event_record(end, stream));
  CHECK_OK(kiln_event_synchronise(end));
  CHECK(is_sum());
  int32_t done = 0;
  float elapsed = -1;
  CHECK_OK(kiln_event_is_done(end, &done));
  CHECK_OK(kiln_event_elapsed_ms(begin, end, &elapsed));
  CHECK(done == 1 && elapsed >= 0);
  CHECK_OK(kiln_event_hold_back(end, stream));

  /* Recorded, it does nothing; replayed, it does it all. */
  kiln_recording *recording, *none;
  CHECK_OK(kiln_memory_fill(b, 0, NULL));
  CHECK_OK(kiln_recording_capture(stream, queue_step, &step, &recording));
  CHECK_OK(kiln_memory_copy_to_host(b, sum, sizeof sum, NULL));
  CHECK(sum[1] == 0);
  CHECK_OK(kiln_recording_replay(recording, stream));
  CHECK_OK(kiln_stream_synchronise(stream));
  CHECK_OK(kiln_memory_copy(a, b, NULL));
  CHECK_OK(kiln_memory_copy_to_host(a, sum, sizeof sum, NULL));
  CHECK(sum[1] == x[1] + y[1]);
  CHECK_FAILS(kiln_recording_capture(stream, give_up, NULL, &none), KILN_INVALID_ARGUMENT, "no handle of Kiln");
  CHECK_FAILS(kiln_recording_capture(stream, NULL, NULL, &none), KILN_INVALID_ARGUMENT, "`work` is NULL");

  CHECK(kiln_memory_copy_from_host(a, x, sizeof x + 1, NULL) != KILN_OK);
  CHECK(kiln_memory_copy_to_host(a, out, sizeof x + 1, stream) != KILN_OK);
  CHECK_FAILS(kiln_memory_copy_from_host(a, NULL, 4, NULL), KILN_INVALID_ARGUMENT, "`host` is NULL");
  CHECK_FAILS(kiln_memory_copy(a, NULL, NULL), KILN_INVALID_ARGUMENT, "`from` is NULL");
  CHECK_FAILS(kiln_event_record((kiln_event*)(void*)stream, stream), KILN_INVALID_ARGUMENT, "must be a kiln_event");
  CHECK(kiln_memory_allocate(device, UINT64_MAX, &b) != KILN_OK);
  CHECK(kiln_split_cores(0, cores, 4096, counts) != KILN_OK);
  CHECK_OK(kiln_device_synchronise(device));
  void* const all[] = {a, b, begin, end, recording, stream, device};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) CHECK_OK(kiln_free(all[i]));
  CHECK(kiln_memory_data(a) == NULL && kiln_memory_size(a) == 0);
}

static void profiles(void) {
  kiln_device* device;
  kiln_memory* memory;
  kiln_bytes *summary, *trace;
  CHECK_OK(kiln_device_open(KILN_HOST, 0, &device));
  CHECK_OK(kiln_profile_start(1));
  CHECK_FAILS(kiln_profile_start(0), KILN_INVALID_ARGUMENT, "a profile is on already");
  CHECK_OK(kiln_profile_begin("step"));
  CHECK_OK(kiln_memory_allocate(device, sizeof x, &memory));
  CHECK_OK(kiln_memory_copy_from_host(memory, x, sizeof x, NULL));
  CHECK_OK(kiln_profile_end());
  CHECK_FAILS(kiln_profile_end(), KILN_INVALID_ARGUMENT, "no part that is open");
  CHECK_FAILS(kiln_profile_begin(NULL), KILN_INVALID_ARGUMENT, "`name` is NULL");
  CHECK_OK(kiln_profile_fallback("softshrink", "no kernel", 64));
  CHECK_FAILS(kiln_profile_fallback("softshrink", NULL, 0), KILN_INVALID_ARGUMENT, "`why` is NULL");
  CHECK_OK(kiln_profile_stop(&summary, &trace));
  CHECK(strstr(kiln_bytes_data(summary), "fallback of softshrink, 64 bytes copied: no kernel\n") != NULL);
  CHECK(strstr(kiln_bytes_data(summary), " scope step\n") != NULL);
  CHECK(strstr(kiln_bytes_data(summary), " copy cpu:0 to the device\n") != NULL);
  CHECK(strstr(kiln_bytes_data(trace), "\"traceEvents\":[{") != NULL);
  CHECK_FAILS(kiln_profile_stop(NULL, NULL), KILN_INVALID_ARGUMENT, "no profile is on");
  void* const all[] = {summary, trace, memory, device};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) CHECK_OK(kiln_free(all[i]));
}

/* Compiled for later, and loaded where no daemon is. */
static void loads(kiln_client* client, kiln_kernel* kernel) {
  const char* const facts[] = {"align16", "none", "none", "x8"};
  kiln_ahead_options options = {sizeof options};
  options.facts = facts;
  options.fact_count = 4;
  kiln_bytes *code, *json;
  kiln_function* fn;
  CHECK_OK(kiln_kernel_compile_ahead(client, kernel, &options, &code, &json));
  CHECK_OK(kiln_function_load(kernel, kiln_bytes_data(code), kiln_bytes_size(code), kiln_bytes_data(json),
                              kiln_bytes_size(json), &fn));
  float* aligned = malloc(sizeof x + 16);
  float* from = (float*)(void*)(((uintptr_t)(void*)aligned + 15) / 16 * 16);
  fill();
  memcpy(from, x, sizeof x);
  kiln_argument arguments[] = {pointer_to(from, KILN_F32, COUNT), pointer_to(y, KILN_F32, COUNT),
                               pointer_to(out, KILN_F32, COUNT), integer(COUNT)};
  CHECK_OK(kiln_function_launch(fn, arguments, 4, NULL));
  CHECK(is_sum());
  arguments[3] = integer(999);
  CHECK_FAILS(kiln_function_launch(fn, arguments, 4, NULL), KILN_INVALID_ARGUMENT, "was compiled for arguments with");
  CHECK_OK(kiln_free(fn));
  CHECK(kiln_function_load(kernel, "nonsense", 8, kiln_bytes_data(json), kiln_bytes_size(json), &fn) != KILN_OK);
  CHECK(kiln_function_load(kernel, kiln_bytes_data(code), kiln_bytes_size(code), "{", 1, &fn) != KILN_OK);
  options.fact_count = 2;
  kiln_bytes* none;
  CHECK_FAILS(kiln_kernel_compile_ahead(client, kernel, &options, &none, &none), KILN_INVALID_ARGUMENT, "2 facts");
  const char* const wrong[] = {"x8", NULL, "none", "none"};
  options.facts = wrong;
  options.fact_count = 4;
  CHECK_FAILS(kiln_kernel_compile_ahead(client, kernel, &options, &none, &none), KILN_INVALID_ARGUMENT,
              "facts[0] is `x8`: `x` is ptr<f32>");
  CHECK_OK(kiln_free(code));
  CHECK_OK(kiln_free(json));
  free(aligned);
}

/* Code of one's own for a kernel without ops. */
static void compiles_custom_code(kiln_client* client) {
  const char* const declared = "kernel negate(%x: ptr<f32> readonly, %out: ptr<f32>, %n: i32) {\n  grid [n, 1, 1]\n}\n";
  const char* const text =
      "define void @one(ptr %x, ptr %out, i32 %n, i32 %program, i32 %py, i32 %pz) {\n"
      "  %from = getelementptr float, ptr %x, i32 %program\n"
      "  %value = load float, ptr %from\n"
      "  %negative = fneg float %value\n"
      "  %to = getelementptr float, ptr %out, i32 %program\n"
      "  store float %negative, ptr %to\n"
      "  ret void\n"
      "}\n";
  kiln_kernel* kernel;
  CHECK_OK(kiln_kernel_parse(declared, strlen(declared), "negate.kiln", &kernel));
  kiln_custom_code code = {sizeof code};
  code.text = text;
  code.text_size = strlen(text);
  code.entry = "one";
  code.file = "negate.ll";
  kiln_function* fn;
  CHECK_OK(kiln_kernel_compile_custom(client, kernel, &code, &fn));
  fill();
  kiln_argument arguments[] = {pointer_to(x, KILN_F32, COUNT), pointer_to(out, KILN_F32, COUNT), integer(COUNT)};
  CHECK_OK(kiln_function_launch(fn, arguments, 3, NULL));
  for (int i = 0; i < COUNT; ++i) CHECK(out[i] == -x[i]);
  CHECK_OK(kiln_free(fn));
  code.text_size = 100;
  CHECK_FAILS(kiln_kernel_compile_custom(client, kernel, &code, &fn), KILN_COMPILE_FAILED, "negate.ll:2:");
  code.form = 3;
  CHECK_FAILS(kiln_kernel_compile_custom(client, kernel, &code, &fn), KILN_INVALID_ARGUMENT, "no KILN_CODE");
  code.text = NULL;
  CHECK_FAILS(kiln_kernel_compile_custom(client, kernel, &code, &fn), KILN_INVALID_ARGUMENT, "`text` is NULL");
  CHECK_FAILS(kiln_kernel_compile_custom(client, kernel, NULL, &fn), KILN_INVALID_ARGUMENT, "`code` is NULL");
  CHECK_FAILS(kiln_function_of_object(kernel, "/nowhere/mine.so", "f", &fn), KILN_INVALID_ARGUMENT, "/nowhere/mine.so");
  CHECK_FAILS(kiln_function_of_object(kernel, NULL, "f", &fn), KILN_INVALID_ARGUMENT, "`path` is NULL");
  CHECK_OK(kiln_free(kernel));
}

/* The tuner of these tests answers at once, with BLOCK=2048. */
static void is_tuned(kiln_client* client, kiln_kernel* kernel) {
  const kiln_argument arguments[] = {pointer_to(x, KILN_F32, COUNT), pointer_to(y, KILN_F32, COUNT),
                                     pointer_to(out, KILN_F32, COUNT), integer(COUNT)};
  const char* const blocks[] = {"BLOCK=4096\n", "BLOCK=2048\n"};
  const int32_t modes[] = {KILN_MODE_DEFAULT, KILN_MODE_MAX};
  for (int i = 0; i < 2; ++i) {
    kiln_kernel_options options = {sizeof options};
    options.mode = modes[i];
    kiln_function* fn;
    kiln_bytes* config;
    CHECK_OK(kiln_kernel_compile(client, kernel, &options, &fn));
    CHECK_OK(kiln_function_prepare(fn, arguments, 4));
    CHECK_OK(kiln_function_config(fn, arguments, 4, &config));
    CHECK(strcmp(kiln_bytes_data(config), blocks[i]) == 0);
    fill();
    CHECK_OK(kiln_function_launch(fn, arguments, 4, NULL));
    CHECK(is_sum());
    CHECK_OK(kiln_free(config));
    CHECK_OK(kiln_free(fn));
  }
}

int main(int count, char** words) {
  kiln_client* client;
  kiln_kernel *kernel, *none;
  const char* const daemon_args[] = {"--tuner", words[1]};
  kiln_client_options tuned = {sizeof tuned};
  tuned.daemon_args = daemon_args;
  tuned.daemon_arg_count = 2;
  CHECK(count == 2 && setenv("KILN_FAKE_TUNER", "config BLOCK=2048", 1) == 0);
  CHECK_OK(kiln_client_create(&tuned, &client));
  CHECK_OK(kiln_kernel_library("vector_add", &kernel));
  CHECK_FAILS(kiln_kernel_library("fly", &none), KILN_NOT_FOUND, "no kernel `fly`");
  CHECK(kiln_kernel_parse("kernel k(", 9, "k.kiln", &none) != KILN_OK &&
        strstr(kiln_error_message(), "k.kiln:1:") != NULL);
  CHECK(kiln_kernel_parse("\3\0\0\0abc", 7, "bytes", &none) != KILN_OK &&
        strstr(kiln_error_message(), "bytes") != NULL);
  travels(kernel);
  const char* const targets[] = {"interp", "cpu"};
  const kiln_named_int config[] = {{"BLOCK", 256}, {"SIZE", 1}};
  for (size_t i = 0; i < 2; ++i) {
    kiln_kernel_options options = {sizeof options};
    options.target = targets[i];
    options.constexprs = config;
    options.constexpr_count = 1;
    kiln_function* fn;
    CHECK_OK(kiln_kernel_compile(client, kernel, &options, &fn));
    if (failures > 0) break;
    launches(fn);
    refuses(fn);
    if (i == 0) finds_indices_outside(fn);
    queues(fn);
    CHECK_OK(kiln_free(fn));
    options.constexpr_count = 2;
    CHECK_FAILS(kiln_kernel_compile(client, kernel, &options, &fn), KILN_INVALID_ARGUMENT, "SIZE");
  }
  profiles();
  is_tuned(client, kernel);
  loads(client, kernel);
  compiles_custom_code(client);
  CHECK_OK(kiln_free(kernel));
  CHECK_OK(kiln_free(client));
  return failures > 0;
}
