// Tensor: what the author of a graph computes with. Operators and functions of one element at a time; the others are in
// functions.h and control.h, graph() in graph.h.
//
// Element types promote and shapes broadcast as in NumPy: missing axes stand in front, an extent of 1 repeats. A C++
// number takes the tensor's type, and must be one of its values; a fraction beside an int tensor makes both f32. Of two
// tensors: ints with floats give the float, two ints the wider (of one width and both signs: an error that says what to
// write), two floats the wider (f16 with bf16: f32), as for tiles. A negative axis counts from the end.
//
// Errors are collected with the line of the call (a defaulted source_location) and given by graph(); an op on what an
// error made is silent. A Tensor belongs to the graph() call in whose function it was made, on its thread.
#pragma once

#include <concepts>
#include <source_location>
#include <type_traits>
#include <vector>

#include "kiln/graph/dim.h"

namespace kiln::graph {

using SourceLocation = std::source_location;

inline constexpr ElementType i1 = ElementType::kI1;
inline constexpr ElementType i8 = ElementType::kI8;
inline constexpr ElementType i16 = ElementType::kI16;
inline constexpr ElementType i32 = ElementType::kI32;
inline constexpr ElementType i64 = ElementType::kI64;
inline constexpr ElementType u8 = ElementType::kU8;
inline constexpr ElementType u16 = ElementType::kU16;
inline constexpr ElementType u32 = ElementType::kU32;
inline constexpr ElementType u64 = ElementType::kU64;
inline constexpr ElementType f16 = ElementType::kF16;
inline constexpr ElementType bf16 = ElementType::kBF16;
inline constexpr ElementType f32 = ElementType::kF32;
inline constexpr ElementType f64 = ElementType::kF64;
inline constexpr ElementType f8e4m3 = ElementType::kF8E4M3;
inline constexpr ElementType f8e5m2 = ElementType::kF8E5M2;

class Index;

class Tensor {
 public:
  Tensor() = default;                                                                         // invalid
  Tensor(ValueId id, uint64_t trace, uint32_t body) : id_(id), body_(body), trace_(trace) {}  // for the tracer

  bool valid() const { return id_ != kNoValue; }
  // Of an invalid tensor, and outside of graph(): f32[].
  TensorType type() const;
  ElementType element() const;
  int rank() const;
  Dim extent(int axis) const;  // may count from the end; 1 where there is no such axis
  Shape shape() const;

  // NumPy's indexing: see Index. x(i, all, range(0, n, 2)), x(rest, 0), x(none, rest), x(ids). Of more than six: at().
  Tensor operator()(const Index& a, SourceLocation loc = SourceLocation::current()) const;
  Tensor operator()(const Index& a, const Index& b, SourceLocation loc = SourceLocation::current()) const;
  Tensor operator()(const Index& a, const Index& b, const Index& c,
                    SourceLocation loc = SourceLocation::current()) const;
  Tensor operator()(const Index& a, const Index& b, const Index& c, const Index& d,
                    SourceLocation loc = SourceLocation::current()) const;
  Tensor operator()(const Index& a, const Index& b, const Index& c, const Index& d, const Index& e,
                    SourceLocation loc = SourceLocation::current()) const;
  Tensor operator()(const Index& a, const Index& b, const Index& c, const Index& d, const Index& e, const Index& f,
                    SourceLocation loc = SourceLocation::current()) const;

  // What a graph computes is not known while it is traced.
  template <std::same_as<bool> T>
  explicit operator T() const {
    static_assert(
        !std::is_same_v<T, bool>,
        "a Tensor is known when the graph runs, not while it is traced: use cond() for `if`, where() for `?:` "
        "and loop() for `for`");
    return false;
  }

  ValueId id() const { return id_; }
  uint32_t body() const { return body_; }  // serial of the open body that it was made in
  uint64_t trace() const { return trace_; }

 private:
  ValueId id_ = kNoValue;
  uint32_t body_ = 0;
  uint64_t trace_ = 0;
};

// What operators and functions take: a tensor or a C++ number, with the line it was written on. An absent one stands
// for an operand that is left out.
class Operand {
 public:
  using Location = std::source_location;
  enum class Kind : uint8_t { kAbsent, kTensor, kInt, kUnsigned, kFloat };

  Operand(Location loc = Location::current()) : loc_(loc) {}         // NOLINT(google-explicit-constructor)
  Operand(const Tensor& tensor, Location loc = Location::current())  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kTensor), loc_(loc), tensor_(tensor) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T number, Location loc = Location::current()) : loc_(loc) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_floating_point_v<T>) {
      kind_ = Kind::kFloat;
      float_ = static_cast<double>(number);
    } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
      kind_ = Kind::kUnsigned;
      int_ = static_cast<int64_t>(number);
    } else {
      kind_ = Kind::kInt;
      int_ = static_cast<int64_t>(number);
    }
  }
  // An integer expression over dims as a scalar (the op `extent`), of the other operand's type.
  Operand(const Dim& dim, Location loc = Location::current());  // NOLINT(google-explicit-constructor)

  Kind kind() const { return kind_; }
  bool present() const { return kind_ != Kind::kAbsent; }
  bool is_tensor() const { return kind_ == Kind::kTensor; }
  bool is_dim() const { return is_dim_; }
  const Location& loc() const { return loc_; }
  const Tensor& tensor() const { return tensor_; }
  int64_t int_number() const { return int_; }
  double float_number() const { return float_; }
  const Dim& dim() const { return dim_; }

 private:
  Kind kind_ = Kind::kAbsent;
  bool is_dim_ = false;  // kInt, whose number is an expression
  Location loc_;
  Tensor tensor_;
  int64_t int_ = 0;
  double float_ = 0;
  Dim dim_;
};

