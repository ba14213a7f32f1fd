// The rules are those of "CUDA C++ Programming Guide", binary and PTX compatibility: a cubin runs on devices of its
// major capability from its minor one on, PTX on every later device, and code of an architecture-specific target
// (sm_90a) on that very capability.
#include "cuda_target.h"

#include <charconv>

#include "kiln/target/gpu.h"

namespace kiln::client::gpu::cuda {
namespace {

constexpr std::string_view kFamily = "cuda:";

std::string text(ComputeCapability c) { return std::to_string(c.major) + "." + std::to_string(c.minor); }

struct Target {
  ComputeCapability capability;
  bool specific = false;
};

// "sm_90a" of "cuda:sm_90a;x=1".
std::string_view processor_of(std::string_view target) {
  if (!target.starts_with(kFamily)) return {};
  return target.substr(kFamily.size(), target.find_first_of(",;", kFamily.size()) - kFamily.size());
}

// Of a processor that this client's table may lack: code is made by the compiler.
bool parse(std::string_view target, Target& out) {
  std::string_view text = processor_of(target);
  const bool ptx_only = target::is_ptx_only(text);
  const std::string_view prefix = ptx_only ? "compute_" : "sm_";
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  int number = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (bad != std::errc() || number < 10 || number > 9999) return false;
  out.capability = {number / 10, number % 10};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  out.specific = !ptx_only && text == "a";
  return out.specific || text.empty();
}

}  // namespace

std::string best_target(ComputeCapability device) {
  return std::string(kFamily) + target::best_nvidia_name(10 * device.major + device.minor);
}

std::string note_on(ComputeCapability device) {
  const std::string target = best_target(device);
  if (!target::is_ptx_only(processor_of(target))) return "";
  return "compute capability " + text(device) +
         " is newer than what this version of Kiln makes machine code for: the "
         "driver translates PTX of " +
         std::string(processor_of(target));
}

Result<void> check_driver(std::string_view target, std::string_view emit, int driver_version) {
  const target::NvidiaGpu* gpu = target::find_nvidia_gpu(processor_of(target));
  if (emit != "ptx" || gpu == nullptr || driver_version == 0 || driver_version >= gpu->least_cuda()) return {};
  return error(ErrorCode::kUnavailable, "needs a driver of CUDA " + target::cuda_version_text(gpu->least_cuda()) +
                                            " or later, and this one is of CUDA " +
                                            target::cuda_version_text(driver_version));
}

Result<void> check_capability(std::string_view target, std::string_view emit, ComputeCapability device) {
  Target code;
  if (!parse(target, code)) return invalid_argument("is of no CUDA architecture that this client knows");
  const auto [major, minor] = code.capability;
  if (code.specific) {
    if (device.major == major && device.minor == minor) return {};
    return invalid_argument("needs a device of compute capability " + text(code.capability) + ", not " + text(device));
  }
  if (emit == "cubin") {
    if (device.major == major && device.minor >= minor) return {};
    return invalid_argument("needs a device of compute capability " + text(code.capability) + " to " +
                            text({major, 9}) + ", not " + text(device));
  }
  if (device.major > major || (device.major == major && device.minor >= minor)) return {};
  return invalid_argument("needs a device of compute capability " + text(code.capability) + " or more, not " +
                          text(device));
}

}  // namespace kiln::client::gpu::cuda
