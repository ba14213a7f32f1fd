// Which token comes next: sampling and beams.
#include <cmath>

#include "decompose/decompositions.h"
#include "kiln/graph/sequences.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

// Rows of logits in f32, or f64; checked with the choice.
Tensor logits_of(Call& call, const Operand& logits, const SampleChoice& choice) {
  const Tensor from = call.float_tensor(logits);
  if (call.ok() && call.rank(from) < 1) call.fail("logits are " + call.text(from) + ", not rows");
  if (call.ok() && !(choice.temperature >= 0)) call.fail("the temperature is below 0");
  if (call.ok() && choice.top_k < 0) call.fail("top_k is below 0");
  if (call.ok() && !(choice.top_p > 0)) call.fail("top_p is not above 0");
  return call.ok() ? from : Tensor();
}

}  // namespace

Tensor filter_logits(Operand logits, SampleChoice choice) {
  Call call("filter_logits", logits);
  const Tensor from = logits_of(call, logits, choice);
  if (call.ok() && choice.temperature == 0) call.fail("the temperature is 0");
  if (!call.ok()) return {};
  const Trace::LineScope line(logits.loc());
  const Tensor scaled = widened(from) / choice.temperature;
  if (choice.top_k == 0 && choice.top_p >= 1) return scaled;
  const auto [values, indices] = sort(scaled, -1, true);
  Tensor kept = values;
  if (choice.top_k > 0) kept = where(iota(i64, kept.shape(), -1) < choice.top_k, kept, -INFINITY);
  if (choice.top_p < 1) {
    const Tensor before = scan(softmax(kept), ReduceKind::kSum, -1, false, true);
    kept = where(before < choice.top_p, kept, -INFINITY);
  }
  return scatter(full(kept.shape(), -INFINITY, kept.element()), indices, kept, -1);
}

Tensor sample(Operand logits, Operand seed, Operand offset, SampleChoice choice) {
  Call call("sample", logits);
  const Tensor from = logits_of(call, logits, choice);
  if (!call.ok()) return {};
  const Trace::LineScope line(logits.loc());
  if (choice.temperature == 0) return argmax(from, -1);
  const Tensor kept = cast(filter_logits(from, choice), f32);
  const Tensor u = max(uniform(seed, offset, kept.shape()), 0x1p-25);
  return argmax(kept - log(-log(u)), -1);
}

BeamStep beam_step(Operand log_probs, Operand scores, Operand finished, int64_t end) {
  Call call("beam_step", log_probs);
  const std::vector<Tensor> operands = call.promoted({&log_probs, &scores}, true);
  const Tensor done = call.optional(finished, i1);
  if (call.ok() && (call.rank(operands[0]) != 3 || call.rank(operands[1]) != 2)) {
    call.fail(call.text(operands[0]) + " and scores " + call.text(operands[1]) + " are not [B, K, V] and [B, K]");
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(log_probs.loc());
  const Tensor steps = operands[0], so_far = expand_dims(operands[1], 2);
  const Dim batch = steps.extent(0), beams = steps.extent(1), words = steps.extent(2);
  Tensor sums = so_far + steps;
  if (finished.present()) {
    const Tensor ended = where(iota(i64, sums.shape(), 2) == end, so_far, -INFINITY);
    sums = where(expand_dims(done, 2), ended, sums);
  }
  const auto [best, places] = topk(reshape(sums, {batch, beams * words}), beams, 1);
  return {best, places / words, places % words};
}

}  // namespace kiln::graph
