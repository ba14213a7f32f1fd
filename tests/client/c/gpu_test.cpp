// kiln.h on GPUs: a fake of the driver, which notes launches and runs host functions as kernels. Devices, streams of
// others, graphs and kernels on memory of theirs, and what is of another device.
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "check.h"
#include "fake_cuda.h"

// The driver itself, as another library calls it.
extern "C" {
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void* context);
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamDestroy_v2(void* stream);
}

namespace {

constexpr int kCount = 100;
float host[kCount], back[kCount];

struct Gpu {
  explicit Gpu(int32_t ordinal) {
    CHECK_OK(kiln_device_open(KILN_CUDA, ordinal, &device));
    CHECK_OK(kiln_stream_create(device, nullptr, 0, &stream));
    for (kiln_memory*& one : memory) CHECK_OK(kiln_memory_allocate(device, sizeof host, &one));
  }
  ~Gpu() {
    for (kiln_memory* one : memory) CHECK_OK(kiln_free(one));
    CHECK_OK(kiln_free(stream));
    CHECK_OK(kiln_free(device));
  }
  kiln_device* device = nullptr;
  kiln_stream* stream = nullptr;
  kiln_memory* memory[3] = {};
};

kiln_argument pointer_to(kiln_memory* memory, int32_t ordinal) {
  kiln_argument out = {};
  out.kind = KILN_ARG_POINTER;
  out.type = KILN_F32;
  out.value.pointer = kiln_memory_data(memory);
  out.extent = kCount;
  out.device = KILN_CUDA;
  out.ordinal = ordinal;
  return out;
}

kiln_argument integer(int64_t value) {
  kiln_argument out = {};
  out.kind = KILN_ARG_INT;
  out.value.i = value;
  return out;
}

void add(const unsigned char* params, const unsigned[3]) {
  float* arrays[3];
  std::memcpy(arrays, params, sizeof arrays);
  for (int i = 0; i < kCount; ++i) arrays[2][i] = arrays[0][i] + arrays[1][i];
}

void launches(kiln_client* client, const Gpu& gpu, const Gpu& other) {
  kiln_kernel* kernel;
  kiln_function* fn;
  kiln_kernel_options options = {};
  options.size = sizeof options;
  options.target = "cuda";
  CHECK_OK(kiln_kernel_library("vector_add", &kernel));
  CHECK_OK(kiln_kernel_compile(client, kernel, &options, &fn));
  for (int i = 0; i < kCount; ++i) host[i] = static_cast<float>(i);
  CHECK_OK(kiln_memory_copy_from_host(gpu.memory[0], host, sizeof host, nullptr));
  CHECK_OK(kiln_memory_copy(gpu.memory[1], gpu.memory[0], gpu.stream));
  kiln_argument arguments[] = {pointer_to(gpu.memory[0], 0), pointer_to(gpu.memory[1], 0), pointer_to(gpu.memory[2], 0),
                               integer(kCount)};
  kiln_launch_options launch = {};
  launch.size = sizeof launch;
  launch.stream = gpu.stream;
  CHECK_OK(kiln_function_launch(fn, arguments, 4, &launch));
  CHECK_OK(kiln_memory_copy_to_host(gpu.memory[2], back, sizeof back, gpu.stream));
  CHECK_OK(kiln_stream_synchronise(gpu.stream));
  CHECK(back[7] == 14);

  // What lies elsewhere, and streams of others.
  launch.stream = other.stream;
  CHECK_FAILS(kiln_function_launch(fn, arguments, 4, &launch), KILN_INVALID_ARGUMENT,
              "it lies on cuda:0, and this runs on cuda:1");
  kiln_device* cpu;
  kiln_stream* on_cpu;
  CHECK_OK(kiln_device_open(KILN_HOST, 0, &cpu));
  CHECK_OK(kiln_stream_create(cpu, nullptr, 0, &on_cpu));
  launch.stream = on_cpu;
  CHECK_FAILS(kiln_function_launch(fn, arguments, 4, &launch), KILN_INVALID_ARGUMENT, "the stream is of the host");
  launch.stream = gpu.stream;
  arguments[1].device = KILN_HOST;
  CHECK_FAILS(kiln_function_launch(fn, arguments, 4, &launch), KILN_INVALID_ARGUMENT, "it lies on the host");
  CHECK_FAILS(kiln_memory_copy_from_host(gpu.memory[0], host, 4, other.stream), KILN_INVALID_ARGUMENT,
              "the memory is of cuda:0, and the stream of cuda:1");
  kiln_event* event;
  CHECK_OK(kiln_event_create(gpu.device, &event));
  CHECK_FAILS(kiln_event_record(event, other.stream), KILN_INVALID_ARGUMENT, "the event is of cuda:0");
  CHECK_OK(kiln_event_record(event, gpu.stream));
  CHECK_OK(kiln_event_hold_back(event, other.stream));
  CHECK_FAILS(kiln_event_hold_back(event, on_cpu), KILN_INVALID_ARGUMENT, "the stream of the host");
  kiln_memory* on_host;
  CHECK_OK(kiln_memory_allocate(cpu, sizeof host, &on_host));
  CHECK_FAILS(kiln_memory_copy(on_host, gpu.memory[0], nullptr), KILN_INVALID_ARGUMENT, "kiln_memory_copy_to_host");
  for (void* handle : {static_cast<void*>(on_host), static_cast<void*>(event), static_cast<void*>(on_cpu),
                       static_cast<void*>(cpu), static_cast<void*>(fn), static_cast<void*>(kernel)}) {
    CHECK_OK(kiln_free(handle));
  }
}

kiln_array on(kiln_memory* memory, const int64_t* shape, int32_t ordinal) {
  kiln_array out = output_of(kiln_memory_data(memory), KILN_F32, 1, shape);
  out.device = KILN_CUDA;
  out.ordinal = ordinal;
  return out;
}

void runs_on_a_stream_of_others(kiln_client* client, const Gpu& gpu, const Gpu& other) {
  const char* text =
      "dim n: 1..4096\n"
      "graph sum(%x: f32[n], %y: f32[n]) {\n  %0 = add %x, %y : f32[n]\n  output z = %0\n}\n";
  kiln_graph* graph;
  kiln_compiled_graph* fn;
  kiln_graph_options options = {};
  options.size = sizeof options;
  options.target = "cuda";
  CHECK_OK(kiln_graph_parse(text, std::strlen(text), nullptr, &graph));
  CHECK_OK(kiln_graph_compile(client, graph, &options, &fn));
  const int64_t shape[] = {kCount};
  kiln_array inputs[] = {on(gpu.memory[0], shape, 0), on(gpu.memory[1], shape, 0)};
  kiln_array output = on(gpu.memory[2], shape, 0);
  void *context = nullptr, *theirs = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0 && cuStreamCreate(&theirs, 1) == 0);
  kiln_stream* wrapped;
  CHECK_OK(kiln_stream_wrap(gpu.device, theirs, &wrapped));
  kiln_run_options run = {};
  run.size = sizeof run;
  run.stream = wrapped;
  const size_t before = fake_launches();
  CHECK_OK(kiln_graph_run(fn, inputs, 2, &output, 1, &run));
  CHECK_OK(kiln_stream_synchronise(wrapped));
  CHECK(fake_launches() == before + 1);
  const FakeLaunch* seen = fake_launch(before);
  CHECK(seen->stream == theirs && seen->device == 0);
  void* first = nullptr;
  std::memcpy(&first, seen->params, sizeof first);
  CHECK(first == inputs[0].data || first == inputs[1].data);

