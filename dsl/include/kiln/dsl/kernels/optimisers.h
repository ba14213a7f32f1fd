// Steps of optimisers over many tensors in one launch (kernels/many.h), in place on weights and states.
//
// p are the weights, g the gradients of type G; states are f32, and all is computed in f32 but factors of a whole step,
// which are f64. Arrays of the table stand in the order of the parameters. What is `…_split_many` keeps f32 weights as
// two arrays: p, their upper halves, are the bf16 that a model uses, `low` their lower halves. It computes bit for bit
// what the kernel of f32 weights does.
#pragma once

#include <optional>
#include <string>

#include "kiln/dsl/kernels/many.h"

namespace kiln::dsl::lang::kernels {

// The f32 weights of a chunk, in one array or two.
class ChunkWeights {
 public:
  ChunkWeights(const TensorChunk& chunk, const Value& p) : upper_(chunk.of(p, 0)) {}
  ChunkWeights(const TensorChunk& chunk, const Value& p, const Value& low)
      : upper_(chunk.of(p, 0)), lower_(chunk.of(low, 1)) {}

  Value load(const Value& at, const Const& block) const {
    const Value v = upper_.load({at}, {block});
    if (!lower_) return cast(v, f32_t);
    const Value high = cast(bitcast(v, u16_t), u32_t) << 16;
    return bitcast(high | cast(lower_->load({at}, {block}), u32_t), f32_t);
  }
  void store(const Value& at, const Value& next, ElementType type) const {
    if (!lower_) return upper_.store({at}, cast(next, type));
    const Value bits = bitcast(next, u32_t);
    upper_.store({at}, bitcast(cast(bits >> 16, u16_t), type));
    lower_->store({at}, cast(bits, u16_t));
  }

 private:
  Tile upper_;
  std::optional<Tile> lower_;
};

// Runs `step(at, weights, gradients)`, which gives the next weights, on each block of this program's chunk, where
// `factor` lets it.
template <class T, class... Low>
class ManyStep {
 public:
  static constexpr int kGradients = 1 + sizeof...(Low), kStates = kGradients + 1;

  ManyStep(const Value& tensors, const Value& chunks, const Value& chunk, const Value& factor, int states,
           const Const& align)
      : chunk_(tensors, chunks, chunk, kStates + states, align), scale_(lang::load(factor)) {
    chunk_.obey(factor);
  }

  // State `number`, of which there are as many as the constructor was told.
  Tile state(const Value& base, int number) const { return chunk_.of(base, kStates + number); }
  const TensorChunk& chunk() const { return chunk_; }

  template <class Step>
  void run(const Const& block, const Value& p, const Low&... low, const Value& g, Step step) const {
    const ChunkWeights weights(chunk_, p, low...);
    const Tile gradients = chunk_.of(g, kGradients);
    for (Value at : range(0, chunk_.left(), block)) {
      const Value gradient = load_f32(gradients, {at}, {block}) * scale_;
      weights.store(at, step(at, weights.load(at, block), gradient), element_v<T>);
    }
  }

