// The tile IR: SSA with structured control flow. Plain values: a pass takes a Kernel and returns a Kernel.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kiln/dsl/expr.h"
#include "kiln/dsl/ops.h"
#include "kiln/dsl/types.h"

namespace kiln::dsl {

// A tile: an element type, or pointers to it, and a shape. Rank 0 is a scalar. Or a descriptor: a view of an array in
// memory, with the shape of its blocks; only the ops of described memory take one.
struct Type {
  ElementType element = ElementType::kF32;
  bool pointer = false;     // elements are global-memory addresses of `element`
  std::vector<Expr> shape;  // extents of 1 or more; may mention constexprs until instantiation
  bool descriptor = false;

  bool is_scalar() const { return shape.empty() && !descriptor; }
  bool is_value() const { return !pointer && !descriptor; }  // neither addresses nor a view of them
  int rank() const { return static_cast<int>(shape.size()); }
  bool operator==(const Type&) const = default;
};
inline Type scalar_type(ElementType element) { return {element, false, {}}; }
inline Type tile_type(ElementType element, std::vector<Expr> shape) { return {element, false, std::move(shape)}; }

// Extents of an instantiated type, whose shape is constants only.
std::vector<int64_t> concrete_shape(const Type& type);
int64_t element_count(const Type& type);
// The other way round: extents as a type has them.
std::vector<Expr> shape_of(const std::vector<int64_t>& extents);

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

// The op's value at a place of the table that is an enum, a flag or an int.
inline int64_t int_attr(const Op& op, size_t index) { return std::get<int64_t>(op.attrs[index]); }
// At one that is an integer expression, which instantiation has made a number.
inline int64_t number_attr(const Op& op, size_t index) { return std::get<Expr>(op.attrs[index]).as_constant().value(); }

struct Value {
  Type type;
  std::string name;  // for readers only; may be empty; unique within a kernel when not
};

struct Param {
  std::string name;
  Type type;              // a scalar or a scalar pointer
  bool readonly = false;  // Ptr<const T>: the kernel never stores through it
  ValueId value = kNoValue;
  bool may_alias = false;  // a pointer that may overlap other pointer parameters
};

struct Constexpr {
  std::string name;
  std::optional<int64_t> default_value;
};

// One axis of a config space: a constexpr's (or schedule option's) name and its candidate values. With a target, a
// family
// ("cpu") or one of it ("cuda:sm_90a"), it is for that one alone, in place of the axis of this name for more targets.
struct SpaceAxis {
  std::string name;
  std::vector<int64_t> values;
  std::string target = {};
};

// What a tuner may put behind a pointer parameter: so many elements, and for a kernel that takes them for indices or
// classes, values of [low, high). Without a range they are what the tuner likes: N(0, 1) of floats, small ints.
struct ArrayInfo {
  std::string param;
  Expr elements;  // these three over scalar parameters and constexprs
  std::optional<std::pair<Expr, Expr>> range;
  bool stated = true;  // by the author; else what tiles over the pointer say, which an author's statement replaces
};

// Each is a line `option name = true` of the text, `lines` is `option debug = lines`; see docs/reference/ops.md.
struct KernelOptions {
  bool contract = true;         // single-use add(mul(a, b), c) becomes fma at instantiation
  bool fuse_precision = false;  // chains of f16, bf16 and f8 ops keep f32 between them
  bool deterministic = false;   // one order of accumulation, whatever the thread count
  bool debug = false;           // asserts are checked, and code names source lines
  bool check_bounds = false;    // accesses are checked against the extents of their buffers
  bool lines = false;           // code names source lines, and nothing else changes; not together with `debug`
  bool names_lines() const { return debug || lines; }
  bool operator==(const KernelOptions&) const = default;
};
struct KernelOption {
  std::string_view name;
  bool KernelOptions::* member;
  // A third value beside true and false: the name of another member.
  std::string_view word = {};
  bool KernelOptions::* word_member = nullptr;

  // "true", "false" or the word.
  std::string_view value(const KernelOptions& options) const;
  // False: it has no such value.
  bool set(KernelOptions& options, std::string_view value) const;
};
// All options, in the order of their encoding.
std::span<const KernelOption> kernel_options();

// The value of integer expressions for a launch or an instantiation.
using ConstexprValues = std::map<std::string, int64_t>;

// What launches must meet: an expression over constexprs and scalar parameters that is not 0. The message, which may be
// empty, says why.
struct Condition {
  Expr expr;
  std::string message;
};

struct Kernel {
  std::string name;
  std::vector<Param> params;
  std::vector<Constexpr> constexprs;
  std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};  // over scalar parameters and constexprs
  // For the tuner and launches; not part of a request key. The space is the product of its axes without the configs
  // that do not meet a constraint.
  std::vector<SpaceAxis> space;
  std::vector<Condition> constraints;
  std::vector<ArrayInfo> arrays;
  // What a request that says nothing gets on some targets, by their family ("cuda") or name ("cuda:sm_90a"), in place
  // of the constexprs' defaults; schedule options too (config.h).
  std::map<std::string, ConstexprValues> target_defaults;
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

// Result types of an op from its operand types and attributes: the type rules of docs/reference/ops.md, in one place
// for builder, parser and verifier. The error's message names what is wrong, without the location. `for` and `while`
// take their carried types from the inits; the results of `if` are what its regions yield, which the caller checks:
// there `yields` are the types of the first region's. Operand count and attribute kinds must already match the table
// (check_arity).
//
// Extents compare as polynomials. Two that differ for some constexprs only pass until instantiation, which infers
// again.
Result<std::vector<Type>> infer_types(OpCode code, const std::vector<Type>& operands, const std::vector<Attr>& attrs,
                                      const ExprNames& names, const std::vector<Type>& yields = {});
// Operand count and attribute kinds against the table.
Result<void> check_arity(OpCode code, size_t operand_count, const std::vector<Attr>& attrs);
// The default of an attribute of the table, if it has one.
std::optional<Attr> default_attr(const AttrInfo& attr);
// The attributes with those left out at the end added, as far as they have defaults.
std::vector<Attr> with_default_attrs(OpCode code, std::vector<Attr> attrs);

// What a region of an op takes and yields. Expects operands and attributes that infer_types accepts.
struct RegionTypes {
  std::vector<Type> args;
  // Absent: the first region of `if`, which yields what it likes. The second yields the same.
  std::optional<std::vector<Type>> yields;
  std::string arg_doc;  // "index and carried values", for errors
};
std::vector<RegionTypes> region_types(OpCode code, const std::vector<Type>& operands, const std::vector<Attr>& attrs);

// False where two extents, or shapes, differ whatever the constexprs are (which leave extents positive).
bool may_equal(const Expr& a, const Expr& b);
bool may_equal(const std::vector<Expr>& a, const std::vector<Expr>& b);
bool may_equal(const Type& a, const Type& b);

// "f32", "ptr<f32>", "tile<[BM, 64], bf16>", "descriptor<[BM, 64], bf16>".
std::string to_string(const Type& type, const ExprNames& names);

// What a caller knows about an argument (facts.h). The numbers are part of keys.
enum class ParamFact : uint8_t {
  kNone,
  kAlign16,     // pointer: the address is a multiple of 16 bytes
  kMultiple16,  // int: a multiple of 16
  kOne,         // int: exactly 1
  kMultiple8,   // int: a multiple of 8
};
using Facts = std::vector<ParamFact>;  // by parameter; may be shorter than the list

}  // namespace kiln::dsl
