// The state of a random graph while it is made, and what the makers of ops choose from.
#pragma once

#include <stdexcept>

#include "graph/random_graph.h"
#include "kiln/graph/builder.h"

namespace kiln::random_graph {

using graph::AttrList;
using graph::ElementType;
using graph::Expr;
using graph::TensorOp;
using graph::TensorType;
using graph::ValueId;
using Shape = std::vector<Expr>;
using Ints = std::vector<int64_t>;

// A maker asked for what the rules refuse.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t word() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t count) { return static_cast<int64_t>(word() % static_cast<uint64_t>(count)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  double uniform() { return static_cast<double>(word() >> 11) * 0x1p-53; }
  template <class Items>
  auto pick(const Items& items) {
    return *(std::begin(items) + below(static_cast<int64_t>(std::size(items))));
  }

 private:
  uint64_t state_;
};

enum class Kind : uint8_t { kAny, kNumbers, kFloats, kInts, kIntsAndBools };

// A tensor that a maker would take.
struct Want {
  Kind kind = Kind::kAny;
  int low_rank = 0, high_rank = 4;
  bool some = false;  // one element at least along each axis
};

class Generator {
 public:
  Generator(uint64_t seed, const Options& options);
  Case run();

  Random random;

  // --- tensors ---
  // One that there is, or a new one.
  ValueId tensor(const Want& want);
  // Of exactly this type.
  ValueId value(const TensorType& type);
  ValueId value(ElementType element, Shape shape) { return value(TensorType{element, std::move(shape)}); }
  // Of one value.
  ValueId full(ElementType element, Shape shape, double number);
  // Of ints of 0 … limit-1, or, where they may count from the end, from 1-limit on.
  ValueId index(Shape shape, int64_t limit, bool from_end);
  // Of 0 and more.
  ValueId not_negative(const TensorType& type);
  // Perhaps, for operands that may be left out.
  ValueId maybe(ElementType element, Shape shape) {
    return random.chance(30) ? graph::kNoValue : value(element, std::move(shape));
  }
  const TensorType& type(ValueId id) const { return builder_.type(id); }

  // --- what they are of ---
  ElementType element(Kind kind);
  Expr extent();                    // 1 or more
  Expr extent_from(int64_t least);  // that or more
  Shape shape(int low_rank, int high_rank);
  int64_t low(const Expr& expr) const;   // at least, for all sizes
  int64_t size(const Expr& expr) const;  // by the case's sizes
  int64_t count(const Shape& shape) const;
  bool small(const Shape& shape) const { return count(shape) <= 1024; }

  // --- nodes ---
  ValueId op(TensorOp op, std::vector<ValueId> operands, AttrList attrs = {});
  graph::GraphBuilder& builder() { return builder_; }
  bool in_main() const { return depth_ == 0; }
  // A body with inputs of these types, to which `fill` adds nodes; it gives the outputs.
  graph::BodyId body(const std::string& name, const std::vector<TensorType>& inputs,
                     const std::function<std::vector<ValueId>(const std::vector<ValueId>&)>& fill);
  // Adds so many nodes by chance.
  void grow(int nodes);

 private:
  bool allowed(TensorOp op) const;
  void apply(TensorOp op);
  ValueId new_value(const TensorType& type);
  void finish();

  const Options& options_;
  graph::GraphBuilder builder_;
  std::map<std::string, int64_t> sizes_;
  std::vector<std::optional<int64_t>> dim_sizes_;
  std::vector<Expr> extents_;
  uint32_t file_ = 0, line_ = 0;
  int depth_ = 0, inputs_ = 0;
};

// Makers: each adds one node of the op, and the operands that it lacks.
void make_plain(Generator& gen, TensorOp op);      // make, elementwise, view, cat
void make_indexed(Generator& gen, TensorOp op);    // index, reduce, scan, order
void make_layer(Generator& gen, TensorOp op);      // contract, conv, window, resize, norm, optimiser
void make_with_body(Generator& gen, TensorOp op);  // control, kernel, custom reductions and scans

}  // namespace kiln::random_graph
