// Attention: products, scale, mask, softmax, products; over heads in groups, and over pages.
#include <cmath>

#include "decompose/decompositions.h"

namespace kiln::graph {
namespace {

// Scores are [B, H, M, N], or [B, G, R, M, N] where each of G heads of k and v serves R heads of q.
struct Heads {
  Dim groups, each;
  bool grouped;
};

Heads heads_of(const Tensor& q, const Tensor& k) {
  const Dim heads = q.extent(1), groups = k.extent(1);
  if (always_equal(heads, groups)) return {groups, 1, false};
  return {groups, exact_part(heads, groups), true};
}

// [B, H, M, D] as [B, G, R, M, D]; of a mask, H may be 1 and axes in front may be missing.
Tensor by_group(const Tensor& x, const Heads& heads) {
  if (!heads.grouped || x.rank() < 3) return x;
  Shape shape = x.shape();
  const auto axis = shape.end() - 3;
  const bool is_one = axis->expr() == Expr(1);
  *axis = is_one ? Dim(1) : heads.groups;
  shape.insert(axis + 1, is_one ? Dim(1) : heads.each);
  return reshape(x, shape);
}

// scores·scale. The default of a width that is not known is computed as the graph runs.
Tensor scaled(const Tensor& scores, double scale, const Dim& width) {
  const auto known = width.expr().as_constant();
  if (scale == 0 && !known) return scores * rsqrt(extent(width, scores.element()));
  return scores * filled(scores, scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(*known)));
}

// i1 [M, N]: what place m of q, which stands at place m + N - M of k, sees. Invalid: all.
Tensor visible(const Composite& c) {
  const bool causal = c.flag(0);
  const int64_t window = c.integer(1);
  if (!causal && window == 0) return {};
  const Dim m = c[0].extent(2), n = c[1].extent(2);
  const Tensor row = iota(i64, {m, n}, 0) + extent(n - m), column = iota(i64, {m, n}, 1);
  if (window == 0) return column <= row;
  const Tensor inside = column > row - window;
  return causal ? inside & (column <= row) : inside;
}

// Softmax along the last axis, where -inf is what is not seen; 0 where nothing is.
Tensor softmax_of_seen(const Tensor& scores) {
  const Tensor most = stop_gradient(reduce_max(scores, {-1}, true));
  const Tensor raised = exp(scores - where(most == -INFINITY, 0.0, most));
  const Tensor total = sum(raised, {-1}, true);
  return raised / where(total == 0.0, 1.0, total);
}

}  // namespace

KILN_DECOMPOSITION(attention) {
  const Tensor &q = c[0], &k = c[1], &v = c[2];
  const Heads heads = heads_of(q, k);
  const int axes = heads.grouped ? 5 : 4;
  const ElementType work = widened(q).element();
  const Tensor products = dot(by_group(q, heads), k, {{0, 1}, {0, 1}, {axes - 1}, {3}}, work);
  Tensor scores = scaled(products, c.number(2), q.extent(3));
  if (c.has(3)) {
    const Tensor mask = by_group(c[3], heads);
    scores = mask.element() == i1 ? where(mask, scores, -INFINITY) : scores + cast(mask, work);
  }
  if (const Tensor seen = visible(c); seen.valid()) scores = where(seen, scores, -INFINITY);
  // Without a mask each row sees something, but for causal rows in front of the first place of k.
  const bool sees = !c.has(3) && (!c.flag(0) || always_at_most(q.extent(2), k.extent(2)));
  const Tensor weights = sees ? softmax(scores, -1) : softmax_of_seen(scores);
  const Tensor y = dot(weights, cast(v, work), {{0, 1}, {0, 1}, {axes - 1}, {2}}, work);
  return {cast(heads.grouped ? reshape(y, {q.extent(0), q.extent(1), q.extent(2), v.extent(3)}) : y, q.element())};
}

// What lies in pages behind a sequence's length, or is said of pages that it does not have, may be anything.
KILN_DECOMPOSITION(paged_attention) {
  const Tensor &q = c[0], &k_pages = c[1], &v_pages = c[2], &table = c[3];
  const Dim batch = q.extent(0), pages = table.extent(1), page = k_pages.extent(2);
  const Tensor lengths = reshape(cast(c[4], i64), {batch, 1});
  const Tensor numbers = where(iota(i64, {1, pages}, 1) * page < lengths, table, 0);
  // [P, G, S, D] by [B, pages] is [B, pages, G, S, D]; the places of a sequence then stand in a row.
  const auto gathered = [&](const Tensor& from) {
    const Tensor parts = permute(index(from, {numbers}, {0}), {0, 2, 1, 3, 4});
    return reshape(parts, {batch, from.extent(1), pages * page, from.extent(3)});
  };
  const Tensor seen = iota(i64, {1, pages * page}, 1) < lengths;
  const Tensor v = where(reshape(seen, {batch, 1, pages * page, 1}), gathered(v_pages), 0.0);
  const Tensor mask = reshape(seen, {batch, 1, 1, pages * page});
  return {squeeze(attention(expand_dims(q, 2), gathered(k_pages), v, {.scale = c.number(0)}, mask), {2})};
}

}  // namespace kiln::graph
