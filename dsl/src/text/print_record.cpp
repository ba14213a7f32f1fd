// What `print` gives, as lines of text.
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/text_format.h"

namespace kiln::dsl {
namespace {

constexpr size_t kMaxShown = 256;  // elements of a value; a tile may have millions

std::string value_text(const PrintedValue& value) {
  Type type = tile_type(value.element, {});
  for (int64_t extent : value.shape) type.shape.emplace_back(extent);
  std::string out = to_string(type, ExprNames{}) + " ";
  for (size_t i = 0; i < value.bits.size() && i < kMaxShown; ++i) {
    out += (i ? ", " : "") + literal_text(value.element, value.bits[i]);
  }
  if (value.bits.size() > kMaxShown) out += ", … (" + std::to_string(value.bits.size()) + " elements)";
  return out;
}

// A message is the author's text, and a terminal should not obey it.
std::string printable(const std::string& message) {
  std::string out;
  for (char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string to_string(const PrintRecord& record) {
  const auto& [x, y, z] = record.program;
  std::string out = (record.location.empty() ? "" : record.location + ": ") + "program (" + std::to_string(x) + ", " +
                    std::to_string(y) + ", " + std::to_string(z) + "): " + printable(record.message) + "\n";
  for (const PrintedValue& value : record.values) out += "  " + value_text(value) + "\n";
  return out;
}

}  // namespace kiln::dsl
