#include "handles.h"

#include <array>
#include <atomic>
#include <new>

namespace kiln::c {
namespace {

static_assert(sizeof(void*) == sizeof(uint64_t), "handles need 64 bits");
constexpr int kKindShift = 56, kSlotShift = 32;
constexpr uint32_t kChunk = 1024;
constexpr uint32_t kChunks = (1u << 24) / kChunk;
constexpr uint32_t kNoSlot = ~uint32_t{0};
// Of a slot's state: its generation stands above.
constexpr uint64_t kClosed = uint64_t{1} << 31, kPins = kClosed - 1;

struct Slot {
  std::atomic<uint64_t> state{kClosed};  // closed: no handle of this generation is good
  Object* object = nullptr;
  std::atomic<uint32_t> next_free{kNoSlot};
};

struct Table {
  std::array<std::atomic<Slot*>, kChunks> chunks{};
  std::atomic<uint32_t> used{0};
  // The first free slot, below a number that is another one each time that it changes.
  std::atomic<uint64_t> free{kNoSlot};

  Slot& operator[](uint32_t slot) { return chunks[slot / kChunk].load(std::memory_order_acquire)[slot % kChunk]; }
  uint32_t take();
  void give_back(uint32_t slot);
};

Table& table() {
  static Table& all = *new Table;
  return all;
}

uint64_t next_head(uint64_t head, uint32_t slot) { return ((head >> 32) + 1) << 32 | slot; }

uint32_t Table::take() {
  uint64_t head = free.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != kNoSlot) {
    const auto slot = static_cast<uint32_t>(head);
    const uint32_t behind = (*this)[slot].next_free.load(std::memory_order_relaxed);
    if (free.compare_exchange_weak(head, next_head(head, behind), std::memory_order_acq_rel)) return slot;
  }
  const uint32_t slot = used.fetch_add(1, std::memory_order_relaxed);
  if (slot / kChunk >= kChunks) {
    used.store(kChunk * kChunks, std::memory_order_relaxed);
    throw std::bad_alloc();
  }
  std::atomic<Slot*>& chunk = chunks[slot / kChunk];
  if (chunk.load(std::memory_order_acquire) == nullptr) {
    std::unique_ptr<Slot[]> made(new Slot[kChunk]);
    Slot* none = nullptr;
    if (chunk.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) (void)made.release();
  }
  return slot;
}

void Table::give_back(uint32_t slot) {
  uint64_t head = free.load(std::memory_order_relaxed);
  do {
    (*this)[slot].next_free.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
  } while (!free.compare_exchange_weak(head, next_head(head, slot), std::memory_order_acq_rel));
}

struct Parts {
  Kind kind;
  uint32_t slot;
  uint32_t generation;
};
Parts parts_of(const void* handle) {
  const auto bits = reinterpret_cast<uint64_t>(handle);
  return {static_cast<Kind>(bits >> kKindShift), static_cast<uint32_t>(bits >> kSlotShift & 0xff'ffff),
          static_cast<uint32_t>(bits)};
}

bool exists(uint32_t slot) { return table().chunks[slot / kChunk].load(std::memory_order_acquire) != nullptr; }

// Nobody uses the object of a closed slot: it goes, and the slot is free.
void retire(uint32_t slot) {
  Slot& here = table()[slot];
  const std::unique_ptr<Object> object(std::exchange(here.object, nullptr));
  table().give_back(slot);
}

}  // namespace

const char* kind_name(Kind kind) {
  static constexpr const char* kNames[] = {"none",        "kiln_client",         "kiln_bytes",     "kiln_cancel",
                                           "kiln_graph",  "kiln_compiled_graph", "kiln_tensor",    "kiln_safetensors",
                                           "kiln_model",  "kiln_kernel",         "kiln_function",  "kiln_device",
                                           "kiln_stream", "kiln_event",          "kiln_recording", "kiln_memory"};
  const auto number = static_cast<size_t>(kind);
  return number < std::size(kNames) ? kNames[number] : kNames[0];
}

namespace detail {

void* publish(Kind kind, std::unique_ptr<Object> object) {
  const uint32_t slot = table().take();
  Slot& here = table()[slot];
  here.object = object.release();
  const uint32_t generation = static_cast<uint32_t>(here.state.load(std::memory_order_relaxed) >> 32) + 1;
  here.state.store(uint64_t{generation} << 32, std::memory_order_release);
  return reinterpret_cast<void*>(uint64_t{static_cast<uint8_t>(kind)} << kKindShift | uint64_t{slot} << kSlotShift |
                                 generation);
}

Found find(Kind kind, const void* handle) {
  const Parts parts = parts_of(handle);
  if (parts.kind != kind || !exists(parts.slot)) return {};
  Slot& slot = table()[parts.slot];
  uint64_t state = slot.state.load(std::memory_order_relaxed);
  do {
    if (state >> 32 != parts.generation || (state & kClosed) != 0) return {};
  } while (!slot.state.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed));
  return {slot.object, parts.slot};
}

void unpin(uint32_t slot) {
  const uint64_t before = table()[slot].state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kClosed) != 0 && (before & kPins) == 1) retire(slot);
}

Error bad_handle(Kind kind, const void* handle, const char* name) {
  const std::string here = "`" + std::string(name) + "`";
  if (handle == nullptr) return invalid_argument(here + " is NULL, and must be a " + kind_name(kind));
  const Parts parts = parts_of(handle);
  if (*kind_name(parts.kind) == 'n') return invalid_argument(here + " is no handle of Kiln");
  if (parts.kind != kind) {
    return invalid_argument(here + " is a " + kind_name(parts.kind) + ", and must be a " + kind_name(kind));
  }
  return invalid_argument(here + " is a " + kind_name(kind) + " that was freed");
}

}  // namespace detail

Result<void> free_handle(void* handle) {
  if (handle == nullptr) return {};
  const Parts parts = parts_of(handle);
  if (*kind_name(parts.kind) == 'n') return invalid_argument("kiln_free: this is no handle of Kiln");
  const Error twice = invalid_argument("kiln_free: this " + std::string(kind_name(parts.kind)) + " was freed before");
  if (!exists(parts.slot)) return twice;
  Slot& slot = table()[parts.slot];
  uint64_t state = slot.state.load(std::memory_order_relaxed);
  do {
    if (state >> 32 != parts.generation || (state & kClosed) != 0) return twice;
  } while (!slot.state.compare_exchange_weak(state, state | kClosed, std::memory_order_acq_rel));
  if ((state & kPins) == 0) retire(parts.slot);
  return {};
}

}  // namespace kiln::c
