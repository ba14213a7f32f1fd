// What is known of a value of a case, and so what a backend may be asked for: which results are exact, which are within
// a tolerance, which ints may be an index. The generator uses it to make only meaningful ops, the comparison to be as
// strict as docs/reference/ops.md is.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "random/case.h"

namespace kiln::random_kernel {

using Wide = __int128;

enum class Level : uint8_t {
  kBits,     // every bit, also of NaN: data and copies of it
  kValue,    // the number; any NaN is as good as another: IEEE arithmetic
  kAnyZero,  // and zeros of either sign are equal: min, max
  kNear,     // within the tolerance: sums in some order, transcendental functions
};

struct Fact {
  Level level = Level::kBits;  // kBits of all ints: nothing else is generated
  double rtol = 0, atol = 0;   // of kNear: |a - b| ≤ atol + rtol·|b|
  // Floats: no NaN and no infinity, and a magnitude of at most this, unless infinite; `integral`: an integer, not -0.
  double bound = std::numeric_limits<double>::infinity();
  bool integral = false;
  Wide low = 0, high = 0;  // ints
  bool may_wrap = false;   // an int that is no index: its arithmetic may have wrapped
  uint32_t root = 0;       // pointers and descriptors: the parameter
  bool nan_fill = false;   // of a descriptor

  bool is_bounded() const { return bound < std::numeric_limits<double>::infinity(); }
};

Fact full_fact(const dsl::Type& type);               // of anything a launch may pass
Fact carried_fact(const dsl::Type& type);            // what a loop may carry: the number of every float is exact
Fact join(const Fact& a, const Fact& b);             // one of the two, unknown which
bool within(const Fact& fact, const Fact& allowed);  // at least as exact
double unit_of(dsl::ElementType type);               // one unit in the last place of 1
double smallest_of(dsl::ElementType type), largest_of(dsl::ElementType type);
Wide lowest_int(dsl::ElementType type), highest_int(dsl::ElementType type);

// What the facts of a case rest on.
struct World {
  const dsl::Kernel& kernel;
  const std::vector<Input>& inputs;
  dsl::Bindings config;      // constexprs only
  std::vector<bool> loaded;  // by parameter: a buffer that is read
  std::array<int64_t, 3> grid;
  int f8_sum_bits = 24;                                    // Options::f8_sum_bits
  mutable std::vector<std::optional<Fact>> contents = {};  // of read-only buffers, once looked at

  int64_t value(const dsl::Expr& expr) const { return expr.evaluate(config).value(); }
  std::vector<int64_t> shape(const dsl::Type& type) const;
  int64_t count(const dsl::Type& type) const;
  Fact argument(size_t param) const;  // of a parameter's value
  Fact loaded_from(size_t param) const;
  Fact storable_to(size_t param) const;
};

Fact fact_of_bits(dsl::ElementType type, uint64_t bits);
dsl::Bindings config_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& values);

// The facts of an op's results from those of its operands; a problem where the language leaves the result open (or
// where the op could flip on a rounding error). Of ops with regions only reduce and scan: analyse() does the others.
struct Outcome {
  std::string problem;
  std::vector<Fact> results;
};
Outcome facts_of(const World& world, const dsl::Op& op, const std::vector<Fact>& operands);

// How each buffer of a case is to be compared, by parameter; or why the case says nothing about a backend.
Result<std::vector<Fact>> output_facts(const Case& test);
// Of every value of an instantiated case.
Result<std::vector<Fact>> value_facts(const Case& test);

bool agrees(dsl::ElementType type, uint64_t actual, uint64_t expected, const Fact& fact);
// Every buffer of `actual` against `expected`; "" or the first few that differ, by parameter and index.
std::string differences(const Case& test, const std::vector<Input>& actual, const std::vector<Input>& expected);

}  // namespace kiln::random_kernel
