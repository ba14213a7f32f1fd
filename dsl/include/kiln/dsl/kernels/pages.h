// Tokens put into the pages of a cache, as attention_decode reads them.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// Row number, in pages [pages, PAGE, heads], of head h of token t of sequence b: place lengths[b] + t of the sequence.
inline Value page_row(const Value& table, const Value& lengths, const Value& b, const Value& t, const Value& h,
                      const Value& heads, const Value& max_pages, const Const& PAGE) {
  const Value place = load(lengths + b) + t;
  const Value page = load(table + (cast(b, i64_t) * max_pages + place / PAGE));
  return (cast(page, i64_t) * PAGE + place % PAGE) * heads + h;
}

// x [batch, tokens, heads, D] to pages [pages, PAGE, heads, D], behind the lengths [batch] that sequences have without
// them; page j of sequence b is table[b, j], of [batch, max_pages].
template <class T = f32>
const auto& append_pages() {
  static const Kept def =
      kernel("append_pages",
             {"x", "pages", "table", "lengths", "batch", "tokens", "heads", "max_pages", "D=64", "PAGE=16", "ROWS=16"},
             [](Ptr<const T> x, Ptr<T> pages, Ptr<const i32> table, Ptr<const i32> lengths, i32 batch, i32 tokens,
                i32 heads, i32 max_pages, Const D, Const PAGE, Const ROWS) {
               grid(batch * tokens, cdiv(heads, ROWS));
               const Value head = program_id(1) * ROWS + arange(0, ROWS), lane = expand_dims(arange(0, D), 0);
               const Value b = program_id(0) / tokens, t = program_id(0) % tokens;
               const Value valid = expand_dims(head < heads, 1);
               const Value from = (cast(program_id(0), i64_t) * heads + head) * D;
               const Value to = page_row(table, lengths, b, t, head, heads, max_pages, PAGE) * D;
               const Value row = load(x + (expand_dims(from, 1) + lane), {.mask = valid});
               store(pages + (expand_dims(to, 1) + lane), row, {.mask = valid});
             })
          .space({{"ROWS", {1, 2, 4, 8, 16}}, {"num_warps", {1, 2, 4}}})
          .array("x", "batch*tokens*heads*D")
          .array("pages", "batch*max_pages*PAGE*heads*D")
          .array("table", "batch*max_pages", "0", "batch*max_pages")
          .array("lengths", "batch", "0", "max_pages*PAGE - tokens + 1");
  return *def;
}

// The same into pages of `i8` or f8, with a factor for each token and head, scales [pages, PAGE, heads]: the largest
// magnitude of its D numbers over 127, 448 (e4m3) or 57344 (e5m2), 1 where all are 0. A number is its code times that.
template <class T = f32, class Code = i8>
const auto& append_pages_quantised() {
  static const Kept def =
      kernel("append_pages_quantised",
             {"x", "pages", "scales", "table", "lengths", "batch", "tokens", "heads", "max_pages", "D=64", "PAGE=16",
              "ROWS=16"},
             [](Ptr<const T> x, Ptr<Code> pages, Ptr<f32> scales, Ptr<const i32> table, Ptr<const i32> lengths,
                i32 batch, i32 tokens, i32 heads, i32 max_pages, Const D, Const PAGE, Const ROWS) {
               constexpr bool is_int = std::is_same_v<Code, i8>;
               constexpr float most = is_int ? 127 : std::is_same_v<Code, f8e4m3> ? 448 : 57344;
               grid(batch * tokens, cdiv(heads, ROWS));
               const Value head = program_id(1) * ROWS + arange(0, ROWS), lane = expand_dims(arange(0, D), 0);
               const Value b = program_id(0) / tokens, t = program_id(0) % tokens;
               const Value valid = expand_dims(head < heads, 1);
               const Value from = (cast(program_id(0), i64_t) * heads + head) * D;
               const Value to = page_row(table, lengths, b, t, head, heads, max_pages, PAGE);
               const Value row = cast(load(x + (expand_dims(from, 1) + lane), {.mask = valid}), f32_t);
               const Value greatest = reduce_max(abs(row), 1);
               const Value scale = where(greatest == 0.0f, 1.0f, greatest / most);
               const Value whole = row / expand_dims(scale, 1);
               const Value code = cast(is_int ? round(whole) : whole, element_v<Code>);
               store(pages + (expand_dims(to * D, 1) + lane), code, {.mask = valid});
               store(scales + to, scale, {.mask = head < heads});
             })
          .space({{"ROWS", {1, 2, 4, 8, 16}}, {"num_warps", {1, 2, 4}}})
          .array("x", "batch*tokens*heads*D")
          .array("pages", "batch*max_pages*PAGE*heads*D")
          .array("scales", "batch*max_pages*PAGE*heads")
          .array("table", "batch*max_pages", "0", "batch*max_pages")
          .array("lengths", "batch", "0", "max_pages*PAGE - tokens + 1");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
