// The functions of the language, one per op or nearly so; what is built on top of them is in library.h.
//
// Every function that takes an Operand knows the line of its call from it; the others take it as a defaulted argument.
#pragma once

#include <string_view>

#include "kiln/dsl/value.h"

namespace kiln::dsl::lang {

using SourceLocation = std::source_location;

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
Value permute(Operand x, std::vector<int> order);
Value trans(Operand x);  // swaps the last two axes

// --- arithmetic, choice, conversion ---
Value fma(Operand a, Operand b, Operand c);
Value min(Operand a, Operand b);  // NaN wins
Value max(Operand a, Operand b);  // NaN wins
Value abs(Operand x);
Value where(Operand condition, Operand a, Operand b);
Value cast(Operand x, ElementType to);
Value bitcast(Operand x, ElementType to);

// --- math, of floats ---
Value exp(Operand x);
Value exp2(Operand x);
Value log(Operand x);
Value log2(Operand x);
Value sin(Operand x);
Value cos(Operand x);
Value tanh(Operand x);
Value erf(Operand x);
Value sqrt(Operand x);
Value rsqrt(Operand x);
Value floor(Operand x);
Value ceil(Operand x);
Value round(Operand x);  // to even
Value trunc(Operand x);

// --- pointer memory ---
struct LoadOptions {
  Operand mask = {};   // lanes where it is false touch no memory
  Operand other = {};  // and give this; 0 if absent
};
struct StoreOptions {
  Operand mask = {};
};
Value load(Operand pointer, LoadOptions options = {});
void store(Operand pointer, Operand value, StoreOptions options = {});

// --- tiles of an array in memory ---
struct TileOptions {
  Operand other = {};  // what lanes outside the extents give; 0 if absent
};

// An array of rank 1 to 3 behind a pointer. Loads give `other` outside the extents, stores write nothing there; offsets
// must not be negative. Addresses are computed in i64.
class Tile {
 public:
  Tile(Operand base, std::vector<Operand> extents, std::vector<Operand> strides, SourceLocation loc);
  Value load(std::vector<Operand> offsets, Shape block, TileOptions options = {},
             SourceLocation loc = SourceLocation::current()) const;
  void store(std::vector<Operand> offsets, Operand value, SourceLocation loc = SourceLocation::current()) const;

 private:
  struct Lanes {
    Value pointer, mask;
  };
  void set_strides(const std::vector<Operand>& strides);
  Lanes lanes(const std::vector<Operand>& offsets, const Shape& block, SourceLocation loc) const;

  Value base_;
  std::vector<Operand> extents_;
  std::vector<Value> strides_;  // i64; the last one is absent (invalid) where it is 1
  bool valid_ = false;
};
// Without strides the array is contiguous, the last axis fastest.
Tile tile(Operand base, std::vector<Operand> extents, std::vector<Operand> strides = {},
          SourceLocation loc = SourceLocation::current());

// --- tile algebra ---
// acc + a·b; without acc from zero. The accumulator of f16, bf16 and f32 is f32.
Value dot(Operand a, Operand b, Operand acc = {}, Precision precision = Precision::kIeee);
// Reductions drop the axis; -1 is the last. `sum` widens i1, i8 and i16 to i32 and u8 and u16 to u32.
Value sum(Operand x, int axis);
Value prod(Operand x, int axis);
Value reduce_max(Operand x, int axis);  // NaN wins
Value reduce_min(Operand x, int axis);  // NaN wins

// --- control ---
// for (Value k : range(0, K, BK).stages(3)) { … } traces its body once, as the body of a loop of the kernel.
class [[nodiscard]] Range {
 public:
  Range(std::vector<Operand> bounds, SourceLocation loc);
  ~Range();
  Range(Range&& other) noexcept;
  Range& operator=(Range&&) = delete;

  // A hint: how many iterations' loads may be in flight.
  Range stages(Const count) &&;

  class Iterator {
   public:
    explicit Iterator(Range* range) : range_(range) {}
    bool operator!=(const Iterator&) const { return range_->state_ == State::kRunning; }
    Value operator*() const { return range_->index_; }
    Iterator& operator++();

   private:
    Range* range_;
  };
  Iterator begin();
  Iterator end() { return Iterator(this); }

 private:
  enum class State : uint8_t { kIdle, kRunning, kDone };

  std::vector<Value> bounds_;
  Expr stages_ = Expr(1);
  SourceLocation loc_;
  State state_ = State::kIdle;
  bool opened_ = false;
  Value index_;
};
Range range(Operand end, SourceLocation loc = SourceLocation::current());
Range range(Operand start, Operand end, SourceLocation loc = SourceLocation::current());
Range range(Operand start, Operand end, Operand step, SourceLocation loc = SourceLocation::current());

// --- facts ---
// The author's word that an int, or a pointer's address in bytes, is a multiple of n.
void assume_multiple(Operand x, Const n);
// Rejects a config, when constants are put in, unless the condition holds.
void require(Const condition, std::string_view message, SourceLocation loc = SourceLocation::current());

}  // namespace kiln::dsl::lang