 private:
  TensorChunk chunk_;
  Value scale_;
};

// What a table of one tensor has, for the tuner: `arrays` pointers beside it.
template <class Def>
Def step_hints(Def def, std::initializer_list<const char*> arrays) {
  Def out = many_hints(std::move(def))
                .array("tensors", std::to_string(1 + arrays.size()), "chunk", "chunk + 1")
                .array("factor", "2", "1", "2");
  for (const char* name : arrays) out = std::move(out).array(name, "2*chunk", "0", "1");
  return out;
}

using Names = std::initializer_list<std::string_view>;

// --- SGD ---

template <class T, class G, class... Low>
auto sgd_of(std::string_view name, Names names) {
  return kernel(name, names,
                [](Ptr<T> p, Low... low, Ptr<const G> g, Ptr<f32> m, Ptr<const i64> tensors, Ptr<const i32> chunks,
                   Ptr<const f32> factor, i32 count, i32 chunk, f64 lr, f64 momentum, f64 dampening, f64 weight_decay,
                   Const MOMENTUM, Const NESTEROV, Const BLOCK, Const ALIGN) {
                  grid(count);
                  const ManyStep<T, Low...> many(tensors, chunks, chunk, factor, 1, ALIGN);
                  const Tile buffer = many.state(m, 0);
                  const Value rate = cast(lr, f32_t), keep = cast(momentum, f32_t), add = cast(1 - dampening, f32_t);
                  const Value decay = cast(weight_decay, f32_t);
                  many.run(BLOCK, p, low..., g, [&](const Value& at, const Value& weights, const Value& gradient) {
                    const Value slope = gradient + weights * decay;
                    const auto by_momentum = [&] {
                      const Value moved = buffer.load({at}, {BLOCK}) * keep + slope * add;
                      buffer.store({at}, moved);
                      return if_(NESTEROV == 1, [&] { return slope + moved * keep; }, [&] { return moved; });
                    };
                    return weights - if_(MOMENTUM == 1, by_momentum, [&] { return slope; }) * rate;
                  });
                });
}

// With d = g·factor + weight_decay·p:
//   m = momentum·m + (1 - dampening)·d,   p = p - lr·m,   NESTEROV=1: p = p - lr·(d + momentum·m)
// m begins as zeros. MOMENTUM=0: p = p - lr·d, and m is not touched.
template <class T = f32, class G = T>
const auto& sgd_many() {
  static const Kept def = step_hints(
      sgd_of<T, G>("sgd_many", {"p", "g", "m", "tensors", "chunks", "factor", "count", "chunk", "lr", "momentum",
                                "dampening", "weight_decay", "MOMENTUM=1", "NESTEROV=0", "BLOCK=4096", "ALIGN=1"}),
      {"p", "g", "m"});
  return *def;
}
template <class G = bf16>
const auto& sgd_split_many() {
  static const Kept def = step_hints(
      sgd_of<bf16, G, Ptr<u16>>(
          "sgd_split_many", {"p", "low", "g", "m", "tensors", "chunks", "factor", "count", "chunk", "lr", "momentum",
                             "dampening", "weight_decay", "MOMENTUM=1", "NESTEROV=0", "BLOCK=4096", "ALIGN=1"}),
      {"p", "low", "g", "m"});
  return *def;
}

// --- Adagrad ---

template <class T, class G, class... Low>
auto adagrad_of(std::string_view name, Names names) {
  return kernel(
      name, names,
      [](Ptr<T> p, Low... low, Ptr<const G> g, Ptr<f32> sums, Ptr<const i64> tensors, Ptr<const i32> chunks,
         Ptr<const f32> factor, i32 count, i32 chunk, f64 lr, f64 eps, f64 weight_decay, Const BLOCK, Const ALIGN) {
        grid(count);
        const ManyStep<T, Low...> many(tensors, chunks, chunk, factor, 1, ALIGN);
        const Tile squares = many.state(sums, 0);
        const Value rate = cast(lr, f32_t), above = cast(eps, f32_t), decay = cast(weight_decay, f32_t);
        many.run(BLOCK, p, low..., g, [&](const Value& at, const Value& weights, const Value& gradient) {
          const Value slope = gradient + weights * decay;
          const Value square = squares.load({at}, {BLOCK}) + slope * slope;
          squares.store({at}, square);
          return weights - slope / (sqrt(square) + above) * rate;
        });
      });
}

// With d = g·factor + weight_decay·p:   sums = sums + d²,   p = p - lr·d/(sqrt(sums) + eps)
template <class T = f32, class G = T>
const auto& adagrad_many() {
  static const Kept def =
      step_hints(adagrad_of<T, G>("adagrad_many", {"p", "g", "sums", "tensors", "chunks", "factor", "count", "chunk",
                                                   "lr", "eps", "weight_decay", "BLOCK=4096", "ALIGN=1"}),
                 {"p", "g", "sums"});
  return *def;
}
template <class G = bf16>
const auto& adagrad_split_many() {
  static const Kept def =
      step_hints(adagrad_of<bf16, G, Ptr<u16>>(
                     "adagrad_split_many", {"p", "low", "g", "sums", "tensors", "chunks", "factor", "count", "chunk",
                                            "lr", "eps", "weight_decay", "BLOCK=4096", "ALIGN=1"}),
                 {"p", "low", "g", "sums"});
  return *def;
}

// --- Lion ---

template <class T, class G, class... Low>
auto lion_of(std::string_view name, Names names) {
  return kernel(name, names,
                [](Ptr<T> p, Low... low, Ptr<const G> g, Ptr<f32> m, Ptr<const i64> tensors, Ptr<const i32> chunks,
                   Ptr<const f32> factor, i32 count, i32 chunk, f64 lr, f64 beta1, f64 beta2, f64 weight_decay,
                   Const BLOCK, Const ALIGN) {
                  grid(count);
                  const ManyStep<T, Low...> many(tensors, chunks, chunk, factor, 1, ALIGN);
                  const Tile first = many.state(m, 0);
                  const Value rate = cast(lr, f32_t), stay = cast(1 - lr * weight_decay, f32_t);
                  const auto mixed = [](const Value& mean, const Value& gradient, const Value& beta) {
                    return mean * cast(beta, f32_t) + gradient * cast(1 - beta, f32_t);
                  };
                  many.run(BLOCK, p, low..., g, [&](const Value& at, const Value& weights, const Value& gradient) {
                    const Value mean = first.load({at}, {BLOCK});
                    const Value towards = mixed(mean, gradient, beta1);
                    first.store({at}, mixed(mean, gradient, beta2));
                    const Value sign = where(towards == 0, 0, copysign(1, towards));
                    return weights * stay - sign * rate;
                  });
                });
}

// With d = g·factor:   p = p·(1 - lr·weight_decay) - lr·sign(beta1·m + (1-beta1)·d),   m = beta2·m + (1-beta2)·d
// (Chen et al., Symbolic Discovery of Optimization Algorithms, arXiv 2302.06675). The sign of 0 is 0.
template <class T = f32, class G = T>
const auto& lion_many() {
  static const Kept def =
      step_hints(lion_of<T, G>("lion_many", {"p", "g", "m", "tensors", "chunks", "factor", "count", "chunk", "lr",
                                             "beta1", "beta2", "weight_decay", "BLOCK=4096", "ALIGN=1"}),
                 {"p", "g", "m"});
  return *def;
}
template <class G = bf16>
const auto& lion_split_many() {
  static const Kept def =
      step_hints(lion_of<bf16, G, Ptr<u16>>(
                     "lion_split_many", {"p", "low", "g", "m", "tensors", "chunks", "factor", "count", "chunk", "lr",
                                         "beta1", "beta2", "weight_decay", "BLOCK=4096", "ALIGN=1"}),
                 {"p", "low", "g", "m"});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
