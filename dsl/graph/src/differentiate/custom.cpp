// Gradients of reductions and scans by a body of the author's, C. Left and right are what C combines, R is the gradient
// of what has been accumulated.
//
//   scan     y(i) = C(y(i-1), x(i)) goes back as a loop: R(i) = g(i) + the left gradient of C(y(i), x(i+1)) by R(i+1),
//            and x(i) has the right gradient of C(y(i-1), x(i)) by R(i).
//   reduce   C is associative: with P(i) the init and the first i elements, S(i) those from i on, the result is
//            C(P(i), S(i)) for all i. So R(i) is the left gradient of that by g, and no element waits for another.
//            Where C shares a gradient between equal sides, as min does, each of several equal elements sees another
//            pair of sides, and the shares of all need not be the whole.
//
// C runs for all elements at once: what is elementwise in it on tensors, else a loop over the elements.
#include <algorithm>

#include "differentiate/driver.h"
#include "ir/prune.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/extents.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// A body that combines scalars, and what is asked for of it.
class Combination {
 public:
  explicit Combination(Adjoint& a) : a_(a), id_(static_cast<BodyId>(int_attr(a.attrs(), 0))) {}

  size_t count() const { return body().outputs.size(); }
  bool is_float(size_t i) const { return dsl::is_float(type(i).element); }
  Attr id() const { return int64_t{id_}; }
  // The body with its sides exchanged.
  std::optional<BodyId> exchanged();
  // The gradients of the floats of C(left, right), of the sides asked for, for those of its results. All are of one
  // shape; by number, those of ints are invalid.
  struct Sides {
    bool left = true, right = true;
  };
  struct Pulled {
    std::vector<Tensor> left, right;
  };
  Pulled pull(Sides sides, const std::vector<Tensor>& left, const std::vector<Tensor>& right,
              const std::vector<Tensor>& gradients);

 private:
  const Body& body() const { return a_.trace().graph().bodies[id_]; }
  const TensorType& type(size_t i) const { return a_.trace().graph().type(body(), body().inputs[i].value); }
  bool is_elementwise() const;
  // C of tensors of a shape as a graph: inputs x0, x1, …, outputs y0, y1, ….
  Result<Graph> mapped(const Extents& shape) const;
  Result<std::vector<ValueId>> elementwise(GraphBuilder& builder, const std::vector<ValueId>& inputs,
                                           const Extents& shape, const Location& loc) const;
  Result<std::vector<ValueId>> looped(GraphBuilder& builder, const std::vector<ValueId>& inputs, const Extents& shape,
                                      const Location& loc) const;
  Result<Graph> gradient(Sides sides, const Extents& shape) const;

  Adjoint& a_;
  BodyId id_;
};

std::optional<BodyId> Combination::exchanged() {
  Trace& trace = a_.trace();
  const Body combine = body();  // a copy: another body is opened
  trace.open_body(info(a_.op).name + "'s gradient", combine.name + "_exchanged", SourceLocation(),
                  Trace::Outside::kRefused);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < combine.inputs.size(); ++i) {
    inputs.push_back(trace.add_input(combine.inputs[i].name, type(i), SourceLocation()).id());
  }
  std::rotate(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(count()), inputs.end());
  std::vector<Tensor> outputs;
  for (const ValueId output : a_.driver->forward(combine, inputs, std::vector<bool>(inputs.size(), false))) {
    outputs.push_back(trace.tensor(output));
  }
  if (trace.failed()) {
    trace.abandon_body();
    return std::nullopt;
  }
  auto closed = trace.close_body(outputs, SourceLocation());
  return closed ? std::optional(closed->id) : std::nullopt;
}

bool Combination::is_elementwise() const {
  return std::ranges::all_of(body().nodes, [&](const Node& node) {
    const Family family = info(node.op).family;
    const bool pure = family == Family::kElementwise || (family == Family::kMake && node.op != kPhilox);
    return pure && a_.trace().graph().type(body(), node.first_result).shape.empty();
  });
}

