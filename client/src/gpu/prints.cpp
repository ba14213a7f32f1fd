#include "prints.h"

#include <algorithm>
#include <cstring>

namespace kiln::client::gpu {
namespace {

using Message = abi::PrintMessage;

// A message, which may go on at the ring's beginning, in one piece.
std::vector<std::byte> in_one_piece(const PrintRing& ring, const std::byte* data, uint64_t from, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  const uint64_t place = from % ring.capacity, first = std::min(bytes, ring.capacity - place);
  std::memcpy(out.data(), data + place, first);
  std::memcpy(out.data() + first, data, bytes - first);
  return out;
}

void give(const std::vector<std::byte>& bytes, const Reports& reports, const PrintSink& sink) {
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  if (message.print >= reports.prints.size()) return;
  const abi::Print& print = reports.prints[message.print];
  std::vector<const void*> values;
  uint64_t offset = sizeof message;
  for (const abi::PrintedType& value : print.values) {
    uint64_t size = static_cast<uint64_t>(dsl::info(value.element).bytes);
    for (int64_t extent : value.shape) size *= static_cast<uint64_t>(extent);
    if (offset + size > bytes.size()) return;
    values.push_back(bytes.data() + offset);
    offset += abi::print_value_bytes(size);
  }
  const auto [x, y, z] = message.program;
  const std::array<uint32_t, 3> grid = {x + 1, y + 1, z + 1};  // in which the program is the last one
  sink(print_record(print, grid, x + uint64_t{grid[0]} * (y + uint64_t{grid[1]} * z), values.data()));
}

}  // namespace

uint64_t read_messages(const PrintRing& ring, const std::byte* data, uint64_t from, const Reports& reports,
                       const PrintSink& sink) {
  const uint64_t end = std::min(ring.reserved, from + ring.capacity);
  while (from + sizeof(Message) <= end) {
    Message message;
    const std::vector<std::byte> head = in_one_piece(ring, data, from, sizeof message);
    std::memcpy(&message, head.data(), sizeof message);
    if (message.bytes < sizeof message || message.bytes > end - from) break;
    if (sink) give(in_one_piece(ring, data, from, message.bytes), reports, sink);
    from += message.bytes;
  }
  return from;
}

PrintRings::~PrintRings() {
  if (stream_ != nullptr) driver_.destroy_stream(stream_);
}

Result<void> PrintRings::copy(void* to, const void* from, uint64_t bytes) {
  if (auto queued = driver_.copy(to, from, bytes, stream_); !queued) return queued;
  return driver_.synchronise_stream(stream_);
}

Result<std::shared_ptr<KernelRing>> PrintRings::add(const Reports& reports) {
  std::lock_guard lock(mutex_);
  if (stream_ == nullptr) {
    auto stream = driver_.create_stream();
    if (!stream) return stream.error();
    stream_ = *stream;
  }
  auto data = driver_.allocate(sizeof(PrintRing) + kPrintCapacity, "prints");
  if (!data) return data.error();
  auto ring = std::make_shared<KernelRing>(driver_, *data, reports);
  if (auto zero = driver_.fill(*data, 0, ring->memory.bytes(), stream_); !zero) return zero.error();
  const PrintRing header{0, 0, 0, kPrintCapacity, {}};
  if (auto begun = copy(*data, &header, sizeof header); !begun) return begun.error();
  std::erase_if(rings_, [](const std::weak_ptr<KernelRing>& known) { return known.expired(); });
  rings_.push_back(ring);
  return ring;
}

Result<void> PrintRings::drain() {
  std::vector<std::shared_ptr<KernelRing>> rings;
  {
    std::lock_guard lock(mutex_);
    for (const auto& known : rings_) {
      if (auto ring = known.lock()) rings.push_back(std::move(ring));
    }
  }
  for (const auto& ring : rings) {
    if (auto done = drain(*ring); !done) return done;
  }
  return {};
}

// What is read is zeroed before it is released: a message that is not complete has no bytes.
Result<void> PrintRings::drain(KernelRing& ring) {
  std::lock_guard lock(ring.mutex);
  auto* base = static_cast<std::byte*>(ring.device());
  PrintRing header{};
  if (auto read = copy(&header, base, sizeof header); !read) return read;
  if (header.reserved > ring.released) {
    std::vector<std::byte> data(kPrintCapacity);
    std::byte* from = base + sizeof header;
    if (auto read = copy(data.data(), from, data.size()); !read) return read;
    const uint64_t end = read_messages(header, data.data(), ring.released, ring.reports, ring.sink);
    const uint64_t bytes = end - ring.released, place = ring.released % kPrintCapacity;
    const uint64_t first = std::min(bytes, kPrintCapacity - place);
    if (first > 0) {
      if (auto zero = driver_.fill(from + place, 0, first, stream_); !zero) return zero;
    }
    if (bytes > first) {
      if (auto zero = driver_.fill(from, 0, bytes - first, stream_); !zero) return zero;
    }
    ring.released = end;
    if (auto freed = copy(base + offsetof(PrintRing, released), &end, sizeof end); !freed) return freed;
  }
  if (header.lost > ring.lost && ring.sink) {
    dsl::PrintRecord record;
    record.message = std::to_string(header.lost - ring.lost) + " messages lost: the device's ring was full";
    ring.sink(record);
  }
  ring.lost = header.lost;
  return {};
}

}  // namespace kiln::client::gpu
