// The functions of the language, one per op or nearly so: here and in control.h, memory.h and algebra.h. What is built
// on top of them is in library.h.
//
// Every function that takes an Operand knows the line of its call from it; the others take it as a defaulted argument.
// Operands promote and broadcast as operators do, unless said otherwise. A negative axis counts from the end.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "kiln/dsl/algebra.h"
#include "kiln/dsl/control.h"
#include "kiln/dsl/memory.h"
#include "kiln/dsl/value.h"

namespace kiln::dsl::lang {

using dsl::Rounding;

// --- program ---
Value program_id(int axis, SourceLocation loc = SourceLocation::current());
Value num_programs(int axis, SourceLocation loc = SourceLocation::current());
// How many programs a launch runs: integer expressions over scalar parameters and Consts. At most once in a kernel.
void grid(Operand x, Operand y = {}, Operand z = {}, SourceLocation loc = SourceLocation::current());

// --- make ---
Value arange(Const start, Const end, SourceLocation loc = SourceLocation::current());  // i32
Value splat(Operand scalar, Shape shape);
Value full(Shape shape, Operand value, ElementType type);
Value zeros(ElementType type, Shape shape, SourceLocation loc = SourceLocation::current());

// --- shape ---
Value broadcast_to(Operand x, Shape shape);  // a scalar, axes of extent 1 and missing leading axes stretch
Value expand_dims(Operand x, int axis);      // a negative axis counts from the end of the result
Value reshape(Operand x, Shape shape);       // the same elements in row-major order
Value permute(Operand x, std::vector<int> order);
Value trans(Operand x);                     // swaps the last two axes
Value join(Operand a, Operand b);           // side by side along a new last axis of extent 2
std::pair<Value, Value> split(Operand x);   // undoes join
Value cat(Operand a, Operand b, int axis);  // b behind a
Value slice(Operand x, int axis, Const start, Const end);
// The elements of src whose numbers along the axis `index` holds; other extents are equal.
Value gather(Operand src, Operand index, int axis);

// --- arithmetic, choice, conversion ---
// fast: the target's approximation, within 2 ulp; subnormals may flush to zero.
enum class Accuracy : uint8_t { kFull, kFast };
inline constexpr Accuracy fast = Accuracy::kFast;
// numeric: of a NaN and a number, the number; otherwise NaN wins.
enum class NanRule : uint8_t { kPropagate, kNumeric };
inline constexpr NanRule numeric = NanRule::kNumeric;

Value div(Operand a, Operand b, Accuracy accuracy);  // a / b: div(a, b, fast)
Value mulhi(Operand a, Operand b);                   // the high half of the product of two ints
Value fma(Operand a, Operand b, Operand c);
Value min(Operand a, Operand b, NanRule rule = NanRule::kPropagate);
Value max(Operand a, Operand b, NanRule rule = NanRule::kPropagate);
Value abs(Operand x);
Value where(Operand condition, Operand a, Operand b);  // both are computed

struct CastOptions {
  Rounding rounding = Rounding::kNearest;  // to floats
  Operand random = {};                     // of kStochastic: u32, see philox
  bool saturate = true;                    // to f8: otherwise beyond the range it is inf or NaN
};
Value cast(Operand x, ElementType to, CastOptions options = {});
Value bitcast(Operand x, ElementType to);
// cast<f32>(x) is cast(x, f32_t). (C++ reads `cast(x, f32)` as a type where a value belongs, whatever a library says.)
template <class T>
Value cast(Operand x, CastOptions options = {}) {
  return cast(std::move(x), element_v<T>, std::move(options));
}
template <class T>
Value bitcast(Operand x) {
  return bitcast(std::move(x), element_v<T>);
}

// --- math, of floats; error bounds in docs/reference/ops.md ---
Value exp(Operand x, Accuracy accuracy = Accuracy::kFull);
Value exp2(Operand x, Accuracy accuracy = Accuracy::kFull);
Value expm1(Operand x, Accuracy accuracy = Accuracy::kFull);
Value log(Operand x, Accuracy accuracy = Accuracy::kFull);
Value log2(Operand x, Accuracy accuracy = Accuracy::kFull);
Value log10(Operand x, Accuracy accuracy = Accuracy::kFull);
Value log1p(Operand x, Accuracy accuracy = Accuracy::kFull);
Value sin(Operand x, Accuracy accuracy = Accuracy::kFull);
Value cos(Operand x, Accuracy accuracy = Accuracy::kFull);
Value tan(Operand x, Accuracy accuracy = Accuracy::kFull);
Value asin(Operand x, Accuracy accuracy = Accuracy::kFull);
Value acos(Operand x, Accuracy accuracy = Accuracy::kFull);
Value atan(Operand x, Accuracy accuracy = Accuracy::kFull);
Value atan2(Operand y, Operand x, Accuracy accuracy = Accuracy::kFull);
Value sinh(Operand x, Accuracy accuracy = Accuracy::kFull);
Value cosh(Operand x, Accuracy accuracy = Accuracy::kFull);
Value tanh(Operand x, Accuracy accuracy = Accuracy::kFull);
Value erf(Operand x, Accuracy accuracy = Accuracy::kFull);
Value erfc(Operand x, Accuracy accuracy = Accuracy::kFull);
Value sqrt(Operand x, Accuracy accuracy = Accuracy::kFull);
Value rsqrt(Operand x, Accuracy accuracy = Accuracy::kFull);
Value pow(Operand x, Operand y, Accuracy accuracy = Accuracy::kFull);
Value hypot(Operand x, Operand y, Accuracy accuracy = Accuracy::kFull);
Value copysign(Operand magnitude, Operand sign);
Value signbit(Operand x);  // i1
Value floor(Operand x);
Value ceil(Operand x);
Value round(Operand x);  // to even
Value trunc(Operand x);
Value isnan(Operand x);  // i1
Value isinf(Operand x);  // i1

// --- random ---
// Philox4x32-10: four u32 words for each offset. The same on every target; ints are cast to u64.
std::array<Value, 4> philox(Operand seed, Operand offset);

// --- facts ---
// The author's word; unspecified results where it is false.
struct AssumeOptions {
  Const multiple_of = 1;  // the int, or the pointer's address in bytes, is a multiple
  Const contiguous = 1;   // groups of so many neighbours along the last axis count up by one element
  Const low = INT64_MIN;  // of an int: it is low…high
  Const high = INT64_MAX;
};
void assume(Operand x, AssumeOptions options);
void assume_multiple(Operand x, Const n);
// Rejects a config, when constants are put in, unless the condition holds.
void require(Const condition, std::string_view message, SourceLocation loc = SourceLocation::current());
// Fails launches, before anything runs, unless the condition, an integer expression over scalar parameters and Consts,
// holds; wherever it stands in the function. The tuner leaves out configs for which it does not.
void require(const Value& condition, std::string_view message, SourceLocation loc = SourceLocation::current());
// Fails the launch where an element is false, in kernels with the option debug; else nothing.
void check(Operand condition, std::string_view message);
// Gives the message, the program id and the values to the launch's sink.
void print(std::string_view message, std::vector<Operand> values = {}, SourceLocation loc = SourceLocation::current());

// --- escape ---
// An elementwise result of target assembly, `pack` elements at a time; GPU targets only. Operands broadcast and keep
// their types.
Value inline_asm(std::string_view text, std::string_view constraints, std::vector<Operand> args, ElementType type,
                 int pack = 1, SourceLocation loc = SourceLocation::current());

}  // namespace kiln::dsl::lang