Result<std::vector<ValueId>> Combination::elementwise(GraphBuilder& builder, const std::vector<ValueId>& inputs,
                                                      const Extents& shape, const Location& loc) const {
  std::vector<ValueId> here(body().values.size(), kNoValue), operands, out;
  for (size_t i = 0; i < inputs.size(); ++i) here[body().inputs[i].value] = inputs[i];
  for (const Node& node : body().nodes) {
    operands.clear();
    for (const ValueId operand : body().operands_of(node)) operands.push_back(here[operand]);
    auto value = builder.add_one(node.op, operands, a_.trace().graph().attrs(node), loc);
    if (value && operands.empty()) value = builder.add_one(kBroadcast, {&*value, 1}, {shape}, loc);
    if (!value) return value.error();
    here[node.first_result] = *value;
  }
  for (const Output& output : body().outputs) out.push_back(here[output.value]);
  return out;
}

Result<std::vector<ValueId>> Combination::looped(GraphBuilder& builder, const std::vector<ValueId>& inputs,
                                                 const Extents& shape, const Location& loc) const {
  auto inside = builder.import_body(a_.trace().graph(), id_);
  if (!inside) return inside.error();
  const Expr elements = element_count(shape);
  std::vector<ValueId> flat, out;
  for (const ValueId input : inputs) {
    auto value = builder.add_one(kReshape, {&input, 1}, {Extents{elements}}, loc);
    if (!value) return value.error();
    flat.push_back(*value);
  }
  const auto scanned = static_cast<int64_t>(flat.size());
  auto results = builder.add(kLoop, flat, {int64_t{*inside}, int64_t{0}, scanned, elements, int64_t{0}}, loc);
  if (!results) return results.error();
  for (uint32_t i = 0; i < results->count; ++i) {
    const ValueId result = results->first + i;
    auto value = builder.add_one(kReshape, {&result, 1}, {shape}, loc);
    if (!value) return value.error();
    out.push_back(*value);
  }
  return out;
}

Result<Graph> Combination::mapped(const Extents& shape) const {
  const Graph& around = a_.trace().graph();
  GraphBuilder builder(body().name);
  for (const DimInfo& dim : around.dims) {
    if (auto added = builder.add_dim(dim); !added) return added.error();
  }
  Location loc = a_.loc;
  if (loc.file > 0 && loc.file <= around.files.size()) loc.file = builder.add_file(around.files[loc.file - 1]);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < 2 * count(); ++i) {
    auto value = builder.add_input("x" + std::to_string(i), {type(i).element, shape}, loc);
    if (!value) return value.error();
    inputs.push_back(*value);
  }
  auto outputs = is_elementwise() ? elementwise(builder, inputs, shape, loc) : looped(builder, inputs, shape, loc);
  if (!outputs) return outputs.error();
  for (size_t i = 0; i < outputs->size(); ++i) {
    if (auto added = builder.add_output("y" + std::to_string(i), (*outputs)[i]); !added) return added.error();
  }
  return builder.take();
}

Result<Graph> Combination::gradient(Sides sides, const Extents& shape) const {
  auto all = mapped(shape);
  if (!all) return all;
  std::vector<std::string> wanted;
  for (size_t i = 0; i < 2 * count(); ++i) {
    if (is_float(i % count()) && (i < count() ? sides.left : sides.right)) wanted.push_back("x" + std::to_string(i));
  }
  auto joint = vjp(*all, wanted);
  if (!joint) return joint;
  std::vector<Output>& outputs = joint->bodies[0].outputs;
  outputs.erase(outputs.begin(), outputs.end() - static_cast<ptrdiff_t>(wanted.size()));
  return prune(std::move(*joint));
}

