// Adam, AdamW and Lamb over many tensors in one launch; see kernels/optimisers.h. Factors of a step are computed in
// f64.
#pragma once

#include "kiln/dsl/kernels/optimisers.h"

namespace kiln::dsl::lang::kernels {

// The moments of a chunk, and the direction they say, without the bias of their start.
class AdamMoments {
 public:
  AdamMoments(const Tile& m, const Tile& v, const Value& beta1, const Value& beta2, const Value& eps, const Value& step)
      : first_(m), second_(v), eps_(cast(eps, f32_t)) {
    const Value steps = cast(step, f64_t);
    start_ = cast(1 / (1 - pow(beta1, steps)), f32_t);
    root_ = cast(1 / sqrt(1 - pow(beta2, steps)), f32_t);
    keep_ = {cast(beta1, f32_t), cast(beta2, f32_t)};
    add_ = {cast(1 - beta1, f32_t), cast(1 - beta2, f32_t)};
  }

  // m = beta1·m + (1-beta1)·gradient, v = beta2·v + (1-beta2)·gradient², and their direction.
  Value moved(const Value& at, const Const& block, const Value& gradient) const {
    const Value mean = first_.load({at}, {block}) * keep_[0] + gradient * add_[0];
    const Value square = second_.load({at}, {block}) * keep_[1] + gradient * gradient * add_[1];
    first_.store({at}, mean);
    second_.store({at}, square);
    return direction(mean, square);
  }
  Value kept(const Value& at, const Const& block) const {
    return direction(first_.load({at}, {block}), second_.load({at}, {block}));
  }

 private:
  Value direction(const Value& mean, const Value& square) const {
    return mean * start_ / (sqrt(square) * root_ + eps_);
  }

