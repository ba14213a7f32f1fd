// Losses in chunks and recurrences along a sequence.
#include "decompose/decompositions.h"
#include "kiln/graph/control.h"
#include "kiln/graph/sequences.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

// The float operands in one type, f32 at least; checked to have so many axes.
std::vector<Tensor> sequence_operands(Call& call, std::initializer_list<const Operand*> operands,
                                      std::initializer_list<int> ranks) {
  std::vector<Tensor> out = call.promoted(operands, true);
  size_t next = 0;
  for (const int rank : ranks) {
    if (!call.ok()) return {};
    const Tensor& each = out[next++];
    if (Trace::is_absent(each) || call.rank(each) == rank) continue;
    call.fail(call.text(each) + " has " + std::to_string(call.rank(each)) + " axes, not " + std::to_string(rank));
  }
  if (!call.ok()) return {};
  for (Tensor& each : out) {
    if (!Trace::is_absent(each)) each = widened(each);
  }
  return out;
}

// With zeros behind along an axis, up to a multiple of the chunk.
Tensor whole_chunks(const Tensor& x, int axis, int64_t chunk, Operand value = 0) {
  const Dim length = x.extent(axis);
  Shape none(static_cast<size_t>(x.rank()), 0), more = none;
  more[static_cast<size_t>(axis)] = cdiv(length, chunk) * chunk - length;
  return pad(x, none, more, std::move(value));
}

// [B, H, L, …] as chunks of places in front: [L/chunk, B, H, chunk, …].
Tensor chunks_first(const Tensor& x, int64_t chunk) {
  const Tensor all = whole_chunks(x, 2, chunk);
  Shape shape = x.shape();
  shape[2] = cdiv(x.extent(2), chunk);
  shape.insert(shape.begin() + 3, chunk);
  Axes order = {2, 0, 1, 3};
  for (int axis = 4; axis < static_cast<int>(shape.size()); ++axis) order.push_back(axis);
  return permute(reshape(all, shape), order);
}

Tensor places_first(const Tensor& x) { return transpose(x, 0, 1); }

}  // namespace

// The loop's gradient computes each pass again, so that neither way keeps logits.
Tensor linear_cross_entropy(Operand x, Operand w, Operand targets, int64_t chunk, int64_t ignore) {
  Call call("linear_cross_entropy", x);
  const std::vector<Tensor> operands = call.promoted({&x, &w}, true);
  const Tensor classes = call.tensor(targets);
  if (call.ok() && (call.rank(operands[0]) != 2 || call.rank(operands[1]) != 2 || call.rank(classes) != 1)) {
    call.fail(call.text(operands[0]) + ", " + call.text(operands[1]) + " and " + call.text(classes) +
              " are not [T, D], [V, D] and [T]");
  }
  if (call.ok() && chunk < 1) call.fail("a chunk of " + std::to_string(chunk));
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Tensor rows = operands[0], weights = operands[1];
  const Dim passes = cdiv(rows.extent(0), chunk);
  const ElementType work = widened(rows).element();
  const Tensor parts = reshape(whole_chunks(rows, 0, chunk), {passes, chunk, rows.extent(1)});
  const Tensor labels = reshape(whole_chunks(cast(classes, i64), 0, chunk, ignore), {passes, chunk});
  const LoopStep done = loop(passes, {zeros(work, {})}, {parts, labels}, [&](Tensors carried, Tensors at) {
    const Tensor logits = dot(at[0], weights, {.contract_a = {1}, .contract_b = {1}}, work);
    return LoopStep{{carried[0] + cross_entropy(logits, at[1], LossReduction::kSum, ignore)}, {}};
  });
  const Tensor count = sum(cast(classes != ignore, work));
  return cast(done.carried[0] / max(count, 1), rows.element());
}

Scanned selective_scan(Operand u, Operand rate, Operand a, Operand b, Operand c, Operand skip, Operand state) {
  Call call("selective_scan", u);
  const std::vector<Tensor> x = sequence_operands(call, {&u, &rate, &a, &b, &c, &skip, &state}, {3, 3, 2, 3, 3, 1, 3});
  if (!call.ok()) return {};
  const Trace::LineScope line(u.loc());
  const Dim batch = x[0].extent(0), length = x[0].extent(1), width = x[0].extent(2), states = x[2].extent(1);
  const Tensor first = state.present() ? x[6] : zeros(x[0].element(), {batch, width, states});
  const LoopStep done =
      loop(length, {first}, {places_first(x[0]), places_first(x[1]), places_first(x[3]), places_first(x[4])},
           [&](Tensors carried, Tensors at) {
             const Tensor step = expand_dims(at[1], 2);
             const Tensor input = expand_dims(at[1] * at[0], 2) * expand_dims(at[2], 1);
             const Tensor next = exp(step * x[2]) * carried[0] + input;
             return LoopStep{{next}, {sum(next * expand_dims(at[3], 1), {-1})}};
           });
  Tensor y = places_first(done.stacked[0]);
  if (skip.present()) y = y + x[0] * x[5];
  return {cast(y, u.is_tensor() ? u.tensor().element() : y.element()), done.carried[0]};
}