// --- indexing ---
// One index of x(…): a number (the axis disappears), `all`, range(start, end, step), `rest` (as many `all` as are
// missing, once), `none` (a new axis of extent 1), or an int tensor (its shape replaces the axis). Negative C++ numbers
// count from the end. Several tensors broadcast together, and their axes stand where the first was if they are
// neighbours, else in front; numbers beside tensors are then such tensors, as in NumPy. What lies outside of the axis
// is an error: nothing is cut off silently.
struct All {};
struct Rest {};
struct NewAxis {};
inline constexpr All all;
inline constexpr Rest rest;
inline constexpr NewAxis none;
struct Range {
  Dim start, end;
  int64_t step = 1;  // not 0. Negative: from start down to, without, end; the end is then -1 where 0 is among them
};
inline Range range(Dim start, Dim end, int64_t step = 1) { return {std::move(start), std::move(end), step}; }

class Index {
 public:
  enum class Kind : uint8_t { kAll, kRest, kNew, kNumber, kRange, kTensor };
  Index(All) : kind_(Kind::kAll) {}                                              // NOLINT(google-explicit-constructor)
  Index(Rest) : kind_(Kind::kRest) {}                                            // NOLINT(google-explicit-constructor)
  Index(NewAxis) : kind_(Kind::kNew) {}                                          // NOLINT(google-explicit-constructor)
  Index(Dim number) : kind_(Kind::kNumber), range_{std::move(number), {}, 1} {}  // NOLINT(google-explicit-constructor)
  Index(std::integral auto number) : Index(Dim(number)) {}                       // NOLINT(google-explicit-constructor)
  Index(Range range) : kind_(Kind::kRange), range_(std::move(range)) {}          // NOLINT(google-explicit-constructor)
  Index(const Tensor& tensor) : kind_(Kind::kTensor), tensor_(tensor) {}         // NOLINT(google-explicit-constructor)

  Kind kind() const { return kind_; }
  const Dim& number() const { return range_.start; }
  const Range& range() const { return range_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Kind kind_;
  Range range_;
  Tensor tensor_;
};
// x(…) as a function; and x with those elements set to, or combined with, values that broadcast to their shape.
Tensor at(Operand x, const std::vector<Index>& indices);
Tensor set_at(Operand x, const std::vector<Index>& indices, Operand values, ScatterKind kind = ScatterKind::kSet);

// --- operators ---
Tensor operator+(Operand a, Operand b);
Tensor operator-(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);
Tensor operator/(Operand a, Operand b);  // ints truncate
Tensor operator%(Operand a, Operand b);
Tensor operator-(Operand x);
Tensor operator&(Operand a, Operand b);
Tensor operator|(Operand a, Operand b);
Tensor operator^(Operand a, Operand b);
Tensor operator~(Operand x);
Tensor operator<<(Operand a, Operand b);
Tensor operator>>(Operand a, Operand b);
Tensor operator==(Operand a, Operand b);
Tensor operator!=(Operand a, Operand b);
Tensor operator<(Operand a, Operand b);
Tensor operator<=(Operand a, Operand b);
Tensor operator>(Operand a, Operand b);
Tensor operator>=(Operand a, Operand b);

// --- one element at a time ---
Tensor cast(Operand x, ElementType to);
Tensor bitcast(Operand x, ElementType to);
Tensor where(Operand condition, Operand a, Operand b);
Tensor mulhi(Operand a, Operand b);
Tensor fma(Operand a, Operand b, Operand c);
Tensor min(Operand a, Operand b);
Tensor max(Operand a, Operand b);
Tensor abs(Operand x);
Tensor sign(Operand x);
Tensor square(Operand x);
Tensor reciprocal(Operand x);
Tensor stop_gradient(Operand x);
// Ints become f32.
Tensor exp(Operand x);
Tensor exp2(Operand x);
Tensor expm1(Operand x);
Tensor log(Operand x);
Tensor log2(Operand x);
Tensor log10(Operand x);
Tensor log1p(Operand x);
Tensor sin(Operand x);
Tensor cos(Operand x);
Tensor tan(Operand x);
Tensor asin(Operand x);
Tensor acos(Operand x);
Tensor atan(Operand x);
Tensor atan2(Operand a, Operand b);
Tensor sinh(Operand x);
Tensor cosh(Operand x);
Tensor tanh(Operand x);
Tensor erf(Operand x);
Tensor erfc(Operand x);
Tensor sqrt(Operand x);
Tensor rsqrt(Operand x);
Tensor pow(Operand a, Operand b);
Tensor hypot(Operand a, Operand b);
Tensor copysign(Operand a, Operand b);
Tensor floor(Operand x);
Tensor ceil(Operand x);
Tensor round(Operand x);
Tensor trunc(Operand x);
Tensor signbit(Operand x);
Tensor isnan(Operand x);
Tensor isinf(Operand x);

}  // namespace kiln::graph
