// The interpreter's inside: a tile as a vector of element bits, and one function a family of ops.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "interpreter/interpreter_memory.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/ir.h"
#include "kiln/dsl/scalar_lanes.h"

namespace kiln::dsl::interpreter {

using namespace scalar;

// The elements of a value in row-major order; a scalar has one. Of a descriptor: the index of its first element, then
// its extents and strides as int64.
struct Tile {
  std::vector<uint64_t> bits;  // as types.h says; of a pointer: the signed index of an element of its buffer
  std::vector<uint32_t> base;  // pointers and descriptors only: the parameter they point into
  // Lanes whose integer arithmetic wrapped. An index that reaches memory must not; empty while none did.
  std::vector<uint8_t> wrapped;

  size_t size() const { return bits.size(); }
  bool is_wrapped(size_t lane) const { return !wrapped.empty() && wrapped[lane] != 0; }
  void mark_wrapped(size_t lane) {
    if (wrapped.empty()) wrapped.resize(bits.size());
    wrapped[lane] = 1;
  }
  // Elements to be written; what memory the tile had is used again.
  void reset(size_t count) {
    bits.resize(count);
    base.clear();
    wrapped.clear();
  }
  void set_scalar(uint64_t value) {
    reset(1);
    bits[0] = value;
  }
};

// One launch: the kernel, its arguments, and the values of the program that runs.
struct Machine {
  const Kernel& kernel;
  std::span<const Argument> arguments;
  std::array<uint32_t, 3> grid;
  const InterpretOptions& options;
  std::array<uint32_t, 3> program = {0, 0, 0};
  std::vector<Tile> values = {};                  // by ValueId
  std::vector<std::vector<int64_t>> shapes = {};  // by ValueId
  Memory memory = {};
  // The region of a reduce or scan runs for so many lanes at once: there a scalar has one element for each.
  size_t combine_lanes = 1;

  const Tile& operand(const Op& op, size_t i) const { return values[op.operands[i]]; }
  const Type& operand_type(const Op& op, size_t i) const { return kernel.type(op.operands[i]); }
  ElementType element(const Op& op) const { return operand_type(op, 0).element; }
  const std::vector<int64_t>& operand_shape(const Op& op, size_t i) const { return shapes[op.operands[i]]; }
  const std::vector<int64_t>& result_shape(const Op& op) const { return shapes[op.results[0]]; }
  size_t result_size(const Op& op, size_t i = 0) const;
  // The tile of a result, of the right size, its elements to be written. No operand of the op.
  Tile& result(const Op& op, size_t i = 0) {
    Tile& out = values[op.results[i]];
    out.reset(result_size(op, i));
    return out;
  }

  // An error at the op's source line that names op and program.
  Error fail(const Op& op, const std::string& what) const;
};

// The value of an attribute that instantiation has made a number.
Result<int64_t> constant_attr(const Machine& machine, const Op& op, size_t index);

Result<void> run_region(Machine& machine, const Region& region);

void run_program(Machine& machine, const Op& op);         // program_id, num_programs
Result<void> run_make(Machine& machine, const Op& op);    // constant, arange, splat
Result<void> run_shape(Machine& machine, const Op& op);   // broadcast … gather
Result<void> run_gather(Machine& machine, const Op& op);  // gather
void run_arithmetic(Machine& machine, const Op& op);      // add … abs
void run_bits(Machine& machine, const Op& op);            // and … shr
void run_cmp(Machine& machine, const Op& op);
void run_select(Machine& machine, const Op& op);
void run_math(Machine& machine, const Op& op);
void run_cast(Machine& machine, const Op& op);
void run_bitcast(Machine& machine, const Op& op);
void run_addptr(Machine& machine, const Op& op);
Result<void> run_load(Machine& machine, const Op& op);
Result<void> run_store(Machine& machine, const Op& op);
Result<void> run_atomic(Machine& machine, const Op& op);  // atomic_rmw, atomic_cas
void run_descriptor(Machine& machine, const Op& op);
Result<void> run_described(Machine& machine, const Op& op);  // load_tile … gather_rows
void run_dot(Machine& machine, const Op& op);
void run_dot_scaled(Machine& machine, const Op& op);
Result<void> run_reduce(Machine& machine, const Op& op);
Result<void> run_scan(Machine& machine, const Op& op);
void run_sort(Machine& machine, const Op& op);
Result<void> run_topk(Machine& machine, const Op& op);
void run_histogram(Machine& machine, const Op& op);
void run_philox(Machine& machine, const Op& op);
Result<void> run_for(Machine& machine, const Op& op);
Result<void> run_while(Machine& machine, const Op& op);
Result<void> run_if(Machine& machine, const Op& op);
Result<void> run_assume(Machine& machine, const Op& op);
Result<void> run_require(Machine& machine, const Op& op);
Result<void> run_assert(Machine& machine, const Op& op);
void run_print(Machine& machine, const Op& op);

// left[i] = region(left[i], right[i]), for all elements of the tiles at once: `left` are the operands of a custom
// reduce or scan.
Result<void> combine(Machine& machine, const Op& op, std::vector<Tile>& left, const std::vector<Tile>& right);

// How a row-major tile lies along one axis: lines of `length` elements, `inner` apart.
struct Lines {
  size_t length, inner, count;

  Lines(const std::vector<int64_t>& shape, int64_t axis);
  size_t at(size_t line, size_t i) const { return line / inner * inner * length + line % inner + i * inner; }
};

// The lanes `source(0)`, `source(1)`, … of a tile.
template <class Source>
void gather_lanes(const Tile& x, Tile& out, Source source) {
  if (!x.base.empty()) out.base.resize(out.size());
  for (size_t lane = 0; lane < out.size(); ++lane) {
    const size_t from = source(lane);
    out.bits[lane] = x.bits[from];
    if (!x.base.empty()) out.base[lane] = x.base[from];
    if (x.is_wrapped(from)) out.mark_wrapped(lane);
  }
}

}  // namespace kiln::dsl::interpreter
