// A kernel with everything that a launch needs: what the generator makes, the shrinker makes smaller and a backend
// runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::random_kernel {

// One argument: the bytes of a buffer, or a scalar's bits.
struct Input {
  std::vector<std::byte> buffer;
  uint64_t bits = 0;
  bool is_buffer = false;
};

struct Case {
  dsl::Kernel kernel;
  dsl::ConstexprValues config;
  dsl::Facts facts;
  std::vector<Input> inputs;  // by parameter
  int f8_sum_bits = 24;       // Options::f8_sum_bits
};

uint64_t element_at(dsl::ElementType type, const Input& input, size_t index);
void set_element(dsl::ElementType type, Input& input, size_t index, uint64_t bits);
size_t element_count(dsl::ElementType type, const Input& input);

Input zeros(dsl::ElementType type, size_t count);
Input elements(dsl::ElementType type, const std::vector<uint64_t>& bits);
Input scalar(uint64_t bits);

enum class Content {
  kWhole,  // ints over the whole range; floats N(0, 1) mixed with zeros, infinities, NaN, subnormals, largest, smallest
  kTame,   // small ints; floats N(0, 1) without extremes, so that an order of summation shows in the last bits only
  kCounts,  // ints 0…15; floats that are integers of at most 8, so that their sums are exact in any order
};
using Random = std::mt19937_64;
uint64_t random_bits(dsl::ElementType type, Content content, Random& random);
Input random_buffer(dsl::ElementType type, size_t count, Content content, Random& random);

Result<dsl::Kernel> instantiated(const Case& test);
// Takes the instantiated kernel.
Result<std::array<uint32_t, 3>> grid_of(const dsl::Kernel& kernel, const std::vector<Input>& inputs);
// The arguments after the interpreter ran the case.
Result<std::vector<Input>> interpreted(const Case& test);

// C++ that builds the case again, to be pasted into a test: the kernel's text and a call of make_case.
std::string reproducer(const Case& test);
// Parses the text; a text that is no kernel gives an empty case.
Case make_case(const std::string& text, dsl::ConstexprValues config, dsl::Facts facts, std::vector<Input> inputs);

}  // namespace kiln::random_kernel
