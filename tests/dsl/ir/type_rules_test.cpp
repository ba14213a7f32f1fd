// Each type rule: its message and its place.
#include "kiln/dsl/verify.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

struct Rule {
  const char* ops;    // the third line of the kernel
  const char* error;  // behind "k.kiln:3:", from the column on
};

// Type rules of infer_types, as the parser reports them.
TEST(TypeRules, EachErrorNamesOpAndTypes) {
  const Rule rules[] = {
      {"%a = add %p, %p", "6: error: add: takes no pointers (operands: ptr<f32>, ptr<f32>)"},
      {"%a = add %t, %f",
       "6: error: add: operands have different shapes; broadcast one of them (operands: tile<[B], f32>, f32)"},
      {"%a = add %f, %h",
       "6: error: add: operands have different element types; cast one of them (operands: f32, f16)"},
      {"%a = add %b, %b", "6: error: add: takes no i1; cast to an int first (operands: i1, i1)"},
      {"%a = add %f", "6: error: add: takes 2 operands, not 1"},
      {"%a = fma %i, %i, %i", "6: error: fma: takes floats only (operands: i32, i32, i32)"},
      {"%a = math %i {fn = exp}", "6: error: math: takes floats only (operands: i32)"},
      {"%a = and %f, %f", "6: error: and: takes ints or i1 only (operands: f32, f32)"},
      {"%a = or %f, %f", "6: error: or: takes ints or i1 only (operands: f32, f32)"},
      {"%a = xor %f, %f", "6: error: xor: takes ints or i1 only (operands: f32, f32)"},
      {"%a = shl %b, %b", "6: error: shl: takes ints only (operands: i1, i1)"},
      {"%a = shr %f, %f", "6: error: shr: takes ints only (operands: f32, f32)"},
      {"%a = cmp %f, %h {pred = lt}",
       "6: error: cmp: operands have different element types; cast one of them (operands: f32, f16)"},
      {"%a = cmp %p, %p {pred = eq}", "6: error: cmp: takes no pointers (operands: ptr<f32>, ptr<f32>)"},
      {"%a = select %i, %f, %f", "6: error: select: the condition must be i1 (operands: i32, f32, f32)"},
      {"%a = select %b, %t, %t",
       "6: error: select: operands have different shapes; broadcast one of them (operands: i1, tile<[B], f32>, "
       "tile<[B], f32>)"},
      {"%a = select %b, %f, %h",
       "6: error: select: operands have different element types; cast one of them (operands: i1, f32, f16)"},
      {"%a = cast %p {to = i64}", "6: error: cast: takes no pointers (operands: ptr<f32>)"},
      {"%a = bitcast %f {to = f16}", "6: error: bitcast: bitcast to f16 changes the width (operands: f32)"},
      {"%a = program_id {axis = 3}", "6: error: program_id: axis 3 is not 0, 1 or 2"},
      {"%a = num_programs {axis = -1}", "6: error: num_programs: axis -1 is not 0, 1 or 2"},
      {"%a = arange {start = 4, end = 4}", "6: error: arange: an extent of 0 is below 1"},
      {"%a = arange {start = 0, end = 4294967296}", "6: error: arange: an extent of 4294967296 is too large"},
      {"%a = splat %f {shape = [1, 1, 1, 1, 1, 1]}", "6: error: splat: rank 6 is above 5 (operands: f32)"},
      {"%a = splat %t {shape = [4]}",
       "6: error: splat: takes a scalar; use broadcast for a tile (operands: tile<[B], f32>)"},
      {"%a = broadcast %t {shape = [1, B]}",
       "6: error: broadcast: keeps the rank; use expand_dims first (operands: tile<[B], f32>)"},
      {"%a = broadcast %w {shape = [B, 16]}",
       "6: error: broadcast: axis 1 of extent 8 cannot become 16 (operands: tile<[B, 8], f32>)"},
      {"%a = expand_dims %t {axis = 2}", "6: error: expand_dims: axis 2 is outside 0…rank (operands: tile<[B], f32>)"},
      {"%a = permute %t {order = [1]}",
       "6: error: permute: order is not a permutation of the axes (operands: tile<[B], f32>)"},
      {"%a = permute %t {order = []}",
       "6: error: permute: order is not a permutation of the axes (operands: tile<[B], f32>)"},
      {"%a = load %f", "6: error: load: the first operand must be a pointer (operands: f32)"},
      {"%a = load %p, %f", "6: error: load: the mask must be i1 (operands: ptr<f32>, f32)"},
      {"%a = load %p, %b, %h",
       "6: error: load: `other` must have the pointer's element type f32 (operands: ptr<f32>, i1, f16)"},
      {"%a = addptr %p, %f", "6: error: addptr: the offset must be an int (operands: ptr<f32>, f32)"},
      {"%a = addptr %p, %b", "6: error: addptr: the offset must be an int (operands: ptr<f32>, i1)"},
      {"%a = addptr %p, %r",
       "6: error: addptr: pointer and offset have different shapes; broadcast one of them (operands: ptr<f32>, "
       "tile<[B], i32>)"},
      {"store %f, %f", "1: error: store: the first operand must be a pointer (operands: f32, f32)"},
      {"store %p, %t",
       "1: error: store: operands have different shapes; broadcast one of them (operands: ptr<f32>, tile<[B], f32>)"},
      {"store %p, %h",
       "1: error: store: the stored value must have the pointer's element type f32 (operands: ptr<f32>, f16)"},
      {"store %p, %f, %i", "1: error: store: the mask must be i1 (operands: ptr<f32>, f32, i32)"},
      {"%a = dot %t, %t, %t",
       "6: error: dot: takes tiles of rank 2, or of rank 3 with a batch in front (operands: tile<[B], f32>, tile<[B], "
       "f32>, tile<[B], f32>)"},
      {"%a = dot %w, %v, %w",
       "6: error: dot: a and b have different element types; cast one of them (operands: tile<[B, 8], f32>, tile<[8, "
       "B], "
       "f16>, tile<[B, 8], f32>)"},
      {"%u = splat %f {shape = [9, B]} %a = dot %w, %u, %w",
       "37: error: dot: the inner extents 8 and 9 differ (operands: tile<[B, 8], f32>, tile<[9, B], f32>, tile<[B, 8], "
       "f32>)"},
      {"%u = splat %f {shape = [8, 9]} %a = dot %w, %u, %w",
       "37: error: dot: the accumulator must be tile<[B, 9], f32> (operands: tile<[B, 8], f32>, tile<[8, 9], f32>, "
       "tile<[B, 8], f32>)"},
      {"%c = cast %w {to = i32} %a = dot %c, %c, %c",
       "30: error: dot: int operands must be i8 or u8 (operands: tile<[B, 8], i32>, tile<[B, 8], i32>, tile<[B, 8], "
       "i32>)"},
      {"%a = reduce %t {kind = sum, axis = 1}",
       "6: error: reduce: axis 1 is outside the rank (operands: tile<[B], f32>)"},
      {"%a = reduce %f {kind = sum, axis = 0}", "6: error: reduce: axis 0 is outside the rank (operands: f32)"},
      {"%c = cast %t {to = i1} %a = reduce %c {kind = max, axis = 0}",
       "29: error: reduce: takes no i1; cast to an int first, or use and, or, xor (operands: tile<[B], i1>)"},
      {"for %k = %f to %f step %f { yield }",
       "1: error: for: start, end and step must be scalar ints (operands: f32, f32, f32)"},
      {"for %k = %i to %l step %i { yield }",
       "1: error: for: operands have different element types; cast one of them (operands: i32, i64, i32)"},
      {"assume %f {multiple_of = 2}", "1: error: assume: takes ints or pointers (operands: f32)"},
      {"assume %i {multiple_of = 0}", "1: error: assume: multiple_of must be 1 or more (operands: i32)"},

      // --- shapes ---
      {"%a = arange {start = 0, end = 2147483649}", "6: error: arange: an extent of 2147483649 is too large"},
      {"%a = arange {start = 2147483640, end = 2147483650}",
       "6: error: arange: an element of 2147483650 is beyond i32"},
      {"%a = constant {value = 300, type = i8}", "24: error: 300 is not a value of i8"},
      {"%a = constant {value = 299 + 1, type = i8}", "6: error: constant: 300 is not a value of i8"},
      {"%a = expand_dims %five {axis = 0}",
       "6: error: expand_dims: the rank would be above 5 (operands: tile<[1, 1, 1, 1, 1], f32>)"},
      {"%a = reshape %w {shape = [B, 9]}",
       "6: error: reshape: the shape has 9*B elements, not 8*B (operands: tile<[B, 8], f32>)"},
      {"%a = reshape %t {shape = [B, 0]}", "6: error: reshape: an extent of 0 is below 1 (operands: tile<[B], f32>)"},
      {"%a = permute %w {order = [0, 0]}",
       "6: error: permute: order is not a permutation of the axes (operands: tile<[B, 8], f32>)"},
      {"%a = join %t, %w",
       "6: error: join: operands have different shapes; broadcast one of them (operands: tile<[B], f32>, tile<[B, 8], "
       "f32>)"},
      {"%a = join %t, %r",
       "6: error: join: operands have different element types; cast one of them (operands: tile<[B], f32>, tile<[B], "
       "i32>)"},
      {"%a = join %five, %five",
       "6: error: join: the rank would be above 5 (operands: tile<[1, 1, 1, 1, 1], f32>, tile<[1, 1, 1, 1, 1], f32>)"},
      {"%a, %c = split %w", "10: error: split: the last extent must be 2 (operands: tile<[B, 8], f32>)"},
      {"%a, %c = split %f", "10: error: split: the last extent must be 2 (operands: f32)"},
      {"%a = cat %t, %r {axis = 0}",
       "6: error: cat: operands have different element types; cast one of them (operands: tile<[B], f32>, tile<[B], "
       "i32>)"},
      {"%a = cat %t, %t {axis = 1}",
       "6: error: cat: axis 1 is outside the rank (operands: tile<[B], f32>, tile<[B], f32>)"},
      {"%a = cat %w, %five {axis = 0}",
       "6: error: cat: the extents beside axis 0 differ (operands: tile<[B, 8], f32>, tile<[1, 1, 1, 1, 1], f32>)"},
      {"%a = slice %w {axis = 1, start = 4, end = 9}",
       "6: error: slice: 4 to 9 is no part of an extent of 8 (operands: tile<[B, 8], f32>)"},
      {"%a = slice %w {axis = 1, start = -1, end = 2}",
       "6: error: slice: -1 to 2 is no part of an extent of 8 (operands: tile<[B, 8], f32>)"},
      {"%a = slice %w {axis = 1, start = 3, end = 3}",
       "6: error: slice: 3 to 3 is no part of an extent of 8 (operands: tile<[B, 8], f32>)"},
      {"%a = slice %w {axis = 2, start = 0, end = 2}",
       "6: error: slice: axis 2 is outside the rank (operands: tile<[B, 8], f32>)"},
      {"%a = gather %t, %t {axis = 0}",
       "6: error: gather: the index must be an int (operands: tile<[B], f32>, tile<[B], f32>)"},
      {"%a = gather %t, %r {axis = -1}",
       "6: error: gather: axis -1 is outside the rank (operands: tile<[B], f32>, tile<[B], i32>)"},
      {"%a = gather %w, %r {axis = 0}",
       "6: error: gather: the extents beside axis 0 differ (operands: tile<[B, 8], f32>, tile<[B], i32>)"},
      // --- elementwise ---
      {"%a = mulhi %f, %f", "6: error: mulhi: takes ints only (operands: f32, f32)"},
      {"%a = div %f, %f {fast = 2}", "25: error: `fast` is 0 or 1, not `2`"},
      {"%a = div %f, %f {fast = %1}", "25: error: `fast` is 0 or 1, not `%1`"},
      {"%a = math %f, %f {fn = exp}", "6: error: math: exp takes 1 operand (operands: f32, f32)"},
      {"%a = math %f {fn = pow}", "6: error: math: pow takes 2 operands (operands: f32)"},
      {"%a = math %f, %h {fn = pow}",
       "6: error: math: operands have different element types; cast one of them (operands: f32, f16)"},
      {"%a = cast %f {to = f16, saturate = 0}", "6: error: cast: saturate = 0 is for casts to f8 only (operands: f32)"},
      {"%a = cast %f {to = f16, rounding = stochastic}",
       "6: error: cast: stochastic rounding takes a tile of random words (operands: f32)"},
      {"%a = cast %f, %i {to = f16}",
       "6: error: cast: stochastic rounding takes a tile of random words (operands: f32, i32)"},
      {"%a = cast %i, %i {to = f16, rounding = stochastic}",
       "6: error: cast: stochastic rounding is from f32 and below to f16, bf16 or f8, not to f16 (operands: i32, i32)"},
      {"%a = cast %f, %i {to = f16, rounding = stochastic}",
       "6: error: cast: the random words must be u32 (operands: f32, i32)"},
      {"%a, %c, %g, %k = philox %i, %i", "18: error: philox: seed and offset must be u64 (operands: i32, i32)"},
      {"%a = inline_asm {text = \"\", constraints = \"\", type = f32}",
       "6: error: inline_asm: takes at least one operand"},
      {"%a = inline_asm %f {text = \"\", constraints = \"\", pack = 17, type = f32}",
       "6: error: inline_asm: pack must be 1 to 16 (operands: f32)"},
      // --- memory ---
      {"%a = atomic_rmw %p, %f, %i {kind = add}",
       "6: error: atomic_rmw: the mask must be i1 (operands: ptr<f32>, f32, i32)"},
      {"%a = atomic_rmw %p, %h {kind = add}",
       "6: error: atomic_rmw: the value must have the pointer's element type f32 (operands: ptr<f32>, f16)"},
      {"%a = atomic_rmw %p, %f {kind = or}",
       "6: error: atomic_rmw: and, or and xor are for ints (operands: ptr<f32>, f32)"},
      {"%a = atomic_rmw %n, %b {kind = xchg}",
       "6: error: atomic_rmw: there are no atomics of i1 (operands: ptr<i1>, i1)"},
      {"%a = atomic_cas %p, %h, %f",
       "6: error: atomic_cas: `expected` must have the pointer's element type f32 (operands: ptr<f32>, f16, f32)"},
      {"%a = atomic_cas %p, %f, %h",
       "6: error: atomic_cas: the value must have the pointer's element type f32 (operands: ptr<f32>, f32, f16)"},
      {"%a = atomic_cas %p, %f, %f, %i",
       "6: error: atomic_cas: the mask must be i1 (operands: ptr<f32>, f32, f32, i32)"},
      {"%a = atomic_cas %f, %f, %f",
       "6: error: atomic_cas: the first operand must be a pointer (operands: f32, f32, f32)"},
      {"%a = descriptor %q, %i {block = [B]}",
       "6: error: descriptor: the base must be a scalar pointer (operands: tile<[B], ptr<f32>>, i32)"},
      {"%a = descriptor %p {block = []}", "6: error: descriptor: a descriptor has rank 1 to 5 (operands: ptr<f32>)"},
      {"%a = descriptor %p, %i, %i {block = [B, 8]}",
       "6: error: descriptor: rank 2 takes 2 extents and 1 strides, not 2 numbers (operands: ptr<f32>, i32, i32)"},
      {"%a = descriptor %p, %f {block = [B]}",
       "6: error: descriptor: extents and strides must be scalar ints (operands: ptr<f32>, f32)"},
      {"%a = descriptor %n, %i {block = [B], fill = nan}",
       "6: error: descriptor: only floats can be filled with nan (operands: ptr<i1>, i32)"},
      {"%a = load_tile %p, %i",
       "6: error: load_tile: the first operand must be a descriptor (operands: ptr<f32>, i32)"},
      {"%a = load_tile %d, %i", "6: error: load_tile: takes 2 offsets, not 1 (operands: descriptor<[B, 8], f32>, i32)"},
      {"%a = load_tile %d, %i, %f",
       "6: error: load_tile: offsets must be scalar ints (operands: descriptor<[B, 8], f32>, i32, f32)"},
      {"store_tile %d, %t, %i, %i",
       "1: error: store_tile: the value must be tile<[B, 8], f32> (operands: descriptor<[B, 8], f32>, tile<[B], f32>, "
       "i32, i32)"},
      {"reduce_tile %d, %w, %i, %i {kind = xor}",
       "1: error: reduce_tile: and, or and xor are for ints (operands: descriptor<[B, 8], f32>, tile<[B, 8], f32>, "
       "i32, "
       "i32)"},
      {"%a = gather_rows %d2, %r, %i",
       "6: error: gather_rows: the descriptor must be of rank 2 with blocks of one row (operands: descriptor<[2, 8], "
       "f32>, tile<[B], i32>, i32)"},
      {"%a = gather_rows %d1, %t, %i",
       "6: error: gather_rows: the rows must be an int tile of rank 1 (operands: descriptor<[1, 8], f32>, tile<[B], "
       "f32>, i32)"},
      {"%a = gather_rows %d1, %r, %f",
       "6: error: gather_rows: the column must be a scalar int (operands: descriptor<[1, 8], f32>, tile<[B], i32>, "
       "f32)"},
      {"%a = add %d, %d",
       "6: error: add: takes no descriptor as operand 0 (operands: descriptor<[B, 8], f32>, descriptor<[B, 8], f32>)"},
      {"store_tile %d, %d, %i, %i",
       "1: error: store_tile: takes no descriptor as operand 1 (operands: descriptor<[B, 8], f32>, descriptor<[B, 8], "
       "f32>, i32, i32)"},
      {"%a = if %b { yield %d }",
       "14: error: yield: takes no descriptor as operand 0 (operands: descriptor<[B, 8], f32>)"},
      // --- tile algebra ---
      {"%a = dot %q, %w, %w",
       "6: error: dot: takes no pointers (operands: tile<[B], ptr<f32>>, tile<[B, 8], f32>, tile<[B, 8], f32>)"},
      {"%a = dot %v, %v, %w {precision = tf32}",
       "6: error: dot: a precision other than ieee is for f32 operands (operands: tile<[8, B], f16>, tile<[8, B], "
       "f16>, "
       "tile<[B, 8], f32>)"},
      {"%a = dot %two, %three, %two",
       "6: error: dot: the batches 2 and 3 differ (operands: tile<[2, 8, 8], f32>, tile<[3, 8, 8], f32>, tile<[2, 8, "
       "8], f32>)"},
      {"%a = dot_scaled %t, %t, %t, %t, %t",
       "6: error: dot_scaled: takes tiles of rank 2 (operands: tile<[B], f32>, tile<[B], f32>, tile<[B], f32>, "
       "tile<[B], f32>, tile<[B], f32>)"},
      {"%a = dot_scaled %w, %w, %w, %w, %w",
       "6: error: dot_scaled: a and b must be f8e4m3, f8e5m2, or u8 that packs two e2m1 (operands: tile<[B, 8], f32>, "
       "tile<[B, 8], f32>, tile<[B, 8], f32>, tile<[B, 8], f32>, tile<[B, 8], f32>)"},
      {"%a = dot_scaled %mxa, %sc, %mxb, %sc, %w",
       "6: error: dot_scaled: the inner extents 32 and 8 differ (operands: tile<[4, 32], f8e4m3>, tile<[4, 1], u8>, "
       "tile<[8, 32], f8e4m3>, tile<[4, 1], u8>, tile<[B, 8], f32>)"},
      {"%a = dot_scaled %mxa, %as, %mxk, %as, %acc",
       "6: error: dot_scaled: a_scale must be u8 with one number per 32 elements along K = 32: [4, K/32] (operands: "
       "tile<[4, 32], f8e4m3>, tile<[2, 1], u8>, tile<[32, 2], f8e4m3>, tile<[2, 1], u8>, tile<[4, 2], f32>)"},
      {"%a = dot_scaled %mxa, %sc, %mxk, %sc, %acc",
       "6: error: dot_scaled: b_scale must be u8 with one number per 32 elements along K = 32: [2, K/32] (operands: "
       "tile<[4, 32], f8e4m3>, tile<[4, 1], u8>, tile<[32, 2], f8e4m3>, tile<[4, 1], u8>, tile<[4, 2], f32>)"},
      {"%a = dot_scaled %mxa, %sc, %mxk, %as, %w",
       "6: error: dot_scaled: the accumulator must be tile<[4, 2], f32> (operands: tile<[4, 32], f8e4m3>, tile<[4, 1], "
       "u8>, tile<[32, 2], f8e4m3>, tile<[2, 1], u8>, tile<[B, 8], f32>)"},
      {"%a = reduce {kind = sum, axis = 0}", "6: error: reduce: takes at least one operand"},
      {"%a = reduce %q {kind = sum, axis = 0}", "6: error: reduce: takes no pointers (operands: tile<[B], ptr<f32>>)"},
      {"%a, %c = reduce %t, %t {kind = sum, axis = 0}",
       "10: error: reduce: only custom takes more than one operand (operands: tile<[B], f32>, tile<[B], f32>)"},
      {"%a = reduce %t {kind = and, axis = 0}",
       "6: error: reduce: and, or and xor are for ints and i1 (operands: tile<[B], f32>)"},
      {"%a = scan %t {kind = argmax, axis = 0}",
       "6: error: scan: argmin and argmax are for reduce (operands: tile<[B], f32>)"},
      {"%a = scan %t {kind = sum, axis = 3}", "6: error: scan: axis 3 is outside the rank (operands: tile<[B], f32>)"},
      {"%a, %c = sort %t, %w {axis = 0}",
       "10: error: sort: operands have different shapes; broadcast one of them (operands: tile<[B], f32>, tile<[B, 8], "
       "f32>)"},
      {"%a = sort %q {axis = 0}", "6: error: sort: takes no pointers (operands: tile<[B], ptr<f32>>)"},
      {"%a, %c = topk %w {k = 9, axis = 1}",
       "10: error: topk: k = 9 is not 1 to the extent 8 (operands: tile<[B, 8], f32>)"},
      {"%a, %c = topk %w {k = 0, axis = 1}",
       "10: error: topk: k = 0 is not 1 to the extent 8 (operands: tile<[B, 8], f32>)"},
      {"%a = histogram %t {bins = 4}", "6: error: histogram: takes a tile of ints (operands: tile<[B], f32>)"},
      {"%a = histogram %r {bins = 0}", "6: error: histogram: an extent of 0 is below 1 (operands: tile<[B], i32>)"},
      // --- control ---
      {"%a = if %i { yield %f } else { yield %f }", "6: error: if: the condition must be a scalar i1 (operands: i32)"},
      {"%a = if %b { yield %f, %f } else { yield %f, %f }", "1: error: if gives 2 results, not 1"},
      {"if %b { %a = neg %f }", "1: error: if: each branch must end with yield"},
      {"%a = if %b : i32 { yield %f } else { yield %f }", "14: error: if gives f32, not i32"},
      {"%a = reduce %t {kind = custom, axis = 0} (%x) { yield %x }",
       "42: error: reduce: this region takes 2 arguments (the left and the right elements), not 1"},
      {"while carry (%x = %i) { yield %b } do (%y) { yield %y }", "1: error: while gives 1 result, not 0"},
      // --- facts ---
      {"assume %r {contiguous = 0}", "1: error: assume: contiguous must be 1 or more (operands: tile<[B], i32>)"},
      {"assume %i {contiguous = 8}", "1: error: assume: contiguous is for tiles (operands: i32)"},
      {"assume %p {low = 0}", "1: error: assume: a range is for ints (operands: ptr<f32>)"},
      {"assume %i {low = 2, high = 1}", "1: error: assume: the range 2 to 1 is empty (operands: i32)"},
      {"assert %i {message = \"\"}", "1: error: assert: the condition must be i1 (operands: i32)"},
      {"print %p {message = \"\"}", "1: error: print: takes no pointers (operands: ptr<f32>)"},
  };
  for (const Rule& rule : rules) {
    const std::string text =
        "kernel k(%p: ptr<f32>, %f: f32, %h: f16, %i: i32, %l: i64, %b: i1, %n: ptr<i1>) { constexpr B = 16\n"
        "%t = splat %f {shape = [B]} %w = splat %f {shape = [B, 8]} %v = splat %h {shape = [8, B]} "
        "%r = arange {start = 0, end = B} %q = splat %p {shape = [B]} %five = splat %f {shape = [1, 1, 1, 1, 1]} "
        "%two = splat %f {shape = [2, 8, 8]} %three = splat %f {shape = [3, 8, 8]} "
        "%d = descriptor %p, %i, %i, %i {block = [B, 8]} %d1 = descriptor %p, %i, %i, %i {block = [1, 8]} "
        "%d2 = descriptor %p, %i, %i, %i {block = [2, 8]} %f8 = cast %f {to = f8e4m3} %u8 = cast %i {to = u8} "
        "%mxa = splat %f8 {shape = [4, 32]} %mxb = splat %f8 {shape = [8, 32]} %sc = splat %u8 {shape = [4, 1]} "
        "%as = splat %u8 {shape = [2, 1]} %mxk = splat %f8 {shape = [32, 2]} %acc = splat %f {shape = [4, 2]}\n" +
        std::string(rule.ops) + " }";
    EXPECT_EQ(first_line(parse(text, "k.kiln")), "k.kiln:3:" + std::string(rule.error)) << rule.ops;
  }
}

