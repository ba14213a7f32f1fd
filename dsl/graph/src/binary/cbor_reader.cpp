#include "binary/cbor_reader.h"

namespace kiln::graph {
namespace {

enum Major : unsigned { kUnsigned, kNegative, kBytes, kText, kArray, kSimple = 7 };
constexpr uint64_t kFalse = 20, kNull = 22;

}  // namespace

std::span<const std::byte> CborReader::take(const char* what, uint64_t size) {
  if (size > rest_.size()) throw BadBytes{std::string(what) + " is cut short"};
  const auto out = rest_.first(size);
  rest_ = rest_.subspan(size);
  return out;
}

CborReader::Head CborReader::head(const char* what) {
  const auto first = static_cast<unsigned>(take(what, 1)[0]);
  const unsigned low = first & 31;
  if (low < 24) return {first >> 5, low};
  if (low > 27) throw BadBytes{std::string(what) + " is not as this form has it"};
  const unsigned size = 1u << (low - 24);
  uint64_t number = 0;
  for (const std::byte byte : take(what, size)) number = number << 8 | static_cast<uint64_t>(byte);
  const uint64_t shorter = size == 1 ? 23 : (uint64_t{1} << (size * 4)) - 1;
  if (number <= shorter) throw BadBytes{std::string(what) + " is not in its shortest form"};
  return {first >> 5, number};
}

CborReader::Head CborReader::head(const char* what, unsigned major) {
  const Head out = head(what);
  if (out.major != major) throw BadBytes{std::string(what) + " is of another kind"};
  return out;
}

size_t CborReader::array(const char* what, size_t most) {
  const uint64_t count = head(what, kArray).number;
  if (count > most) throw BadBytes{std::string(what) + " are too many"};
  if (count > rest_.size()) throw BadBytes{std::string(what) + " are cut short"};  // an item has a byte or more
  return count;
}

void CborReader::record(const char* what, size_t size) {
  if (array(what) != size) throw BadBytes{std::string(what) + " has another number of fields"};
}

int64_t CborReader::integer(const char* what, int64_t low, int64_t high) {
  const Head item = head(what);
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (item.major > kNegative) throw BadBytes{std::string(what) + " is no integer"};
  if (item.number > kMost) throw BadBytes{std::string(what) + " is out of range"};
  const auto value = static_cast<int64_t>(item.major == kNegative ? ~item.number : item.number);
  if (value < low || value > high) throw BadBytes{std::string(what) + " is out of range"};
  return value;
}

uint64_t CborReader::bits(const char* what, uint64_t most) {
  const uint64_t value = head(what, kUnsigned).number;
  if (value > most) throw BadBytes{std::string(what) + " is out of range"};
  return value;
}

uint32_t CborReader::index(const char* what, size_t count) {
  const uint64_t value = bits(what);
  if (value >= count) throw BadBytes{std::string(what) + " is out of range"};
  return static_cast<uint32_t>(value);
}

std::string CborReader::text(const char* what, size_t most) {
  const uint64_t size = head(what, kText).number;
  if (size > most) throw BadBytes{std::string(what) + " is too long"};
  const auto bytes = take(what, size);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> CborReader::bytes(const char* what) { return take(what, head(what, kBytes).number); }

std::span<const std::byte> CborReader::item(const char* what, bool with_simple) {
  const auto start = rest_;
  for (uint64_t left = 1; left > 0; --left) {
    const Head item = head(what);
    const bool is_simple = item.major == kSimple && item.number >= kFalse && item.number <= kNull;
    if (item.major > kArray && !(with_simple && is_simple))
      throw BadBytes{std::string(what) + " is not as this form has it"};
    if (item.major == kBytes || item.major == kText) take(what, item.number);
    if (item.major != kArray) continue;
    if (item.number > rest_.size()) throw BadBytes{std::string(what) + " is cut short"};
    left += item.number;
  }
  return start.first(start.size() - rest_.size());
}

}  // namespace kiln::graph
