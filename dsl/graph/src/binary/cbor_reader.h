// Reads CBOR item by item, as CborWriter writes it: heads in their shortest form, no tags, no lengths left open.
// Nothing is built before its size is known to fit the bytes that are left, and nothing recurses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace kiln::graph {

// Thrown inside the reader only; decode() turns it into an Error.
struct BadBytes {
  std::string what;
};

class CborReader {
 public:
  // Borrows the bytes.
  explicit CborReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  // How many items an array has, which are read next.
  size_t array(const char* what, size_t most = std::numeric_limits<size_t>::max());
  void record(const char* what, size_t size);  // an array of so many
  int64_t integer(const char* what, int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max());
  uint64_t bits(const char* what, uint64_t most = std::numeric_limits<uint64_t>::max());
  // Below a count.
  uint32_t index(const char* what, size_t count);
  std::string text(const char* what, size_t most);
  std::span<const std::byte> bytes(const char* what);
  // The bytes of the next item, whatever it is; true, false and null only where they are allowed.
  std::span<const std::byte> item(const char* what, bool with_simple = false);
  bool next_is_integer() const { return !rest_.empty() && (static_cast<unsigned>(rest_[0]) >> 5) < 2; }
  bool at_end() const { return rest_.empty(); }

 private:
  struct Head {
    unsigned major;
    uint64_t number;
  };
  Head head(const char* what);
  Head head(const char* what, unsigned major);
  std::span<const std::byte> take(const char* what, uint64_t size);

  std::span<const std::byte> rest_;
};

}  // namespace kiln::graph
