// Kernels over many tensors in one launch, a program for each chunk of one: the norm of all gradients, a check for
// infinities, and the factor of the gradients that follows. kiln/dsl/tensor_table.h makes the tables.
//
// `factor` [2] says what steps do with gradients: multiply them by the first, and do nothing at all where the second is
// 0. It stays on the device, so that nobody waits between the gradients and the step.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// What a program has: elements first … first+left-1 of one tensor. Rows of the table have 1 + `arrays` numbers; chunks
// are of `chunk` elements.
class TensorChunk {
 public:
  TensorChunk(const Value& tensors, const Value& chunks, const Value& chunk, int arrays, const Const& align)
      : align_(align), tensor_(load(chunks + program_id(0) * 2)) {
    row_ = tensors + cast(tensor_, i64_t) * (1 + arrays);
    first_ = cast(load(chunks + program_id(0) * 2 + 1), i64_t) * chunk;
    left_ = cast(min(load(row_) - first_, chunk), i32_t);
  }

  const Value& tensor() const { return tensor_; }
  // Of the elements the program is to do; none where the factor says so.
  const Value& left() const { return left_; }
  void obey(const Value& factor) { left_ = where(load(factor + 1) != 0, left_, 0); }

  // Its part of array `number`.
  Tile of(const Value& base, int number) const {
    const Value place = load(row_ + (1 + number));
    assume(place, {.multiple_of = align_});
    return tile(base + place + first_, {left_});
  }

 private:
  Const align_;
  Value tensor_, row_, first_, left_;
};

// Programs are chunks, far longer than a block, so that what a program does once does not count.
template <class Def>
Def many_hints(Def def) {
  return std::move(def)
      .space({{"BLOCK", {512, 1024, 2048, 4096, 8192}}})
      .array("chunks", "2*count", "0", "1")
      .defaults("amd", {{"BLOCK", 1024}})
      .defaults("cuda", {{"BLOCK", 1024}});
}

// sums[c] = the sum of the squares of chunk c of the gradients, bad[c] = how many of it are infinite or NaN.
template <class T = f32>
const auto& gradient_sums() {
  static const Kept def = many_hints(
      kernel("gradient_sums", {"g", "tensors", "chunks", "sums", "bad", "count", "chunk", "BLOCK=4096", "ALIGN=1"},
             [](Ptr<const T> g, Ptr<const i64> tensors, Ptr<const i32> chunks, Ptr<f32> sums, Ptr<i32> bad, i32 count,
                i32 chunk, Const BLOCK, Const ALIGN) {
               grid(count);
               const TensorChunk mine(tensors, chunks, chunk, 1, ALIGN);
               const Tile gradients = mine.of(g, 0);
               Var squares = zeros(f32_t, {BLOCK}), wrong = zeros(i32_t, {BLOCK});
               for (Value at : range(0, mine.left(), BLOCK)) {
                 const Value v = load_f32(gradients, {at}, {BLOCK});
                 squares += v * v;
                 wrong += cast(isnan(v) | isinf(v), i32_t);
               }
               store(sums + program_id(0), sum(squares, 0));
               store(bad + program_id(0), sum(wrong, 0));
             })
          .array("g", "2*chunk")
          .array("tensors", "2", "chunk", "chunk + 1")
          .array("sums", "count")
          .array("bad", "count"));
  return *def;
}

// What `gradient_sums` found becomes a factor. Gradients are those of the loss times loss_scale; norm [1] is theirs
// without it, over all tensors. factor = {min(1, max_norm/(norm + 1e-6)) / loss_scale, 1}, the clipping only where
// max_norm is above 0; and {0, 0} where a gradient is infinite or NaN.
inline const auto& gradient_factor() {
  static const Kept def =
      kernel("gradient_factor", {"sums", "bad", "factor", "norm", "count", "max_norm", "loss_scale", "BLOCK=1024"},
             [](Ptr<const f32> sums, Ptr<const i32> bad, Ptr<f32> factor, Ptr<f32> norm, i32 count, f32 max_norm,
                f32 loss_scale, Const BLOCK) {
               grid(1);
               Var squares = zeros(f64_t, {BLOCK}), wrong = zeros(i32_t, {BLOCK});
               for (Value at : range(0, count, BLOCK)) {
                 squares += cast(tile(sums, {count}).load({at}, {BLOCK}), f64_t);
                 wrong += min(tile(bad, {count}).load({at}, {BLOCK}), 1);
               }
               const Value length = cast(sqrt(sum(squares, 0)), f32_t) / loss_scale;
               const Value clip = where(max_norm > 0, min(max_norm / (length + 1e-6F), 1.0F), 1.0F);
               const Value sound = sum(wrong, 0) == 0;
               store(norm, length);
               store(factor, where(sound, clip / loss_scale, 0.0F));
               store(factor + 1, cast(sound, f32_t));
             })
          .space({{"BLOCK", {256, 1024, 4096}}})
          .array("sums", "count", "0", "1")
          .array("bad", "count", "0", "1")
          .array("factor", "2")
          .array("norm", "1");
  return *def;
}

// g *= factor[0] over all tensors, in place; nothing where factor[1] is 0.
template <class T = f32>
const auto& scale_many() {
  static const Kept def =
      many_hints(kernel("scale_many", {"g", "tensors", "chunks", "factor", "count", "chunk", "BLOCK=4096", "ALIGN=1"},
                        [](Ptr<T> g, Ptr<const i64> tensors, Ptr<const i32> chunks, Ptr<const f32> factor, i32 count,
                           i32 chunk, Const BLOCK, Const ALIGN) {
                          grid(count);
                          TensorChunk mine(tensors, chunks, chunk, 1, ALIGN);
                          mine.obey(factor);
                          const Tile gradients = mine.of(g, 0);
                          const Value by = load(factor);
                          for (Value at : range(0, mine.left(), BLOCK)) {
                            const Value v = load_f32(gradients, {at}, {BLOCK}) * by;
                            gradients.store({at}, cast(v, element_v<T>));
                          }
                        })
                     .array("g", "2*chunk")
                     .array("tensors", "2", "chunk", "chunk + 1")
                     .array("factor", "2", "1", "2"));
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
