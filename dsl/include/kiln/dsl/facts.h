// Names and meaning of what a caller knows about arguments. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// "none", "align16", "x8", "x16", "one": in artifacts, on the command line, in tuning records.
const char* fact_name(ParamFact fact);
std::optional<ParamFact> parse_fact(std::string_view name);

// Whether a parameter of this type can have the fact. kNone fits all.
bool fits(ParamFact fact, const Type& type);

// The most that holds of an int.
ParamFact fact_of_int(int64_t value);

// Whether `wanted` holds wherever `known` does.
bool implies(ParamFact known, ParamFact wanted);

// What the value, or the address, is known to be a multiple of; 1: of nothing more.
int64_t multiple_of(ParamFact fact);

}  // namespace kiln::dsl
