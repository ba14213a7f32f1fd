// What a kernel author computes with: constants, values, variables and parameters, and the operators on them.
//
//   Const   a compile-time integer, known when a config is chosen; symbolic while the kernel is traced
//   Value   a tile or a scalar in SSA form; its element type and shape live inside and are checked where an op is
//           written
//   Var     a variable; one that is touched inside a traced loop is carried from iteration to iteration, one that is
//           assigned inside a branch is a result of the branch
//   Operand what operators and functions take: any of the above or a C++ number, with the line it was written on
//
// Author-facing names live in kiln::dsl::lang (kiln::lang for short), apart from the IR's types of the same name.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::dsl::lang {

using SourceLocation = std::source_location;

// Plain C++ `if`, `?:`, `for` and `while` run while the kernel is traced and cannot see what is known only when a
// config is chosen, or when a launch runs: the compiler refuses conversions to bool, `&&` and `||`, with a sentence.
template <class T>
inline constexpr bool kIsKnownWhileTracing = false;

class Const {
 public:
  Const(std::integral auto value) : expr_(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  explicit Const(Expr expr) : expr_(std::move(expr)) {}
  template <std::same_as<bool> T>
  explicit operator T() const {
    static_assert(kIsKnownWhileTracing<T>,
                  "a Const is known when a config is chosen, not while the kernel is traced: use if_() for `if` and "
                  "`?:`, range() for `for`, and require() to reject configs");
    return false;
  }

  const Expr& expr() const { return expr_; }

 private:
  Expr expr_;
};

using Shape = std::vector<Const>;

Const operator+(const Const& a, const Const& b);
Const operator-(const Const& a, const Const& b);
Const operator*(const Const& a, const Const& b);
Const operator/(const Const& a, const Const& b);  // truncates; x/0 = 0
Const operator%(const Const& a, const Const& b);  // the dividend's sign; x%0 = x
Const operator-(const Const& a);
Const min(const Const& a, const Const& b);
Const max(const Const& a, const Const& b);
// Conditions are Consts too: 1 or 0.
Const operator==(const Const& a, const Const& b);
Const operator!=(const Const& a, const Const& b);
Const operator<(const Const& a, const Const& b);
Const operator<=(const Const& a, const Const& b);
Const operator>(const Const& a, const Const& b);
Const operator>=(const Const& a, const Const& b);
Const operator&&(const Const& a, const Const& b);  // both sides are always evaluated
Const operator||(const Const& a, const Const& b);
Const operator!(const Const& a);

class Var;

// Conversions of Value and Var to bool: never known while the kernel is traced.
template <class T>
constexpr bool as_condition() {
  static_assert(kIsKnownWhileTracing<T>,
                "a Value is known when the kernel runs, not while it is traced: use if_() for `if`, where() for `?:`, "
                "range() for `for` and while_() for `while`");
  return false;
}

// A handle to an SSA value of the kernel that is being traced. After an error it is invalid; ops on invalid values give
// invalid values and say nothing more.
class Value {
 public:
  Value() = default;
  Value(ValueId id, uint64_t trace) : id_(id), trace_(trace) {}  // for the tracer
  Value(const Var& var);                                         // NOLINT(google-explicit-constructor)

  bool valid() const { return id_ != kNoValue; }
  // Of an invalid value: a scalar f32.
  Type type() const;
  ElementType element() const { return type().element; }
  int rank() const { return type().rank(); }
  Const extent(int axis) const;

  template <std::same_as<bool> T>
  explicit operator T() const {
    return as_condition<T>();
  }

  ValueId id() const { return id_; }
  uint64_t trace() const { return trace_; }

 private:
  ValueId id_ = kNoValue;
  uint64_t trace_ = 0;  // serial number of the trace that made it
};

template <class T>
concept Number = std::is_arithmetic_v<T>;

class Operand {
 public:
  using Location = std::source_location;
  enum class Kind : uint8_t { kAbsent, kValue, kInt, kUnsigned, kFloat };