// Shapes compare as polynomials: what can be equal passes until instantiation.
TEST(TypeRules, UndecidedExtentsPassUntilInstantiation) {
  const Kernel kernel = parsed(
      "kernel k(%f: f32) {\nconstexpr BM constexpr BN\n"
      "%x = splat %f {shape = [BM]} %y = splat %f {shape = [BN]}\n%z = add %x, %y\n}");
  EXPECT_TRUE(verify(kernel).ok());
  EXPECT_EQ(first_line(parse("kernel k(%f: f32) {\nconstexpr BM %x = splat %f {shape = [BM]} %y = splat %f {shape = "
                             "[BM + 1]}\n%z = add %x, %y }",
                             "k.kiln")),
            "k.kiln:3:6: error: add: operands have different shapes; broadcast one of them (operands: tile<[BM], f32>, "
            "tile<[BM + 1], f32>)");
}

TEST(TypeRules, ArithmeticTakesNoI1) {
  for (const std::string op : {"add %b, %b", "sub %b, %b", "mul %b, %b", "div %b, %b", "rem %b, %b", "mulhi %b, %b",
                               "fma %b, %b, %b", "min %b, %b", "max %b, %b", "neg %b", "abs %b"}) {
    const std::string name = op.substr(0, op.find(' '));
    const std::string takes = name == "mulhi" ? "takes ints only"
                              : name == "fma" ? "takes floats only"
                                              : "takes no i1; cast to an int first";
    EXPECT_TRUE(first_line(parse("kernel k(%b: i1) {\n%a = " + op + " }", "k.kiln"))
                    .starts_with("k.kiln:2:6: error: " + name + ": " + takes))
        << op;
  }
}

TEST(TypeRules, DescriptorsAreNotCarriedChosenOrStored) {
  const std::pair<std::string, std::string> cases[] = {
      {"for %k = %i to %i step %i carry (%a = %d) { yield %a }", "1: error: for: takes no descriptor as operand 3"},
      {"%r = while carry (%a = %d) { yield %b } do (%c) { yield %c }",
       "6: error: while: takes no descriptor as operand 0"},
      {"%a = select %b, %d, %d", "6: error: select: takes no descriptor as operand 1"},
      {"store %p, %d", "1: error: store: takes no descriptor as operand 1"}};
  for (const auto& [op, error] : cases) {
    EXPECT_TRUE(first_line(parse("kernel k(%p: ptr<f32>, %i: i32, %b: i1) {\n%d = descriptor %p, %i {block = [4]}\n" +
                                     op + "\n}",
                                 "k.kiln"))
                    .starts_with("k.kiln:3:" + error))
        << op;
  }
}

}  // namespace
}  // namespace kiln::dsl::testing