  Tile first_, second_;
  Value eps_, start_, root_;
  std::array<Value, 2> keep_, add_;
};

template <class T, class G, class... Low>
auto adam_of(std::string_view name, Names names, bool decoupled) {
  return kernel(name, names,
                [decoupled](Ptr<T> p, Low... low, Ptr<const G> g, Ptr<f32> m, Ptr<f32> v, Ptr<const i64> tensors,
                            Ptr<const i32> chunks, Ptr<const f32> factor, i32 count, i32 chunk, f64 lr, f64 beta1,
                            f64 beta2, f64 eps, f64 weight_decay, i32 step, Const BLOCK, Const ALIGN) {
                  grid(count);
                  const ManyStep<T, Low...> many(tensors, chunks, chunk, factor, 2, ALIGN);
                  const Tile first = many.state(m, 0), second = many.state(v, 1);
                  const AdamMoments moments(first, second, beta1, beta2, eps, step);
                  const Value rate = cast(lr, f32_t), decay = cast(weight_decay, f32_t);
                  const Value stay = cast(1 - lr * weight_decay, f32_t);
                  many.run(BLOCK, p, low..., g, [&](const Value& at, const Value& weights, const Value& gradient) {
                    if (decoupled) return weights * stay - moments.moved(at, BLOCK, gradient) * rate;
                    return weights - moments.moved(at, BLOCK, gradient + weights * decay) * rate;
                  });
                });
}

// With d = g·factor + weight_decay·p; `step` counts from 1:
//   m = beta1·m + (1-beta1)·d,   v = beta2·v + (1-beta2)·d²
//   p = p - lr · m/(1 - beta1^step) / (sqrt(v/(1 - beta2^step)) + eps)
template <class T = f32, class G = T>
const auto& adam_many() {
  static const Kept def =
      step_hints(adam_of<T, G>("adam_many",
                               {"p", "g", "m", "v", "tensors", "chunks", "factor", "count", "chunk", "lr", "beta1",
                                "beta2", "eps", "weight_decay", "step", "BLOCK=4096", "ALIGN=1"},
                               false),
                 {"p", "g", "m", "v"});
  return *def;
}
template <class G = bf16>
const auto& adam_split_many() {
  static const Kept def = step_hints(
      adam_of<bf16, G, Ptr<u16>>("adam_split_many",
                                 {"p", "low", "g", "m", "v", "tensors", "chunks", "factor", "count", "chunk", "lr",
                                  "beta1", "beta2", "eps", "weight_decay", "step", "BLOCK=4096", "ALIGN=1"},
                                 false),
      {"p", "low", "g", "m", "v"});
  return *def;
}

// The same with d = g·factor and p·(1 - lr·weight_decay) in place of p.
template <class T = f32, class G = T>
const auto& adamw_many() {
  static const Kept def =
      step_hints(adam_of<T, G>("adamw_many",
                               {"p", "g", "m", "v", "tensors", "chunks", "factor", "count", "chunk", "lr", "beta1",
                                "beta2", "eps", "weight_decay", "step", "BLOCK=4096", "ALIGN=1"},
                               true),
                 {"p", "g", "m", "v"});
  return *def;
}
template <class G = bf16>
const auto& adamw_split_many() {
  static const Kept def = step_hints(
      adam_of<bf16, G, Ptr<u16>>("adamw_split_many",
                                 {"p", "low", "g", "m", "v", "tensors", "chunks", "factor", "count", "chunk", "lr",
                                  "beta1", "beta2", "eps", "weight_decay", "step", "BLOCK=4096", "ALIGN=1"},
                                 true),
      {"p", "low", "g", "m", "v"});
  return *def;
}

// --- Lamb, in three launches: lamb_moments, lamb_trust, lamb_many; a table of p, g, m, v for the first, of p, m, v for
// the last ---
// You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes (arXiv 1904.00962).

template <class T, class G, class... Low>
auto lamb_moments_of(std::string_view name, Names names) {
  return kernel(name, names,
                [](Ptr<const T> p, Low... low, Ptr<const G> g, Ptr<f32> m, Ptr<f32> v, Ptr<const i64> tensors,
                   Ptr<const i32> chunks, Ptr<const f32> factor, Ptr<f32> sums, i32 count, i32 chunk, f64 beta1,
                   f64 beta2, f64 eps, f64 weight_decay, i32 step, Const BLOCK, Const ALIGN) {
                  grid(count);
                  constexpr int kGradients = 1 + sizeof...(Low);
                  TensorChunk mine(tensors, chunks, chunk, kGradients + 3, ALIGN);
                  mine.obey(factor);
                  const ChunkWeights weights(mine, p, low...);
                  const Tile gradients = mine.of(g, kGradients);
                  const Tile first = mine.of(m, kGradients + 1), second = mine.of(v, kGradients + 2);
                  const AdamMoments moments(first, second, beta1, beta2, eps, step);
                  const Value scale = load(factor), decay = cast(weight_decay, f32_t);
                  Var of_weights = zeros(f32_t, {BLOCK}), of_moves = zeros(f32_t, {BLOCK});
                  for (Value at : range(0, mine.left(), BLOCK)) {
                    const Value weight = weights.load(at, BLOCK);
                    const Value gradient = load_f32(gradients, {at}, {BLOCK}) * scale;
                    const Value move = moments.moved(at, BLOCK, gradient) + weight * decay;
                    of_weights += weight * weight;
                    // With eps = 0 the lanes behind the end are NaN.
                    of_moves += where(at + arange(0, BLOCK) < mine.left(), move * move, 0);
                  }
                  store(sums + program_id(0), sum(of_weights, 0));
                  store(sums + count + program_id(0), sum(of_moves, 0));
                });
}

// The moments of Adam with d = g·factor. With u = m/(1 - beta1^step) / (sqrt(v/(1 - beta2^step)) + eps) +
// weight_decay·p, sums [2, count] are those of p² and of u² over each chunk.
template <class T = f32, class G = T>
const auto& lamb_moments() {
  static const Kept def =
      step_hints(lamb_moments_of<T, G>("lamb_moments",
                                       {"p", "g", "m", "v", "tensors", "chunks", "factor", "sums", "count", "chunk",
                                        "beta1", "beta2", "eps", "weight_decay", "step", "BLOCK=4096", "ALIGN=1"}),
                 {"p", "g", "m", "v"})
          .array("sums", "2*count");
  return *def;
}
template <class G = bf16>
const auto& lamb_split_moments() {
  static const Kept def =
      step_hints(
          lamb_moments_of<bf16, G, Ptr<const u16>>(
              "lamb_split_moments", {"p", "low", "g", "m", "v", "tensors", "chunks", "factor", "sums", "count", "chunk",
                                     "beta1", "beta2", "eps", "weight_decay", "step", "BLOCK=4096", "ALIGN=1"}),
          {"p", "low", "g", "m", "v"})
          .array("sums", "2*count");
  return *def;
}

// trust[t] = ‖p‖/‖u‖ of tensor t, 1 where either is 0. `firsts` [tensors + 1] says which chunks a tensor has, `count`
// is that of all.
inline const auto& lamb_trust() {
  static const Kept def =
      kernel("lamb_trust", {"sums", "firsts", "trust", "tensors", "count", "BLOCK=256"},
             [](Ptr<const f32> sums, Ptr<const i32> firsts, Ptr<f32> trust, i32 tensors, i32 count, Const BLOCK) {
               grid(tensors);
               const Value first = load(firsts + program_id(0)), end = load(firsts + program_id(0) + 1);
               const auto norm = [&](const Value& from) {
                 Var squares = zeros(f64_t, {BLOCK});
                 for (Value at : range(first, end, BLOCK)) {
                   squares += cast(tile(from, {end}).load({at}, {BLOCK}), f64_t);
                 }
                 return cast(sqrt(sum(squares, 0)), f32_t);
               };
               const Value of_weights = norm(sums), of_moves = norm(sums + count);
               const Value either = (of_weights == 0) | (of_moves == 0);
               store(trust + program_id(0), where(either, 1, of_weights / where(either, 1, of_moves)));
             })
          .space({{"BLOCK", {64, 256, 1024}}})
          .array("sums", "2*count", "0", "1")
          .array("firsts", "tensors + 1", "0", "1")
          .array("trust", "tensors");
  return *def;
}

template <class T, class... Low>
auto lamb_of(std::string_view name, Names names) {
  return kernel(name, names,
                [](Ptr<T> p, Low... low, Ptr<const f32> m, Ptr<const f32> v, Ptr<const i64> tensors,
                   Ptr<const i32> chunks, Ptr<const f32> factor, Ptr<const f32> trust, i32 count, i32 chunk, f64 lr,
                   f64 beta1, f64 beta2, f64 eps, f64 weight_decay, i32 step, Const BLOCK, Const ALIGN) {
                  grid(count);
                  constexpr int kMoments = 1 + sizeof...(Low);
                  TensorChunk mine(tensors, chunks, chunk, kMoments + 2, ALIGN);
                  mine.obey(factor);
                  const ChunkWeights weights(mine, p, low...);
                  const Tile first = mine.of(m, kMoments), second = mine.of(v, kMoments + 1);
                  const AdamMoments moments(first, second, beta1, beta2, eps, step);
                  const Value rate = load(trust + mine.tensor()) * cast(lr, f32_t), decay = cast(weight_decay, f32_t);
                  for (Value at : range(0, mine.left(), BLOCK)) {
                    const Value weight = weights.load(at, BLOCK);
                    const Value move = moments.kept(at, BLOCK) + weight * decay;
                    weights.store(at, weight - move * rate, element_v<T>);
                  }
                });
}

// p = p - lr·trust·u, u as of lamb_moments.
template <class T = f32>
const auto& lamb_many() {
  static const Kept def =
      step_hints(lamb_of<T>("lamb_many", {"p", "m", "v", "tensors", "chunks", "factor", "trust", "count", "chunk", "lr",
                                          "beta1", "beta2", "eps", "weight_decay", "step", "BLOCK=4096", "ALIGN=1"}),
                 {"p", "m", "v"})
          .array("trust", "1");
  return *def;
}
inline const auto& lamb_split_many() {
  static const Kept def =
      step_hints(lamb_of<bf16, Ptr<u16>>("lamb_split_many", {"p", "low", "m", "v", "tensors", "chunks", "factor",
                                                             "trust", "count", "chunk", "lr", "beta1", "beta2", "eps",
                                                             "weight_decay", "step", "BLOCK=4096", "ALIGN=1"}),
                 {"p", "low", "m", "v"})
          .array("trust", "1");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
