#include "failures.h"

#include <algorithm>

namespace kiln::client::gpu {
namespace {

constexpr size_t kRecords = 1024;

}  // namespace

// These come from the linear number of a program in its grid: in this grid the program is the last one.
Error failure_in_words(const CheckedKernel& owner, const FailureRecord& record) {
  const auto [x, y, z] = record.program;
  const std::array<uint32_t, 3> grid = {x + 1, y + 1, z + 1};
  kiln_failure failure{};
  failure.check = record.check;
  failure.parameter = record.parameter;
  failure.program = x + uint64_t{grid[0]} * (y + uint64_t{grid[1]} * z);
  failure.lane = record.lane;
  failure.index = record.index;
  std::vector<dsl::Argument> arguments(owner.kernel.params.size());
  for (dsl::Argument& argument : arguments) argument.extent = record.extent;
  return failure_of(owner.kernel, owner.reports, static_cast<int32_t>(record.code), failure, grid, arguments);
}

FailureRecords::~FailureRecords() {
  if (stream_ != nullptr) driver_.destroy_stream(stream_);
}

Result<void> FailureRecords::create() {
  auto stream = driver_.create_stream();
  if (!stream) return stream.error();
  constexpr uint64_t kBytes = kRecords * sizeof(FailureRecord);
  auto data = driver_.allocate(kBytes, "failure records");
  if (!data) {
    driver_.destroy_stream(*stream);
    return data.error();
  }
  memory_ = std::make_unique<Allocation>(driver_, *data, kBytes);
  stream_ = *stream;
  if (auto zero = driver_.fill(*data, 0, kBytes, stream_); !zero) return zero;
  return driver_.synchronise_stream(stream_);
}

Result<void> FailureRecords::copy(void* to, const void* from, uint64_t bytes) {
  if (auto queued = driver_.copy(to, from, bytes, stream_); !queued) return queued;
  return driver_.synchronise_stream(stream_);
}

Result<void*> FailureRecords::add(std::shared_ptr<const CheckedKernel> kernel) {
  std::lock_guard lock(mutex_);
  if (memory_ == nullptr) {
    if (auto created = create(); !created) return created.error();
  }
  auto free_slot = std::find(owners_.begin(), owners_.end(), nullptr);
  if (free_slot == owners_.end()) {
    if (owners_.size() == kRecords) {
      return error(ErrorCode::kResourceExhausted,
                   "more than " + std::to_string(kRecords) + " kernels with checks are loaded");
    }
    free_slot = owners_.insert(owners_.end(), nullptr);
  }
  void* record = at(static_cast<size_t>(free_slot - owners_.begin()));
  const FailureRecord none{};
  if (auto cleared = copy(record, &none, sizeof none); !cleared) return cleared.error();
  *free_slot = std::move(kernel);
  return record;
}

void FailureRecords::remove(void* record) {
  std::lock_guard lock(mutex_);
  owners_[static_cast<size_t>(static_cast<FailureRecord*>(record) - at(0))].reset();
}

Result<void> FailureRecords::check() {
  std::lock_guard lock(mutex_);
  if (owners_.empty()) return {};
  std::vector<FailureRecord> records(owners_.size());
  if (auto read = copy(records.data(), at(0), records.size() * sizeof(FailureRecord)); !read) return read;
  for (size_t slot = 0; slot < records.size(); ++slot) {
    if (records[slot].code == 0 || owners_[slot] == nullptr) continue;
    const FailureRecord none{};
    if (auto cleared = copy(at(slot), &none, sizeof none); !cleared) return cleared;
    return failure_in_words(*owners_[slot], records[slot]);
  }
  return {};
}

}  // namespace kiln::client::gpu