  Operand() = default;
  Operand(const Value& value, Location loc = Location::current())  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kValue), loc_(loc), value_(value) {}
  Operand(const Var& var, Location loc = Location::current())  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kValue), loc_(loc), value_(var) {}
  Operand(const Const& constant, Location loc = Location::current())  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kInt), loc_(loc), expr_(constant.expr()) {}
  template <Number T>
  Operand(T number, Location loc = Location::current()) : loc_(loc) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_floating_point_v<T>) {
      kind_ = Kind::kFloat;
      // A thread that takes subnormals for zero would lose them here.
      if constexpr (std::is_same_v<T, float>) {
        number_ = double_from_bits(ElementType::kF32, std::bit_cast<uint32_t>(number));
      } else {
        number_ = static_cast<double>(number);
      }
    } else {
      // Only u64 values above the range of i64 are kept apart; they take part in no integer expression.
      kind_ =
          std::is_unsigned_v<T> && static_cast<uint64_t>(number) > uint64_t{INT64_MAX} ? Kind::kUnsigned : Kind::kInt;
      unsigned_ = static_cast<uint64_t>(number);
      expr_ = Expr(static_cast<int64_t>(number));
    }
  }

  Kind kind() const { return kind_; }
  bool present() const { return kind_ != Kind::kAbsent; }
  bool is_value() const { return kind_ == Kind::kValue; }
  const Value& value() const { return value_; }
  const Expr& expr() const { return expr_; }              // kInt
  uint64_t unsigned_number() const { return unsigned_; }  // kUnsigned
  double number() const { return number_; }               // kFloat
  const Location& loc() const { return loc_; }

 private:
  Kind kind_ = Kind::kAbsent;
  Location loc_;
  Value value_;
  Expr expr_;
  double number_ = 0;
  uint64_t unsigned_ = 0;
};

// Two ints give the wider, an int and a float the float; see docs/use/authoring.md. Shapes broadcast.
// `pointer + ints` and `pointer - ints` move a pointer by elements.
Value operator+(Operand a, Operand b);
Value operator-(Operand a, Operand b);
Value operator*(Operand a, Operand b);
Value operator/(Operand a, Operand b);
Value operator%(Operand a, Operand b);
Value operator&(Operand a, Operand b);
Value operator|(Operand a, Operand b);
Value operator^(Operand a, Operand b);
Value operator<<(Operand a, Operand b);
Value operator>>(Operand a, Operand b);
Value operator-(Operand a);
Value operator~(Operand a);
// Of i1. Exact types, since `!` could also go through bool; its line is that of the last op before it.
Value operator!(const Value& a);
Value operator!(const Var& a);
Value operator==(Operand a, Operand b);
Value operator!=(Operand a, Operand b);
Value operator<(Operand a, Operand b);
Value operator<=(Operand a, Operand b);
Value operator>(Operand a, Operand b);
Value operator>=(Operand a, Operand b);

// A variable of the traced program. Reading or assigning it inside a loop that was opened after it was made carries it
// through that loop; its type must then stay the same. After an if_ it holds what the branch that ran left in it. A
// number assigned to it takes its type and shape.
class Var {
 public:
  using Location = std::source_location;
  Var(const Value& init, Location loc = Location::current()) : Var(Operand(init, loc), Init{}) {}  // NOLINT
  Var(const Const& init, Location loc = Location::current()) : Var(Operand(init, loc), Init{}) {}  // NOLINT
  template <Number T>
  Var(T init, Location loc = Location::current()) : Var(Operand(init, loc), Init{}) {}  // NOLINT
  Var(const Var& other, Location loc = Location::current()) : Var(Operand(other, loc), Init{}) {}

  Var& operator=(Operand value);
  // Takes a non-const reference, so that a value assigned to a variable is an Operand, with its line, and nothing else.
  Var& operator=(Var& other);
  Var& operator+=(Operand value);
  Var& operator-=(Operand value);
  Var& operator*=(Operand value);
  Var& operator/=(Operand value);
  Var& operator%=(Operand value);
  Var& operator&=(Operand value);
  Var& operator|=(Operand value);
  Var& operator^=(Operand value);

