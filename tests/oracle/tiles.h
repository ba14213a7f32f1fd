// Kernels around a few ops on tiles of any rank and type: the inputs are loaded whole, what the ops give is stored
// whole, and comes back as bits for a reference to judge.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kiln/dsl/kernel.h"
#include "reference/arrays.h"
#include "run.h"

namespace kiln::oracle {

using reference::Shape;

using Tile = reference::Array<Bits>;

struct Input {
  Type type;
  Tile tile;
};
struct Output {
  Type type;
  Shape shape;
};
// The tiles that were stored, and the error's message, "" where there is none.
struct Ran {
  std::vector<Tile> out;
  std::string error;
};
struct TileOptions {
  dsl::InterpretOptions interpret = quick();
  bool debug = false;
};

std::string list(const std::vector<int64_t>& numbers);             // "[2, 3]"
std::string hex(const std::vector<Bits>& bits, size_t limit = 8);  // for messages
std::vector<Bits> bits_of(Type type, const std::vector<long double>& values);

// Elements of i1 are 0 and 1; of other types as reference::random_elements makes them.
Input random_input(Type type, const Shape& shape, uint64_t seed, bool with_specials = true);

// Infinities of f8e5m2 become the largest finite value: what min and max make of them has a test of its own.
void without_f8_infinities(Type type, std::vector<Bits>& elements);

// Lines of text that make %z0, %z1, … from tiles %x0, %x1, …; the latter lie behind parameters %p0, %p1, …
Ran run_tiles(const std::string& lines, const std::vector<Input>& inputs, const std::vector<Output>& outputs,
              const TileOptions& options = {});
// The same of one output, which must come without an error.
Tile run_tile(const std::string& lines, const std::vector<Input>& inputs, const Output& output);

// The same of a function that the builder traces; at most 7 inputs and outputs.
using Traced = std::function<std::vector<dsl::lang::Value>(const std::vector<dsl::lang::Value>&)>;
std::vector<Tile> run_traced(const Traced& function, const std::vector<Input>& inputs,
                             const std::vector<Output>& outputs);

// A whole kernel of text, as file k.kiln; "" or the error's message.
std::string run_kernel(const std::string& text, const std::vector<dsl::Argument>& arguments, Grid grid = {1, 1, 1},
                       const dsl::InterpretOptions& options = {}, bool debug = false);

template <class T>
dsl::Argument argument(std::vector<T>& data) {
  return {data.data(), static_cast<int64_t>(data.size()), 0};
}
inline dsl::Argument scalar(uint64_t bits) { return {nullptr, 0, bits}; }

// Equal bits; NaNs and, with `any_zero`, zeros are alike.
void expect_same(Type type, const Tile& out, const Tile& expected, const std::string& what, bool any_zero = false);
// By the tolerances of docs/reference/ops.md.
void expect_close(Type type, const Tile& out, const reference::Array<long double>& expected, const std::string& what);

reference::Array<long double> reals(const Input& input);

}  // namespace kiln::oracle
