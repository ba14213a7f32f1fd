// Writes CBOR (RFC 8949): the kinds of item that the binary form has, each head in its shortest form (section 4.2.1),
// as nlohmann_json writes them. By hand, since every first get() of a kernel waits for its encoding: a tree of JSON
// values for it takes ten times as long to build as its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kiln::dsl {

class CborWriter {
 public:
  // Appends to `out`, which must outlive the writer.
  explicit CborWriter(std::vector<std::byte>& out) : out_(out) {}

  // An array of the `count` items that are written next.
  void array(size_t count) { head(4, count); }
  void integer(int64_t value) {
    if (value >= 0)
      head(0, static_cast<uint64_t>(value));
    else
      head(1, ~static_cast<uint64_t>(value));  // -1 - value
  }
  void bits(uint64_t value) { head(0, value); }
  void text(std::string_view value) {
    head(3, value.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(value.data());
    out_.insert(out_.end(), bytes, bytes + value.size());
  }
  void bytes(std::span<const std::byte> value) {
    head(2, value.size());
    out_.insert(out_.end(), value.begin(), value.end());
  }
  void boolean(bool value) { out_.push_back(value ? std::byte{0xf5} : std::byte{0xf4}); }
  void null() { out_.push_back(std::byte{0xf6}); }

 private:
  // A major type with its number: in the first byte, or in 1, 2, 4 or 8 bytes behind it, the highest first.
  void head(unsigned major, uint64_t number) {
    if (number < 24) return out_.push_back(first_byte(major, static_cast<unsigned>(number)));
    const unsigned log = number <= 0xff ? 0 : number <= 0xffff ? 1 : number <= 0xffff'ffff ? 2 : 3;
    out_.push_back(first_byte(major, 24 + log));
    for (int shift = (8 << log) - 8; shift >= 0; shift -= 8) out_.push_back(static_cast<std::byte>(number >> shift));
  }
  static std::byte first_byte(unsigned major, unsigned low) { return static_cast<std::byte>(major << 5 | low); }

  std::vector<std::byte>& out_;
};

}  // namespace kiln::dsl
