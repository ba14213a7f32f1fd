// What a launch on a GPU costs the host above the driver's own call: the same kernel through a handle (arguments
// packed, grid evaluated, variant chosen, tensor maps encoded) and by cuLaunchKernel alone with everything ready, in
// turns. On a machine without a driver a fake one stands in, whose calls do nothing: then only the difference means
// something. Then what a profile adds to a launch, and what the question costs whether anybody profiles.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "bench_tools.h"
#include "function_state.h"
#include "gpu/cuda_api.h"
#include "gpu/kernel_code.h"
#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/text.h"
#include "profile/recorder.h"

namespace {

using kiln::Artifact;
using kiln::bench::fail;
using kiln::bench::median;
using kiln::bench::need;
namespace client = kiln::client;
namespace cuda = kiln::client::gpu::cuda;

constexpr int kCalls = 200;  // fewer than a driver queues before it waits for the device
constexpr int kRounds = 301;

// A kernel that does nothing with its parameters.
struct Case {
  const char* name;
  const char* params;  // of the kernel
  const char* ptx;     // the same in PTX, with the tensor maps behind
  int tensor_maps;
};
constexpr Case kCases[] = {
    {"4 parameters", "%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %n: i32",
     ".param .u64 a, .param .u64 b, .param .u64 c, .param .u32 d", 0},
    {"12 parameters",
     "%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %n: i32, %p4: i32, %p5: i32, %p6: i64, %p7: i64, %p8: f32, %p9: f32, "
     "%p10: i1, %p11: f64",
     ".param .u64 a, .param .u64 b, .param .u64 c, .param .u32 d, .param .u32 e, .param .u32 f, .param .u64 g, "
     ".param .u64 h, .param .f32 i, .param .f32 j, .param .u8 k, .param .f64 l",
     0},
    {"4 parameters and 3 tensor maps", "%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %n: i32",
     ".param .u64 a, .param .u64 b, .param .u64 c, .param .u32 d, .param .align 64 .b8 e[128], "
     ".param .align 64 .b8 f[128], .param .align 64 .b8 g[128]",
     3},
};

kiln::dsl::Kernel kernel_of(const Case& what) {
  return need(kiln::dsl::parse(std::string("kernel k(") + what.params +
                                   ") {\n  grid [div(n + 1023, 1024), 1, 1]\n  %pid = program_id {axis = 0}\n}\n",
                               "k.kiln"));
}

Artifact artifact_of(const Case& what, const kiln::dsl::Kernel& kernel) {
  Artifact out;
  out.metadata.kernel = "k";
  out.metadata.target = "cuda:sm_80";
  out.metadata.emit = "ptx";
  out.metadata.entry = "kiln_entry";
  const kiln::abi::ParamLayout layout = kiln::abi::lay_out_params(kernel);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const kiln::dsl::Param& param = kernel.params[i];
    out.metadata.params.push_back({param.name, to_string(param.type, kernel.expr_names()), layout.slots[i].offset});
  }
  out.metadata.grid_expr.assign(kernel.grid.begin(), kernel.grid.end());
  kiln::abi::Device& device = out.metadata.device.emplace();
  device.threads = 32;
  device.shared_bytes = 0;
  const kiln::dsl::Expr n = kiln::dsl::Expr::param_ref(3);
  for (int i = 0; i < what.tensor_maps; ++i) {
    device.tensor_maps.push_back({.param = static_cast<uint32_t>(i),
                                  .offset = {},
                                  .dims = {n, n},
                                  .strides_bytes = {kiln::dsl::Expr(4) * n},
                                  .box = {32, 64},
                                  .swizzle_bytes = 128});
  }
  const std::string ptx = std::string(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry kiln_entry(") +
                          what.ptx + ")\n{\n  ret;\n}\n";
  const auto* bytes = reinterpret_cast<const std::byte*>(ptx.data());
  out.code.assign(bytes, bytes + ptx.size());
  return out;
}

double nanoseconds_each(const client::Stream& stream, const std::function<void()>& call) {
  need(stream.synchronise());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  need(stream.synchronise());
  return elapsed.count() / kCalls;
}

// The driver's calls of one launch with nothing left to do but to make them.
class BareLaunch {
 public:
  BareLaunch(const cuda::Api& api, const client::Variant& variant, const client::Stream& stream, float* memory)
      : api_(api), stream_(stream.native()), memory_(memory) {
    const client::gpu::LaunchSequence& sequence = variant.device_code->sequence();
    kernel_ = need(variant.device_code->on(stream.state()->device))->steps[0];
    bytes_ = sequence.block_bytes;
    for (const auto& map : sequence.tensor_maps) maps_.push_back(map.block_offset);
  }
  void operator()() {
    static constexpr uint64_t kDims[] = {2048, 2048}, kStrides[] = {8192};
    static constexpr uint32_t kBox[] = {32, 64}, kOnes[] = {1, 1};
    for (const uint32_t offset : maps_) {
      if (api_.encode_tiled(block_ + offset, cuda::kF32, 2, memory_, kDims, kStrides, kBox, kOnes, 0, 3, 2, 0) != 0) {
        fail("cuTensorMapEncodeTiled");
      }
    }
    void* extra[] = {reinterpret_cast<void*>(1), block_, reinterpret_cast<void*>(2), &bytes_, nullptr};
    if (api_.launch(kernel_, 2, 1, 1, 32, 1, 1, 0, stream_, nullptr, extra) != 0) fail("cuLaunchKernel");
  }

 private:
  const cuda::Api& api_;
  void* stream_;
  float* memory_;
  void* kernel_;
  size_t bytes_;
  std::vector<uint32_t> maps_;
  alignas(64) std::byte block_[client::gpu::kMaxBlockBytes] = {};
};

// Its launches shall do nothing, not even be noted. It is not linked: a real driver must not find its symbols.
void quieten_fake() {
  void* fake = ::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  auto* quieten = fake != nullptr ? reinterpret_cast<void (*)(bool)>(::dlsym(fake, "fake_quiet")) : nullptr;
  if (quieten == nullptr) fail(::dlerror());
  quieten(true);
}

struct Cost {
  double bare, kiln, profiled;
};

Cost measure(const Case& what, const client::Device& device) {
  const client::Stream stream = need(client::Stream::create(device));
  const kiln::dsl::Kernel kernel = kernel_of(what);
  auto variant = need(client::load_variant(kernel, artifact_of(what, kernel), {}));
  auto core = std::make_shared<client::Core>(client::ConnectOptions{}, false);
  client::CompileSpec spec{std::make_shared<const kiln::dsl::Kernel>(kernel), "cuda:sm_80", {}};
  const client::UntypedFunction function(client::FunctionState::make(core, std::move(spec), variant));
  auto memory = need(client::DeviceBuffer<float>::allocate(device, 2048 * 2048));
  std::vector<client::Argument> arguments(kernel.params.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    arguments[i] = i < 3 ? memory.argument() : client::Argument{{}, 0, 2048};

  BareLaunch bare(*need(cuda::load_api()), *variant, stream, memory);
  const client::LaunchOptions options{.stream = &stream};
  std::vector<double> bare_times, kiln_times, profiled_times;
  const auto launch = [&] {
    if (!function.launch(arguments, options)) fail("launch");
  };
  for (int round = 0; round < kRounds; ++round) {
    bare_times.push_back(nanoseconds_each(stream, [&] { bare(); }));
    kiln_times.push_back(nanoseconds_each(stream, launch));
    need(kiln::profile::start());
    profiled_times.push_back(nanoseconds_each(stream, launch));
    need(kiln::profile::stop());
  }
  return {median(bare_times), median(kiln_times), median(profiled_times)};
}

// A place that would note a span, while nobody profiles.
double unprofiled_ns() {
  constexpr int kPlaces = 1'000'000;
  std::vector<double> times;
  for (int round = 0; round < 51; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kPlaces; ++i) {
      const client::Timed timed(kiln::profile::Kind::kLaunch, "k");
      asm volatile("" ::: "memory");
    }
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    times.push_back(elapsed.count() / kPlaces);
  }
  return median(times);
}

}  // namespace

int main() {
  std::string driver = "cuda";
  if (auto present = client::devices("cuda"); !present) {
    std::fprintf(stderr, "bench-launch: %s; a fake driver stands in\n", present.error().message.c_str());
    ::setenv("KILN_CUDA_DRIVER", FAKE_CUDA, 1);
    (void)client::devices("cuda");  // starts it
    quieten_fake();
    driver = "fake";
  }
  std::vector<Cost> costs;
  {
    const client::Device device = need(client::Device::open("cuda"));
    for (const Case& what : kCases) {
      const bool skipped = what.tensor_maps > 0 && driver == "cuda" && device.info().target < "cuda:sm_90";
      if (skipped) std::printf("launch,%s,,[SKIPPED] %s has no tensor maps,,\n", what.name, device.info().name.c_str());
      if (skipped) break;
      costs.push_back(measure(what, device));
      std::printf("launch,%s,,%s driver,ns,%.0f\n", what.name, driver.c_str(), costs.back().bare);
      std::printf("launch,%s,,kiln on it,ns,%.0f\n", what.name, costs.back().kiln);
      std::printf("launch,%s,,a profile on that,ns,%.0f\n", what.name, costs.back().profiled - costs.back().kiln);
    }
  }
  std::printf("launch,nobody profiles,,a place that would note,ns,%.2f\n", unprofiled_ns());
  std::printf("\n%-34s %24s %10s\n", "ns", "above the driver's call", "profiled");
  for (size_t i = 0; i < costs.size(); ++i) {
    const auto& [bare, kiln, profiled] = costs[i];
    std::printf("%-34s %24.0f %+10.0f\n", kCases[i].name, kiln - bare, profiled - kiln);
  }
}
