// How a diagnostic shows the line it speaks of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::dsl {

// The message, the line, and a caret under `column` (bytes, from 1). Control characters become spaces and a long line
// is cut, so that a hostile file cannot garble a terminal.
std::string with_caret(std::string message, std::string_view line, uint32_t column);

}  // namespace kiln::dsl