Combination::Pulled Combination::pull(Sides sides, const std::vector<Tensor>& left, const std::vector<Tensor>& right,
                                      const std::vector<Tensor>& gradients) {
  Pulled out{std::vector<Tensor>(count()), std::vector<Tensor>(count())};
  if (a_.trace().failed()) return out;
  auto graph = gradient(sides, a_.extents(left[0]));
  if (!graph) {
    a_.fail("its gradient: " + graph.error().message);
    return out;
  }
  std::vector<ValueId> inputs;
  for (const Tensor& each : left) inputs.push_back(each.id());
  for (const Tensor& each : right) inputs.push_back(each.id());
  for (const Tensor& each : gradients) {
    if (each.valid()) inputs.push_back(each.id());
  }
  auto pulled = a_.driver->builder().inline_body(*graph, 0, inputs);
  if (!pulled) {
    a_.fail(pulled.error().message);
    return out;
  }
  size_t next = 0;
  for (std::vector<Tensor>* side : {&out.left, &out.right}) {
    if (!(side == &out.left ? sides.left : sides.right)) continue;
    for (size_t i = 0; i < count(); ++i) {
      if (is_float(i)) (*side)[i] = a_.trace().tensor((*pulled)[next++]);
    }
  }
  return out;
}

std::vector<Tensor> of_each(const std::vector<Tensor>& all, const auto& function) {
  std::vector<Tensor> out;
  for (const Tensor& each : all) out.push_back(each.valid() ? function(each) : Tensor());
  return out;
}

// --- reduce ---

class ReduceGradient {
 public:
  explicit ReduceGradient(Adjoint& a)
      : a_(a),
        combine_(a),
        lines_(a.extents(a.x()), a.ints(1)),
        axis_(lines_.shape().size() - 1),
        length_(lines_.shape().back()),
        g_(combine_.count()) {}

  void run() {
    std::vector<Tensor> from_init;
    for (size_t i = 0; i < combine_.count(); ++i) {
      const Extents one = with_length(Expr(1));
      xs_.push_back(lines_.in(a_.x(i)));
      from_init.push_back(behind(broadcast_extents(a_.x(combine_.count() + i), one), xs_[i]));
      if (combine_.is_float(i)) g_[i] = reshape_to(a_.g(i), one);
    }
    const auto exchanged = combine_.exchanged();
    if (!exchanged) return;
    const std::vector<Tensor> prefixes = part(scan_by(from_init, combine_.id(), false), Expr(0), length_);
    const std::vector<Tensor> suffixes = scan_by(xs_, int64_t{*exchanged}, true);
    if (a_.trace().failed()) return;
    const auto whole_g = of_each(g_, [&](const Tensor& t) { return broadcast_extents(t, lines_.shape()); });
    std::vector<Tensor> sums = combine_.pull({.right = false}, prefixes, suffixes, whole_g).left;
    if (a_.trace().failed()) return;
    for (size_t i = 0; i < sums.size(); ++i) {
      if (combine_.is_float(i)) sums[i] = behind(sums[i], g_[i]);
    }
    give(sums, combine_.pull({.left = false}, prefixes, xs_, part(sums, Expr(1), length_ + Expr(1))).right);
  }

 private:
  Extents with_length(const Expr& extent) const {
    Extents out = lines_.shape();
    out.back() = extent;
    return out;
  }
  Tensor behind(const Tensor& a, const Tensor& b) const { return a_.emit(kCat, {a, b}, {static_cast<int64_t>(axis_)}); }
  std::vector<Tensor> part(const std::vector<Tensor>& all, const Expr& start, const Expr& end) const {
    return of_each(all, [&](const Tensor& t) { return slice_axis(t, axis_, start, end); });
  }
  std::vector<Tensor> scan_by(const std::vector<Tensor>& xs, Attr body, bool reverse) const {
    return a_.trace().emit_all(kScanCustom, xs, {std::move(body), static_cast<int64_t>(axis_), int64_t{reverse}},
                               SourceLocation());
  }
  void give(const std::vector<Tensor>& sums, const std::vector<Tensor>& gradients) {
    for (size_t i = 0; i < sums.size() && !a_.trace().failed(); ++i) {
      if (a_.wants(i)) a_.give(i, lines_.out(gradients[i]));
      const size_t init = sums.size() + i;
      if (a_.wants(init)) a_.give(init, sum_to(slice_axis(sums[i], axis_, Expr(0), Expr(1)), {}));
    }
  }

  Adjoint& a_;
  Combination combine_;
  Lines lines_;
  size_t axis_;
  Expr length_;
  std::vector<Tensor> xs_, g_;
};

