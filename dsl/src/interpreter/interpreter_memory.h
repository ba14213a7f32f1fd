// Buffers as the interpreter sees them: where an element lies, who touched it before, and what is wrong with that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::dsl::interpreter {

struct Machine;

enum class Use : uint8_t { kRead, kWrite, kAtomic };

// Who touched an element: programs by number from 1; 0 is nobody.
struct Touched {
  static constexpr uint32_t kAtomicBit = uint32_t{1} << 31, kMany = ~uint32_t{0};
  uint32_t writer = 0;  // the last one; kAtomicBit where it was an atomic
  uint32_t reader = 0;  // kMany: several programs
};

// By element of a buffer, in pages: of a large one a launch may touch little.
class Shadow {
 public:
  Touched& at(int64_t index) {
    const int64_t number = index / kPage;
    if (number != last_number_) {
      std::unique_ptr<Page>& page = pages_[number];
      if (!page) page = std::make_unique<Page>();
      last_ = page.get();
      last_number_ = number;
    }
    return (*last_)[static_cast<size_t>(index % kPage)];
  }

 private:
  static constexpr int64_t kPage = 4096;
  using Page = std::array<Touched, kPage>;
  std::unordered_map<int64_t, std::unique_ptr<Page>> pages_;
  int64_t last_number_ = -1;
  Page* last_ = nullptr;
};

struct Buffer {
  std::byte* data = nullptr;
  int64_t extent = 0;
  size_t element_bytes = 1;
  bool tracked = false;   // races are looked for: somebody may write, and there is more than one program
  bool overlaps = false;  // another parameter's buffer shares bytes with it, and neither is may_alias
  bool is_watched() const { return tracked || overlaps; }
  Shadow touched;  // of a tracked one
};

// One access: an element of a parameter's buffer by a lane.
struct Access {
  uint32_t parameter;
  int64_t index;
  size_t lane;
  Use use;
};

struct Memory {
  std::vector<Buffer> buffers;  // by parameter; empty for scalars
  uint32_t program = 1;         // number of the program that runs
  bool synchronised = false;    // an atomic has ordered it behind another program
  // Of overlapping buffers: who touched a byte last.
  struct Toucher {
    uint32_t parameter, program;
    size_t lane;
  };
  struct Byte {
    Toucher write{0, 0, 0}, read{0, 0, 0};  // program 0: nobody
  };
  std::unordered_map<const std::byte*, Byte> bytes;

  void bind(const Machine& machine);
  void begin_program(const Machine& machine);

  // The element's address, or null where the buffer has no such element.
  std::byte* locate(uint32_t parameter, int64_t index) const {
    const Buffer& buffer = buffers[parameter];
    if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(buffer.extent)) return nullptr;
    return buffer.data + static_cast<size_t>(index) * buffer.element_bytes;
  }
  // Notes an access to an element of a watched buffer; "" or what is wrong with it. `changes`: a write that changes the
  // bits.
  std::string note(const Machine& machine, const Access& access, bool changes);

 private:
  std::string note_race(const Machine& machine, const Access& access, bool changes);
  std::string note_overlap(const Machine& machine, const Access& access);
};

// The address of an element that an op may touch, noted as touched; or why it may not. `value`: what a write puts
// there.
Result<std::byte*> touch(Machine& machine, const Op& op, const Access& access, bool wrapped,
                         const uint64_t* value = nullptr);

// An element of `bytes` bytes; the host is little-endian.
inline uint64_t read_element(const std::byte* address, size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, address, bytes);
  return bits;
}
inline void write_element(std::byte* address, size_t bytes, uint64_t bits) { std::memcpy(address, &bits, bytes); }

}  // namespace kiln::dsl::interpreter
