// The tile IR: SSA with structured control flow. Plain values: a pass takes a Kernel and returns a Kernel.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kiln/dsl/expr.h"
#include "kiln/dsl/ops.h"
#include "kiln/dsl/types.h"

namespace kiln::dsl {

// A tile: an element type, or pointers to it, and a shape. Rank 0 is a scalar.
struct Type {
  ElementType element = ElementType::kF32;
  bool pointer = false;     // elements are global-memory addresses of `element`
  std::vector<Expr> shape;  // extents of 1 or more; may mention constexprs until instantiation

  bool is_scalar() const { return shape.empty(); }
  int rank() const { return static_cast<int>(shape.size()); }
  bool operator==(const Type&) const = default;
};
inline Type scalar_type(ElementType element) { return {element, false, {}}; }
inline Type tile_type(ElementType element, std::vector<Expr> shape) { return {element, false, std::move(shape)}; }

// Extents of an instantiated type, whose shape is constants only.
std::vector<int64_t> concrete_shape(const Type& type);
int64_t element_count(const Type& type);

struct Location {
  uint32_t file = 0;  // index into Kernel::files, plus one; 0: unknown
  uint32_t line = 0;
  uint32_t column = 0;
};

// A value known bit by bit, of the op's element type.
struct Literal {
  uint64_t bits = 0;
  bool operator==(const Literal&) const = default;
};

// One attribute, in the order of the op table. int and enum are int64_t; literal is Literal or, for integers over
// constexprs, Expr.
using Attr = std::variant<int64_t, Expr, std::vector<Expr>, ElementType, Literal, std::string>;

using ValueId = uint32_t;  // into Kernel::values
inline constexpr ValueId kNoValue = ~ValueId{0};

struct Op;

// A list of ops that ends, inside an op, with `yield`. The kernel's body has no yield.
struct Region {
  std::vector<ValueId> args;
  std::vector<Op> ops;
};

struct Op {
  OpCode code;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  std::vector<Attr> attrs;
  std::vector<Region> regions;
  Location loc;
};

struct Value {
  Type type;
  std::string name;  // for readers only; may be empty; unique within a kernel when not
};

struct Param {
  std::string name;
  Type type;              // a scalar or a scalar pointer
  bool readonly = false;  // Ptr<const T>: the kernel never stores through it
  ValueId value = kNoValue;
};

struct Constexpr {
  std::string name;
  std::optional<int64_t> default_value;
};

// One axis of a config space: a constexpr's (or launch option's) name and its candidate values.
struct SpaceAxis {
  std::string name;
  std::vector<int64_t> values;
};

struct KernelOptions {
  bool contract = true;  // single-use add(mul(a, b), c) becomes fma at instantiation
};

struct Kernel {
  std::string name;
  std::vector<Param> params;
  std::vector<Constexpr> constexprs;
  std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};  // over scalar parameters and constexprs
  std::vector<SpaceAxis> space;                            // for the tuner; not part of a request key
  KernelOptions options;
  std::vector<Value> values;
  Region body;
  std::vector<std::string> files;

  const Type& type(ValueId id) const { return values[id].type; }
  std::optional<uint32_t> find_param(std::string_view param_name) const;
  std::optional<uint32_t> find_constexpr(std::string_view constexpr_name) const;
  // "file:line:column", or "" when unknown.
  std::string location_text(const Location& loc) const;
  ExprNames expr_names() const;
};

// Result types of an op from its operand types and attributes: the type rules of docs/ops.md, in one place for builder,
// parser and verifier. The error's message names what is wrong, without the location. `for` takes its carried types
// from the inits. Operand count and attribute kinds must already match the table (check_arity).
Result<std::vector<Type>> infer_types(OpCode code, const std::vector<Type>& operands, const std::vector<Attr>& attrs,
                                      const ExprNames& names);
// Operand count and attribute kinds against the table.
Result<void> check_arity(OpCode code, size_t operand_count, const std::vector<Attr>& attrs);

// "f32", "ptr<f32>", "tile<[BM, 64], bf16>".
std::string to_string(const Type& type, const ExprNames& names);

// The value of integer expressions for a launch or an instantiation.
using ConstexprValues = std::map<std::string, int64_t>;

// What a caller knows about an argument.
enum class ParamFact : uint8_t {
  kNone,
  kAlign16,     // pointer: the address is a multiple of 16 bytes
  kMultiple16,  // int: a multiple of 16
  kOne,         // int: exactly 1
};
using Facts = std::vector<ParamFact>;  // by parameter; may be shorter than the list

}  // namespace kiln::dsl
