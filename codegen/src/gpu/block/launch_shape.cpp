// How many threads a program gets where nobody says: enough that a thread's registers hold its part of every tile, and
// few enough that a thread has vectors to load and fragments to multiply.
#include "gpu/block/launch_shape.h"

#include <algorithm>
#include <bit>

#include "kiln/dsl/config.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int64_t kMostThreads = 512;
constexpr int64_t kOneWarp = 512;  // elements that a warp holds, without others to wait for
constexpr int kLeastBlockThreads = 128;
constexpr size_t kFewProducts = 64;

// Elements of the largest tile, words of 32 bits of the largest sum of products, bytes of the largest tile that is
// loaded; whether tiles are reduced, put into an order, sorted.
struct Largest {
  int64_t tile = 1, sum = 0, loaded = 0;
  bool reduces = false, orders = false, sorts = false;
};

int64_t words(const dsl::Type& type) {
  return dsl::element_count(type) * std::max(1, dsl::info(type.element).bytes / 4);
}

Largest largest_of(const dsl::Kernel& kernel) {
  Largest out;
  dsl::for_each_op(kernel, [&](const dsl::Op& op) {
    out.reduces |= op.code == dsl::OpCode::kReduce;
    out.sorts |= op.code == dsl::OpCode::kSort;
    out.orders |= op.code == dsl::OpCode::kScan || op.code == dsl::OpCode::kSort || op.code == dsl::OpCode::kTopk;
    for (dsl::ValueId id : op.results) {
      const dsl::Type& type = kernel.type(id);
      if (!type.is_value() || type.is_scalar()) continue;
      const bool is_sum = family_of(op) == dsl::OpFamily::kDot;
      out.tile = std::max(out.tile, dsl::element_count(type));
      if (is_sum) out.sum = std::max(out.sum, words(type));
      if (op.code == dsl::OpCode::kLoad) {
        out.loaded = std::max(out.loaded, dsl::element_count(type) * dsl::info(type.element).bytes);
      }
    }
  });
  return out;
}

int warps_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int lanes) {
  if (auto given = config.find(std::string(dsl::kNumWarps)); given != config.end()) {
    return static_cast<int>(given->second);
  }
  const Largest largest = largest_of(kernel);
  int64_t threads = 0;
  if (largest.sum > 0) {
    // 64 sums a thread, up to 128 in the largest tiles that 8 warps of 32 hold; operands in shared memory are no one's
    // registers, so that they count little.
    threads = largest.sum <= 8192 ? 128 : largest.sum <= 32768 ? 256 : kMostThreads;
    threads = std::max(threads, largest.tile / 128);
  } else if (largest.reduces && !largest.orders && largest.loaded > 0) {
    // 64 bytes a thread, 128 of the longest rows: the fewer warps, the less they wait for each other.
    threads = std::max(std::min<int64_t>(largest.loaded / 64, 256), largest.loaded / 128);
  } else {
    // A warp, or a vector of four for each of up to 128 threads, then 16 elements each; of a sort 32, so that fewer of
    // its steps are between threads.
    const int64_t share = std::max(std::min<int64_t>(largest.tile / 4, 128), largest.tile / (largest.sorts ? 32 : 16));
    threads = largest.tile <= kOneWarp ? lanes : share;
  }
  const auto rounded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(threads, kMostThreads))));
  return static_cast<int>(std::clamp<int64_t>(rounded / lanes, 1, 16));
}

}  // namespace

Effort effort_for(const dsl::Facts& facts) {
  const auto is_fact = [](dsl::ParamFact fact) { return fact != dsl::ParamFact::kNone; };
  return std::ranges::any_of(facts, is_fact) ? Effort::kFast : Effort::kShort;
}

int64_t largest_load(const dsl::Kernel& kernel) { return largest_of(kernel).loaded; }

bool has_products(const dsl::Region& region) {
  return any_op(region, [](const dsl::Op& op) { return family_of(op) == dsl::OpFamily::kDot; });
}

bool has_many_products(const dsl::Region& region) {
  size_t count = 0;
  dsl::for_each_op(region, [&](const dsl::Op& op) { count += family_of(op) == dsl::OpFamily::kDot; });
  return count > kFewProducts;
}

LaunchShape launch_shape(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int lanes) {
  const int warps = warps_of(kernel, config, lanes);
  const bool shares = warps == 1 && !has_products(kernel.body);
  using enum target::Schedule;
  const auto schedule = static_cast<target::Schedule>(dsl::schedule_option(config, dsl::kWarpSpecialise));
  const bool persistent = schedule == kPersistent || schedule == kQueue || schedule == kPingPong;
  return {.warps = warps,
          .is_given = config.contains(std::string(dsl::kNumWarps)),
          .programs = shares ? std::max(1, kLeastBlockThreads / lanes) : 1,
          .specialise = persistent || schedule == kProducers,
          .persistent = persistent,
          .queued = schedule == kQueue,
          .consumer_groups = schedule == kPingPong ? 2 : 1,
          .cluster = schedule == kPersistent ? static_cast<int>(dsl::schedule_option(config, dsl::kCluster)) : 1};
}

LaunchShape step_shape(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int lanes) {
  LaunchShape out = launch_shape(kernel, has_products(kernel.body) ? config : dsl::ConstexprValues(), lanes);
  out.programs = 1;
  out.persistent = out.queued = false;
  out.bulk_stores = false;
  return out;
}

}  // namespace kiln::codegen::gpu
