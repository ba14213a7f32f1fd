#include "kiln/dsl/facts.h"

#include <array>

namespace kiln::dsl {
namespace {

constexpr std::array<const char*, 5> kNames = {"none", "align16", "x16", "one", "x8"};  // by ParamFact

}  // namespace

const char* fact_name(ParamFact fact) { return kNames[static_cast<size_t>(fact)]; }

std::optional<ParamFact> parse_fact(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<ParamFact>(i);
  }
  return std::nullopt;
}

bool fits(ParamFact fact, const Type& type) {
  if (fact == ParamFact::kNone) return true;
  if (fact == ParamFact::kAlign16) return type.pointer;
  return !type.pointer && is_int(type.element) && type.element != ElementType::kI1;
}

ParamFact fact_of_int(int64_t value) {
  if (value == 1) return ParamFact::kOne;
  if (value % 16 == 0) return ParamFact::kMultiple16;
  return value % 8 == 0 ? ParamFact::kMultiple8 : ParamFact::kNone;
}

bool implies(ParamFact known, ParamFact wanted) {
  return wanted == ParamFact::kNone || known == wanted ||
         (known == ParamFact::kMultiple16 && wanted == ParamFact::kMultiple8);
}

int64_t multiple_of(ParamFact fact) {
  switch (fact) {
    case ParamFact::kAlign16:
    case ParamFact::kMultiple16:
      return 16;
    case ParamFact::kMultiple8:
      return 8;
    case ParamFact::kNone:
    case ParamFact::kOne:
      break;
  }
  return 1;
}

}  // namespace kiln::dsl
