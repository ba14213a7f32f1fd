// What the memory of devices gives, by copies: the roof over launches that move bytes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "kiln/client/gpu.h"
#include "kiln/client/host_memory.h"
#include "kiln/client/profile.h"
#include "parallel.h"
#include "recorder.h"

namespace kiln::client {
namespace {

constexpr int kRounds = 3;  // the first one warms up
constexpr uint64_t kLeast = uint64_t{64} << 20, kMost = uint64_t{256} << 20;

// Larger than what a cache could keep of both ends.
uint64_t bytes_beyond(uint64_t cache) { return std::clamp(4 * cache, kLeast, kMost); }

// A copy reads and writes. Bytes a nanosecond, which are GB/s.
double rate_of(uint64_t bytes, double ns) { return ns > 0 ? 2 * static_cast<double>(bytes) / ns : 0; }

std::optional<double> host_rate(uint64_t bytes) {
  const auto from = HostMemory::allocate(bytes), to = HostMemory::allocate(bytes);
  if (!from || !to) return std::nullopt;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begun = profile_clock();
    in_parallel(threads_to_use(0), [&](int part, int parts) {
      const auto at = [&](int i) { return bytes / static_cast<uint64_t>(parts) * static_cast<uint64_t>(i); };
      std::memcpy(to->data() + at(part), from->data() + at(part), at(part + 1) - at(part));
    });
    best = std::max(best, rate_of(bytes, static_cast<double>(profile_clock() - begun)));
  }
  return best;
}

Result<double> device_rate(const Device& device, uint64_t bytes) {
  auto from = DeviceMemory::allocate(device, bytes), to = DeviceMemory::allocate(device, bytes);
  auto stream = Stream::create(device);
  auto begin = Event::create(device), end = Event::create(device);
  for (const Error* failed :
       {from ? nullptr : &from.error(), to ? nullptr : &to.error(), stream ? nullptr : &stream.error(),
        begin ? nullptr : &begin.error(), end ? nullptr : &end.error()}) {
    if (failed != nullptr) return *failed;
  }
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (auto done = begin->record(*stream); !done) return done.error();
    if (auto done = to->copy_from(*from, *stream); !done) return done.error();
    if (auto done = end->record(*stream); !done) return done.error();
    if (auto done = stream->synchronise(); !done) return done.error();
    auto ms = elapsed_ms(*begin, *end);
    if (!ms) return ms.error();
    best = std::max(best, rate_of(bytes, static_cast<double>(*ms) * 1e6));
  }
  return best;
}

// Nothing where the device does not tell: it may have no memory left, or be gone.
std::optional<double> roof_of(const std::string& name) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  auto device = Device::open(kind, colon == std::string::npos ? 0 : std::atoi(name.c_str() + colon + 1));
  if (!device) return std::nullopt;
  const uint64_t bytes = bytes_beyond(device->info().cache_bytes);
  if (kind == "cpu") return host_rate(bytes);
  const auto rate = device_rate(*device, bytes);
  return rate && *rate > 0 ? std::optional(*rate) : std::nullopt;
}

}  // namespace
}  // namespace kiln::client

namespace kiln::profile {

void find_roofs(Profile& profile) {
  for (const Span& span : profile.spans) {
    if (span.kind != Kind::kLaunch || span.device.empty() || span.device == "interp") continue;
    const auto [roof, is_new] = profile.roofs.try_emplace(span.device, 0.0);
    if (is_new) roof->second = client::roof_of(span.device).value_or(0);
  }
  std::erase_if(profile.roofs, [](const auto& roof) { return roof.second <= 0; });
}

}  // namespace kiln::profile
