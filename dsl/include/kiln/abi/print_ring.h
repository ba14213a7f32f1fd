// How kernels on a GPU print: messages in a ring in device memory, one a loaded kernel (docs/reference/artifact.md,
// "Prints on a GPU"). The compiler writes code that fills it by these offsets, the client reads it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::abi {

// The data follow. Counts of bytes go on for ever; the byte of a count is at its rest by `capacity` in the data.
struct PrintRing {
  uint64_t reserved;  // by messages
  uint64_t released;  // by the host, which has read so far
  uint64_t lost;      // messages for which there was no room
  uint64_t capacity;  // bytes of data, a power of two
  uint64_t unused[4];
};
static_assert(offsetof(PrintRing, reserved) == 0 && offsetof(PrintRing, released) == 8);
static_assert(offsetof(PrintRing, lost) == 16 && offsetof(PrintRing, capacity) == 24);
static_assert(sizeof(PrintRing) == 64);

// The beginning of a message; its values follow, each from a multiple of kPrintAlignment on.
struct PrintMessage {
  uint32_t bytes;  // of all of it; 0: not complete
  uint32_t print;  // number in `prints` of the artifact's metadata
  uint32_t program[3];
  uint32_t unused;
};
static_assert(offsetof(PrintMessage, bytes) == 0 && offsetof(PrintMessage, print) == 4);
static_assert(offsetof(PrintMessage, program) == 8);
static_assert(sizeof(PrintMessage) == 24);

inline constexpr uint64_t kPrintAlignment = 8;

// What a value of so many bytes takes of a message.
constexpr uint64_t print_value_bytes(uint64_t bytes) {
  return (bytes + kPrintAlignment - 1) / kPrintAlignment * kPrintAlignment;
}

}  // namespace kiln::abi
