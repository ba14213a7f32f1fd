#include "kiln/dsl/outside.h"

namespace kiln::dsl {

std::string outside_text(const std::string& param, const Argument& argument, int64_t index) {
  const std::string about = "index " + std::to_string(index) + " is outside `" + param + "`";
  // The memory of a known array may be a device's, with no address here.
  if (argument.extent != kUnknownExtent) return about + ", which has " + std::to_string(argument.extent) + " elements";
  if (argument.data == nullptr) return about + ", which is a null pointer";
  return about + ": it lies before the first element";  // all that is known to be outside
}

}  // namespace kiln::dsl
