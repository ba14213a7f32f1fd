// Floats from decimal text, rounded once.
#pragma once

#include <optional>
#include <string_view>

#include "kiln/dsl/types.h"

namespace kiln::dsl {

// The bits of the value of a float type that is nearest to a decimal number, to even where two are: "1.5", "-6e-8",
// "inf", "nan". What is too large becomes what a conversion from f64 makes of it. Nothing where the text is no number,
// or one beyond f64.
std::optional<uint64_t> float_from_decimal(ElementType element, std::string_view text);

}  // namespace kiln::dsl