  run.stream = other.stream;
  CHECK_FAILS(kiln_graph_run(fn, inputs, 2, &output, 1, &run), KILN_INVALID_ARGUMENT,
              "input 0 (`x`): it lies on cuda:0, and this runs on cuda:1");
  run.stream = gpu.stream;
  inputs[1] = array_of(host, KILN_F32, 1, shape);
  CHECK_FAILS(kiln_graph_run(fn, inputs, 2, &output, 1, &run), KILN_INVALID_ARGUMENT, "is not on the device");
  // Without a stream the host's arrays are copied there and back.
  output = output_of(back, KILN_F32, 1, shape);
  CHECK_OK(kiln_graph_run(fn, inputs, 2, &output, 1, nullptr));
  kiln_tensor* result;
  CHECK_OK(kiln_graph_results(fn, inputs, 2, &result, 1, nullptr));
  for (void* handle :
       {static_cast<void*>(wrapped), static_cast<void*>(result), static_cast<void*>(fn), static_cast<void*>(graph)}) {
    CHECK_OK(kiln_free(handle));
  }
  CHECK(fake_live("stream") == 3);  // theirs is theirs
  CHECK(cuStreamDestroy_v2(theirs) == 0 && cuDevicePrimaryCtxRelease_v2(0) == 0);
}

