// The interpreter's inside: a tile as a vector of element bits, and one function a family of ops.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/ir.h"

namespace kiln::dsl::interpreter {

// The elements of a value in row-major order; a scalar has one.
struct Tile {
  std::vector<uint64_t> bits;  // as types.h says; of a pointer: the signed index of an element of its buffer
  std::vector<uint32_t> base;  // pointers only: the parameter they point into
  // Lanes whose integer arithmetic wrapped. An index that reaches memory must not; empty while none did.
  std::vector<uint8_t> wrapped;

  size_t size() const { return bits.size(); }
  bool is_wrapped(size_t lane) const { return !wrapped.empty() && wrapped[lane] != 0; }
  void mark_wrapped(size_t lane) {
    if (wrapped.empty()) wrapped.resize(bits.size());
    wrapped[lane] = 1;
  }
};

// One launch: the kernel, its arguments, and the values of the program that runs.
struct Machine {
  const Kernel& kernel;
  std::span<const Argument> arguments;
  std::array<uint32_t, 3> grid;
  std::array<uint32_t, 3> program = {0, 0, 0};
  std::vector<Tile> values;                  // by ValueId
  std::vector<std::vector<int64_t>> shapes;  // by ValueId

  const Tile& operand(const Op& op, size_t i) const { return values[op.operands[i]]; }
  const Type& operand_type(const Op& op, size_t i) const { return kernel.type(op.operands[i]); }
  ElementType element(const Op& op) const { return operand_type(op, 0).element; }
  const std::vector<int64_t>& result_shape(const Op& op) const { return shapes[op.results[0]]; }
  size_t result_size(const Op& op) const;
  void set(const Op& op, Tile tile) { values[op.results[0]] = std::move(tile); }

  // An error at the op's source line that names op and program.
  Error fail(const Op& op, const std::string& what) const;
};

// The value of an attribute that instantiation has made a number.
Result<int64_t> constant_attr(const Machine& machine, const Op& op, size_t index);

Result<void> run_make(Machine& machine, const Op& op);        // program_id … splat
Result<void> run_shape(Machine& machine, const Op& op);       // broadcast, expand_dims, permute
Result<void> run_arithmetic(Machine& machine, const Op& op);  // add … abs
Result<void> run_bits(Machine& machine, const Op& op);        // and … shr
Result<void> run_compare(Machine& machine, const Op& op);     // cmp, select
Result<void> run_math(Machine& machine, const Op& op);
Result<void> run_convert(Machine& machine, const Op& op);  // cast, bitcast
Result<void> run_memory(Machine& machine, const Op& op);   // addptr, load, store
Result<void> run_dot(Machine& machine, const Op& op);
Result<void> run_reduce(Machine& machine, const Op& op);

// An int element as a number: sign- or zero-extended.
inline int64_t sign_extend(uint64_t bits, int width) {
  const int shift = 64 - width;
  return static_cast<int64_t>(bits << shift) >> shift;
}
inline uint64_t low_bits(uint64_t bits, int width) { return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1); }
using Wide = __int128;  // holds every int element and every sum and product of two
inline Wide wide_from_bits(const ElementTypeInfo& type, uint64_t bits) {
  return type.is_signed ? Wide{sign_extend(bits, type.bits)} : Wide{bits};
}

// A float type's arithmetic type: f64 has its own, all others compute in f32.
template <class T>
T float_from_bits(ElementType type, uint64_t bits) {
  if (type == ElementType::kF32) return static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return static_cast<T>(double_from_bits(type, bits));
}
template <class T>
uint64_t bits_from_float(ElementType type, T value) {
  if (type == ElementType::kF32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  return bits_from_double(type, static_cast<double>(value));
}

// out[lane] = function(number of a[lane], …) in the arithmetic type, rounded once to the element type.
template <class T, class Function, class... Tiles>
Tile map_floats_as(ElementType type, Function function, const Tile& first, const Tiles&... rest) {
  Tile out;
  out.bits.resize(first.size());
  for (size_t lane = 0; lane < first.size(); ++lane) {
    out.bits[lane] = bits_from_float<T>(
        type, function(float_from_bits<T>(type, first.bits[lane]), float_from_bits<T>(type, rest.bits[lane])...));
  }
  return out;
}
template <class Function, class... Tiles>
Tile map_floats(ElementType type, Function function, const Tiles&... tiles) {
  return type == ElementType::kF64 ? map_floats_as<double>(type, function, tiles...)
                                   : map_floats_as<float>(type, function, tiles...);
}

// The lanes `source(0)`, `source(1)`, … of a tile.
template <class Source>
Tile gather_lanes(const Tile& x, size_t count, Source source) {
  Tile out;
  out.bits.resize(count);
  if (!x.base.empty()) out.base.resize(count);
  for (size_t lane = 0; lane < count; ++lane) {
    const size_t from = source(lane);
    out.bits[lane] = x.bits[from];
    if (!x.base.empty()) out.base[lane] = x.base[from];
    if (x.is_wrapped(from)) out.mark_wrapped(lane);
  }
  return out;
}

}  // namespace kiln::dsl::interpreter
