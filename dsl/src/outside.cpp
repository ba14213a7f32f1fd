#include "kiln/dsl/outside.h"

namespace kiln::dsl {

std::string outside_text(const std::string& param, const Argument& argument, int64_t index) {
  const std::string about = "index " + std::to_string(index) + " is outside `" + param + "`";
  if (argument.data == nullptr) return about + ", which is a null pointer";
  // Of a buffer without a known end only what lies before it is outside.
  if (argument.extent == kUnknownExtent) return about + ": it lies before the first element";
  return about + ", which has " + std::to_string(argument.extent) + " elements";
}

}  // namespace kiln::dsl