  Value read() const;

  template <std::same_as<bool> T>
  explicit operator T() const {
    return as_condition<T>();
  }

 private:
  struct Init {};
  Var(const Operand& init, Init);

  uint32_t slot_ = 0;
  uint64_t trace_ = 0;
  Location loc_;
};

inline Value::Value(const Var& var) : Value(var.read()) {}

template <class T>
concept Traced = std::derived_from<T, Value> || std::same_as<T, Var>;
// Both sides are always computed, where C++ promises that the second may not be.
template <class A, class B>
  requires Traced<A> || Traced<B>
Value operator&&(const A&, const B&) {
  static_assert(kIsKnownWhileTracing<A>,
                "both sides of a condition on a Value are computed: write `a & b` for `a && b`");
  return {};
}
template <class A, class B>
  requires Traced<A> || Traced<B>
Value operator||(const A&, const B&) {
  static_assert(kIsKnownWhileTracing<A>,
                "both sides of a condition on a Value are computed: write `a | b` for `a || b`");
  return {};
}

// --- parameters --------------------------------------------------------------------------------------------------

// What a tracer constructs parameters from.
struct Argument {
  Value value;
};

template <ElementType kType>
class Scalar : public Value {
 public:
  static constexpr ElementType kElement = kType;
  explicit Scalar(const Argument& argument) : Value(argument.value) {}
};

using i1 = Scalar<ElementType::kI1>;
using i8 = Scalar<ElementType::kI8>;
using i16 = Scalar<ElementType::kI16>;
using i32 = Scalar<ElementType::kI32>;
using i64 = Scalar<ElementType::kI64>;
using u8 = Scalar<ElementType::kU8>;
using u16 = Scalar<ElementType::kU16>;
using u32 = Scalar<ElementType::kU32>;
using u64 = Scalar<ElementType::kU64>;
using f16 = Scalar<ElementType::kF16>;
using bf16 = Scalar<ElementType::kBF16>;
using f32 = Scalar<ElementType::kF32>;
using f64 = Scalar<ElementType::kF64>;
using f8e4m3 = Scalar<ElementType::kF8E4M3>;
using f8e5m2 = Scalar<ElementType::kF8E5M2>;

template <class T>
inline constexpr ElementType element_v = std::remove_const_t<T>::kElement;

// A pointer to elements in memory; the kernel never stores through a Ptr<const T>.
template <class T>
class Ptr : public Value {
 public:
  static constexpr ElementType kElement = element_v<T>;
  static constexpr bool kReadonly = std::is_const_v<T>;
  explicit Ptr(const Argument& argument) : Value(argument.value) {}
};

// Element types as function arguments: cast(x, f32_t).
inline constexpr ElementType i1_t = ElementType::kI1;
inline constexpr ElementType i8_t = ElementType::kI8;
inline constexpr ElementType i16_t = ElementType::kI16;
inline constexpr ElementType i32_t = ElementType::kI32;
inline constexpr ElementType i64_t = ElementType::kI64;
inline constexpr ElementType u8_t = ElementType::kU8;
inline constexpr ElementType u16_t = ElementType::kU16;
inline constexpr ElementType u32_t = ElementType::kU32;
inline constexpr ElementType u64_t = ElementType::kU64;
inline constexpr ElementType f16_t = ElementType::kF16;
inline constexpr ElementType bf16_t = ElementType::kBF16;
inline constexpr ElementType f32_t = ElementType::kF32;
inline constexpr ElementType f64_t = ElementType::kF64;
inline constexpr ElementType f8e4m3_t = ElementType::kF8E4M3;
inline constexpr ElementType f8e5m2_t = ElementType::kF8E5M2;

}  // namespace kiln::dsl::lang

namespace kiln {
namespace lang = dsl::lang;
}
