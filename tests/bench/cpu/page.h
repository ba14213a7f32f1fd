// A run as one HTML file: plots as inline SVG, tables, the machine; nothing is loaded from elsewhere.
#pragma once

#include <string>

#include "lines.h"

namespace kiln::bench {

std::string page_of(const Report& report);

}  // namespace kiln::bench
