#include "bulk_copies.h"

#include <cstring>
#include <utility>

#include "block.h"

namespace kiln::test {
namespace {

constexpr int64_t kAlignment = 16, kSharedAlignment = 128;

// Of the address: bits 4-6 xor bits 7-9 for lines of 128 bytes, fewer for shorter ones (PTX ISA, "Swizzling modes").
std::byte* swizzled(std::byte* pointer, int swizzle_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const uintptr_t groups = swizzle_bytes == 0 ? 0 : static_cast<uintptr_t>(swizzle_bytes) / 16 - 1;
  return reinterpret_cast<std::byte*>(address ^ ((address >> 7 & groups) << 4));
}

}  // namespace

int64_t EmulatedTensorMap::box_bytes() const {
  auto out = static_cast<int64_t>(element_bytes);
  for (size_t i = 0; i < rank; ++i) out *= box[i];
  return out;
}

// ---- transaction barriers ----

void BulkCopies::init_barrier(const void* barrier, int arrivals) {
  barriers_[barrier] = {arrivals, arrivals, 0, 0, {}, {}};
}

BulkCopies::Barrier& BulkCopies::find(Thread& thread, const void* barrier) {
  const auto found = barriers_.find(barrier);
  if (found == barriers_.end()) block_.fail(thread, "a transaction barrier that is not initialised");
  return found->second;
}

void BulkCopies::arrive(Thread& thread, const void* barrier, int64_t announced_bytes) {
  Barrier& it = find(thread, barrier);
  if (it.missing == 0) block_.fail(thread, "too many arrivals at a transaction barrier");
  --it.missing;
  it.announced += announced_bytes;
  block_.wake_from_transactions();
}

void BulkCopies::arrive_when(Thread& thread, const void* barrier, std::function<void()> done) {
  Barrier& it = find(thread, barrier);
  if (it.missing == 0) block_.fail(thread, "a barrier arrives again before its phase has ended");
  it.done.push_back(std::move(done));
  arrive(thread, barrier, 0);
}

void BulkCopies::wait(Thread& thread, const void* barrier, uint32_t parity, int site) {
  Barrier& it = find(thread, barrier);
  for (;;) {
    if (it.phase % 2 == parity) try_to_complete(thread, it);
    if (it.phase % 2 != parity) return;
    block_.wait_for_transaction(thread, site);
  }
}

void BulkCopies::try_to_complete(Thread& thread, Barrier& barrier) {
  int64_t bytes = 0;
  for (const Copy& copy : barrier.loads) bytes += copy.map->box_bytes();
  if (barrier.missing != 0 || bytes < barrier.announced) return;
  if (bytes > barrier.announced) block_.fail(thread, "bulk loads of more bytes than were announced");
  for (const Copy& copy : barrier.loads) perform(thread, copy, true);
  for (const auto& done : std::exchange(barrier.done, {})) done();
  barrier = {barrier.arrivals, barrier.arrivals, 0, barrier.phase + 1, {}, {}};
  block_.wake_from_transactions();
}

// ---- copies ----

void BulkCopies::load(Thread& thread, const EmulatedTensorMap& map, const Coordinates& at, std::byte* shared,
                      const void* barrier) {
  check(thread, {&map, at, shared});
  find(thread, barrier).loads.push_back({&map, at, shared});
  block_.wake_from_transactions();
}

void BulkCopies::store(Thread& thread, const EmulatedTensorMap& map, const Coordinates& at, std::byte* shared) {
  check(thread, {&map, at, shared});
  stores_[&thread].open.push_back({&map, at, shared});
}

void BulkCopies::end_group(Thread& thread) {
  Stores& stores = stores_[&thread];
  stores.groups.push_back(std::move(stores.open));
  stores.open.clear();
}

void BulkCopies::wait_groups(Thread& thread, size_t pending) {
  auto& groups = stores_[&thread].groups;
  for (; groups.size() > pending; groups.pop_front()) {
    for (const Copy& copy : groups.front()) perform(thread, copy, false);
  }
}

std::string BulkCopies::finish() {
  std::string out;
  for (const auto& [thread, stores] : stores_) {
    if (!stores.open.empty() || !stores.groups.empty()) out = "nobody waits for a bulk store";
  }
  for (const auto& [address, barrier] : barriers_) {
    if (!barrier.loads.empty()) out = "nobody waits for a bulk load";
  }
  barriers_.clear();
  stores_.clear();
  return out;
}

// What an H200 stops at.
void BulkCopies::check(Thread& thread, const Copy& copy) {
  const EmulatedTensorMap& map = *copy.map;
  const auto is_multiple = [](int64_t x, int64_t of) { return x % of == 0; };
  bool fine = is_multiple(reinterpret_cast<intptr_t>(map.address), kAlignment) &&
              is_multiple(reinterpret_cast<intptr_t>(copy.shared), kSharedAlignment) &&
              is_multiple(int64_t{copy.at[0]} * static_cast<int64_t>(map.element_bytes), kAlignment);
  for (size_t i = 0; i < map.rank; ++i) {
    fine = fine && map.box[i] >= 1 && map.box[i] <= 256 && map.dims[i] >= 1 && map.dims[i] <= INT32_MAX &&
           (i == 0 || (map.strides_bytes[i] >= 0 && is_multiple(map.strides_bytes[i], kAlignment)));
  }
  if (!fine) block_.fail(thread, "a bulk copy that is unaligned or has a box or extents of a wrong size");
}

// What an H200 stores along the innermost axis: whole 16 bytes, also where the extent ends inside them.
int64_t stored_extent(const EmulatedTensorMap& map) {
  const auto bytes = static_cast<int64_t>(map.element_bytes);
  return (map.dims[0] * bytes + kAlignment - 1) / kAlignment * kAlignment / bytes;
}

void BulkCopies::perform(Thread& thread, const Copy& copy, bool is_load) {
  const EmulatedTensorMap& map = *copy.map;
  const auto bytes = map.element_bytes;
  const auto elements = static_cast<size_t>(map.box_bytes()) / bytes;
  for (size_t element = 0; element < elements; ++element) {
    auto rest = static_cast<int64_t>(element);
    std::byte* global = map.address;
    bool inside = true;
    for (size_t i = 0; i < map.rank; ++i) {
      const int64_t at = copy.at[i] + rest % map.box[i];
      rest /= map.box[i];
      inside = inside && at >= 0 && at < (i == 0 && !is_load ? stored_extent(map) : map.dims[i]);
      global += inside ? at * (i == 0 ? static_cast<int64_t>(bytes) : map.strides_bytes[i]) : 0;
    }
    std::byte* shared = swizzled(copy.shared + element * bytes, map.swizzle_bytes);
    if (inside) block_.check_global(thread, global, bytes, is_load ? "bulk load" : "bulk store");
    if (is_load) {
      std::memcpy(shared, inside ? static_cast<const void*>(global) : &map.fill, bytes);
    } else {
      block_.check_shared(thread, shared, bytes, false);
      if (inside) std::memcpy(global, shared, bytes);
    }
  }
}

}  // namespace kiln::test
