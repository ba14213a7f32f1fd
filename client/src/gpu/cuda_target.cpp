// The rules are those of "CUDA C++ Programming Guide", binary and PTX compatibility: a cubin runs on devices of its
// major capability from its minor one on, PTX on every later device, and code of an architecture-specific target
// (sm_90a) on that very capability.
#include "cuda_target.h"

#include <charconv>

namespace kiln::client::gpu::cuda {
namespace {

constexpr std::string_view kPrefix = "cuda:sm_";

std::string text(ComputeCapability c) { return std::to_string(c.major) + "." + std::to_string(c.minor); }

struct Target {
  ComputeCapability capability;
  bool specific = false;
};

bool parse(std::string_view text, Target& out) {
  if (!text.starts_with(kPrefix)) return false;
  text.remove_prefix(kPrefix.size());
  int number = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (bad != std::errc() || number < 10 || number > 9999) return false;
  out.capability = {number / 10, number % 10};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  out.specific = text.starts_with("a");
  if (out.specific) text.remove_prefix(1);
  return text.empty() || text[0] == ',' || text[0] == ';';
}

}  // namespace

std::string best_target(ComputeCapability device) {
  return std::string(kPrefix) + std::to_string(device.major) + std::to_string(device.minor) +
         (device.major >= 9 ? "a" : "");
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