// A kernel of the user's own PTX between two that are compiled: launched by its name, with its block and parameters.
constexpr const char* kWithPtx = R"(dim n: 1..4096

kernel @increment {
  operands f32[n]
  results f32[n]
  arguments operand 0, result 0, n
  code "cuda" ptx threads 64 shared 256 {
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry increment(.param .u64 x, .param .u64 out, .param .u32 n) {\n"
    "  ret;\n"
    "}\n"
  }
  kernel increment(%x: ptr<f32> readonly, %out: ptr<f32>, %n: i32) {
    grid [div(n + 63, 64), 1, 1]
  }
}

graph steps(%x: f32[n]) {
  %0 = add %x, %x : f32[n]
  %1 = kernel %0 {kernel = @increment} : f32[n]
  %2 = mul %1, %1 : f32[n]
  output y = %2
}
)";

void nothing(const unsigned char*, const unsigned[3]) {}

void runs_code_of_ones_own(kiln_client* client, const Gpu& gpu) {
  kiln_graph* graph;
  kiln_compiled_graph* fn;
  kiln_bytes* text;
  kiln_graph_options options = {};
  options.size = sizeof options;
  options.target = "cuda";
  fake_kernel("kiln_entry", nothing);
  CHECK_OK(kiln_graph_parse(kWithPtx, std::strlen(kWithPtx), "steps.kg", &graph));
  CHECK_OK(kiln_graph_compile(client, graph, &options, &fn));
  CHECK_OK(kiln_graph_explain(fn, nullptr, 0, &text));
  CHECK(std::strstr(kiln_bytes_data(text), ": increment, of the graph's PTX, gives f32[n]\n") != nullptr);
  const int64_t shape[] = {kCount};
  const kiln_array input = on(gpu.memory[0], shape, 0), output = on(gpu.memory[1], shape, 0);
  kiln_run_options run = {};
  run.size = sizeof run;
  run.stream = gpu.stream;
  const size_t before = fake_launches();
  CHECK_OK(kiln_graph_run(fn, &input, 1, &output, 1, &run));
  CHECK_OK(kiln_stream_synchronise(gpu.stream));
  size_t found = 0;
  for (size_t i = before; i < fake_launches(); ++i) {
    const FakeLaunch& seen = *fake_launch(i);
    if (std::strcmp(seen.entry, "increment") != 0) continue;
    int32_t n = 0;
    std::memcpy(&n, seen.params + 16, sizeof n);
    CHECK(seen.grid[0] == 2 && seen.block[0] == 64 && seen.shared_bytes == 256 && n == kCount);
    ++found;
  }
  CHECK(found == 1);
  options.target = "cpu";
  CHECK_FAILS(kiln_graph_compile(client, graph, &options, &fn), KILN_COMPILE_FAILED,
              "steps.kg:20:3: kernel: `increment` has code for cuda, and no ops that run elsewhere");
  for (void* handle : {static_cast<void*>(text), static_cast<void*>(fn), static_cast<void*>(graph)}) {
    CHECK_OK(kiln_free(handle));
  }
}

}  // namespace

int main() {
  ::setenv("KILN_CUDA_DRIVER", FAKE_CUDA, 1);
  fake_reset(2);
  fake_kernel("kiln_entry", add);
  kiln_client_options quiet = {};
  quiet.size = sizeof quiet;
  quiet.no_background = 1;
  kiln_client* client;
  size_t devices = 0;
  CHECK_OK(kiln_device_count(KILN_CUDA, &devices));
  CHECK(devices == 2);
  CHECK_OK(kiln_client_create(&quiet, &client));
  {
    const Gpu gpu(0), other(1);
    launches(client, gpu, other);
    runs_on_a_stream_of_others(client, gpu, other);
    runs_code_of_ones_own(client, gpu);
  }
  CHECK_OK(kiln_free(client));
  CHECK(std::strcmp(fake_misuse(), "") == 0);
  for (const char* what : {"memory", "stream", "event", "module", "graph", "context"}) CHECK(fake_live(what) == 0);
  return failures > 0;
}