void reduce_custom_rule(Adjoint& a) { ReduceGradient(a).run(); }

// --- scan ---

class ScanGradient {
 public:
  explicit ScanGradient(Adjoint& a)
      : a_(a),
        combine_(a),
        reverse_(flag_attr(a.attrs(), 2)),
        shape_(a.extents(a.x())),
        to_front_{int_attr(a.attrs(), 1)} {
    for (int64_t i = 0; i < static_cast<int64_t>(shape_.size()); ++i) {
      if (i != to_front_[0]) to_front_.push_back(i);
    }
    std::rotate(shape_.begin(), shape_.begin() + to_front_[0], shape_.begin() + to_front_[0] + 1);
  }

  void run() {
    const Tensor first = is_first();
    std::vector<Tensor> carried, scanned;
    for (size_t i = 0; i < combine_.count(); ++i) {
      const Tensor x = front(a_.x(i));
      scanned.insert(scanned.end(), {a_.emit(kSelect, {first, x, before(front(a_.y(i)))}), x});
    }
    for (size_t i = 0; i < combine_.count(); ++i) {
      if (!combine_.is_float(i)) continue;
      carried.push_back(zeros_of({a_.x(i).element(), Extents(shape_.begin() + 1, shape_.end())}));
      scanned.push_back(front(a_.g(i)));
    }
    scanned.push_back(first);
    if (a_.trace().failed()) return;
    const LoopStep back =
        loop(a_.trace().dim(shape_[0]), carried, scanned,
             [&](const Tensors& sums, const Tensors& now) { return step(sums, now); }, {.reverse = !reverse_});
    size_t next = 0;
    for (size_t i = 0; i < combine_.count() && !a_.trace().failed(); ++i) {
      if (!combine_.is_float(i)) continue;
      const Tensor& stacked = back.stacked[next++];
      if (a_.wants(i)) a_.give(i, a_.emit(kPermute, {stacked}, {inverse_order(to_front_)}));
    }
  }

 private:
  Tensor front(const Tensor& t) const { return a_.emit(kPermute, {t}, {to_front_}); }
  // Has nothing on its left. So that C sees numbers that it takes, it is its own left side, and what C gives is
  // dropped.
  Tensor is_first() const {
    return a_.emit(kIota, {}, {i64, shape_, int64_t{0}}) ==
           a_.emit(kExtent, {}, {i64, reverse_ ? shape_[0] - Expr(1) : Expr(0)});
  }
  // The element in front (in the scan's direction) in place of each.
  Tensor before(const Tensor& y) const {
    const Tensor longer = pad_axis(y, 0, Expr(reverse_ ? 0 : 1), Expr(reverse_ ? 1 : 0));
    return slice_axis(longer, 0, Expr(reverse_ ? 1 : 0), reverse_ ? shape_[0] + Expr(1) : shape_[0]);
  }
  LoopStep step(const Tensors& sums, const Tensors& now) {
    std::vector<Tensor> left, right, g(combine_.count());
    size_t next = 0;
    for (size_t i = 0; i < combine_.count(); ++i) {
      left.push_back(now[2 * i]);
      right.push_back(now[2 * i + 1]);
      if (!combine_.is_float(i)) continue;
      g[i] = now[2 * combine_.count() + next] + sums[next];
      ++next;
    }
    const Combination::Pulled pulled = combine_.pull({}, left, right, g);
    LoopStep out;
    for (size_t i = 0; i < combine_.count(); ++i) {
      if (!combine_.is_float(i)) continue;
      out.carried.push_back(pulled.left[i]);
      out.stacked.push_back(where(now.back(), g[i], pulled.right[i]));
    }
    return out;
  }

  Adjoint& a_;
  Combination combine_;
  bool reverse_;
  Extents shape_;  // with the scanned axis in front
  std::vector<int64_t> to_front_;
};

void scan_custom_rule(Adjoint& a) { ScanGradient(a).run(); }

}  // namespace

void add_custom_rules(GradientTable& table) {
  table.rule(kReduceCustom, reduce_custom_rule);
  table.rule(kScanCustom, scan_custom_rule);
}

}  // namespace kiln::graph