// A chunk sees itself by a product of [chunk, chunk], and what came before by the state Σ k·vᵀ. All exponents are sums
// of decays from an earlier to a later place, 0 or less.
Tensor linear_attention(Operand q, Operand k, Operand v, Operand log_decay, int64_t chunk) {
  Call call("linear_attention", q);
  const std::vector<Tensor> x = sequence_operands(call, {&q, &k, &v, &log_decay}, {4, 4, 4, 3});
  if (call.ok() && chunk < 1) call.fail("a chunk of " + std::to_string(chunk));
  if (!call.ok()) return {};
  const Trace::LineScope line(q.loc());
  const ElementType work = x[0].element();
  const Dim b = x[0].extent(0), h = x[0].extent(1), length = x[0].extent(2), d = x[0].extent(3), e = x[2].extent(3);
  const Dim passes = cdiv(length, chunk);
  Tensors scanned = {chunks_first(x[0], chunk), chunks_first(x[1], chunk), chunks_first(x[2], chunk)};
  const bool decays = log_decay.present();
  if (decays) scanned.push_back(cumsum(chunks_first(x[3], chunk), -1));
  const Tensor seen = iota(i64, {chunk, chunk}, 0) >= iota(i64, {chunk, chunk}, 1);
  const LoopStep done = loop(passes, {zeros(work, {b, h, d, e})}, scanned, [&](Tensors carried, Tensors at) {
    Tensor weights = dot(at[0], at[1], {{0, 1}, {0, 1}, {3}, {3}}, work), queries = at[0], keys = at[1];
    Tensor kept = carried[0];
    if (decays) {
      const Tensor sums = at[3], last = slice(sums, 2, chunk - 1, chunk);
      weights = weights * exp(where(seen, expand_dims(sums, 3) - expand_dims(sums, 2), 0.0));
      queries = queries * expand_dims(exp(sums), 3);
      keys = keys * expand_dims(exp(last - sums), 3);
      kept = kept * expand_dims(exp(last), 3);
    }
    const Tensor inside = dot(where(seen, weights, 0.0), at[2], {{0, 1}, {0, 1}, {3}, {2}}, work);
    const Tensor before = dot(queries, carried[0], {{0, 1}, {0, 1}, {3}, {2}}, work);
    return LoopStep{{kept + dot(keys, at[2], {{0, 1}, {0, 1}, {2}, {2}}, work)}, {inside + before}};
  });
  const Tensor y = reshape(permute(done.stacked[0], {1, 2, 0, 3, 4}), {b, h, passes * chunk, e});
  return cast(slice(y, 2, 0, length), q.is_tensor() ? q.tensor().element() : work);
}

// The sums of weights and of weighted values, both times e^-most, where `most` is the greatest exponent so far.
Tensor wkv(Operand k, Operand v, Operand decay, Operand bonus) {
  Call call("wkv", k);
  const std::vector<Tensor> x = sequence_operands(call, {&k, &v, &decay, &bonus}, {3, 3, 1, 1});
  if (!call.ok()) return {};
  const Trace::LineScope line(k.loc());
  const Shape state = {x[0].extent(0), x[0].extent(2)};
  const ElementType work = x[0].element();
  const Tensor least = full(state, -1e30, work);
  const LoopStep done = loop(x[0].extent(1), {zeros(work, state), zeros(work, state), least},
                             {places_first(x[0]), places_first(x[1])}, [&](Tensors carried, Tensors at) {
                               const Tensor values = carried[0], weights = carried[1], most = carried[2];
                               const Tensor key = at[0], value = at[1];
                               const Tensor top = stop_gradient(max(most, key + x[3]));
                               const Tensor old = exp(most - top), now = exp(key + x[3] - top);
                               const Tensor y = (old * values + now * value) / (old * weights + now);
                               const Tensor next = stop_gradient(max(most - x[2], key));
                               const Tensor kept = exp(most - x[2] - next), added = exp(key - next);
                               return LoopStep{{kept * values + added * value, kept * weights + added, next}, {y}};
                             });
  return cast(places_first(done.stacked[0]), k.is_tensor() ? k.tensor().element() : work);
}

}  // namespace kiln::graph
