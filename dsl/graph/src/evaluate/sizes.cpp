// Evaluator: sizes of dims from the extents of inputs, and whether the inputs are what the graph declares.
#include <algorithm>

#include "evaluate/array_loops.h"

namespace kiln::graph::evaluator {
namespace {

// coefficient·dim + rest, where an expression is that of one dim that has no size yet.
struct Linear {
  uint32_t dim;
  int64_t coefficient;
  int64_t rest;
};

std::optional<Linear> linear(const Expr& expr) {
  Linear out{kNone, 0, 0};
  for (const dsl::Term& term : expr.terms()) {
    if (term.atoms.empty()) {
      out.rest = term.coefficient;
    } else if (term.atoms.size() == 1 && term.atoms[0].kind == dsl::AtomKind::kConstexpr && out.dim == kNone) {
      out.dim = term.atoms[0].index;
      out.coefficient = term.coefficient;
    } else {
      return std::nullopt;
    }
  }
  return out.dim == kNone ? std::nullopt : std::optional(out);
}

class Binder {
 public:
  Binder(Machine& machine, std::span<const Array> inputs) : machine_(machine), graph_(machine.graph), inputs_(inputs) {
    machine.dims.constexprs.resize(graph_.dims.size());
    said_by_.resize(graph_.dims.size());
  }

  Result<void> check_arrays() const;
  Result<void> take_given(const std::map<std::string, int64_t>& sizes);
  void solve();
  Result<void> check_extents() const;
  Result<void> check_ranges() const;

 private:
  const Body& body() const { return graph_.main(); }
  const TensorType& declared(size_t i) const { return graph_.type(body(), body().inputs[i].value); }
  std::string input_text(size_t i) const {
    return "input `" + body().inputs[i].name + "` is " + std::string(dsl::info(inputs_[i].element).name) +
           text(inputs_[i].shape);
  }
  std::string declared_text(size_t i) const {
    return "the graph declares " + to_string(declared(i), graph_.expr_names());
  }
  void bind(uint32_t dim, int64_t size, std::string by) {
    machine_.dims.constexprs[dim] = size;
    said_by_[dim] = std::move(by);
  }

  Machine& machine_;
  const Graph& graph_;
  std::span<const Array> inputs_;
  std::vector<std::string> said_by_;  // "axis 0 of `x`", by dim
};

Result<void> Binder::check_arrays() const {
  if (inputs_.size() != body().inputs.size()) {
    return invalid_argument("graph `" + body().name + "` takes " + std::to_string(body().inputs.size()) +
                            " inputs, not " + std::to_string(inputs_.size()));
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Array& array = inputs_[i];
    if (array.strides.size() != array.shape.size()) {
      return invalid_argument("input `" + body().inputs[i].name + "` has " + std::to_string(array.strides.size()) +
                              " strides for the shape " + text(array.shape));
    }
    const bool negative =
        std::any_of(array.shape.begin(), array.shape.end(), [](int64_t extent) { return extent < 0; });
    if (negative) return invalid_argument(input_text(i) + ": an extent is below 0");
    int64_t count = 1;
    for (const int64_t extent : array.shape) {
      if (__builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 59)) {
        return invalid_argument(input_text(i) + ": more elements than memory can have");
      }
    }
    if (array.element != declared(i).element || array.shape.size() != declared(i).shape.size()) {
      return invalid_argument(input_text(i) + "; " + declared_text(i));
    }
    if (array.data == nullptr && array.count() > 0) {
      return invalid_argument(input_text(i) + ", but its data are null");
    }
  }
  return {};
}

Result<void> Binder::take_given(const std::map<std::string, int64_t>& sizes) {
  for (const auto& [name, size] : sizes) {
    const auto dim = graph_.find_dim(name);
    if (!dim) return invalid_argument("graph `" + body().name + "` has no dim `" + name + "`");
    bind(*dim, size, "what was given");
  }
  return {};
}

// Extents that mention one unknown dim, once and linearly, say its size; until none says more.
void Binder::solve() {
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      for (size_t axis = 0; axis < inputs_[i].shape.size(); ++axis) {
        const Expr& extent = declared(i).shape[axis];
        if (extent.as_constant()) continue;
        const auto unknown = linear(extent.substitute(machine_.dims));
        if (!unknown) continue;
        const Wide total = Wide{inputs_[i].shape[axis]} - unknown->rest;
        if (total % unknown->coefficient != 0) continue;  // check_extents says so
        bind(unknown->dim, static_cast<int64_t>(total / unknown->coefficient),
             "axis " + std::to_string(axis) + " of input `" + body().inputs[i].name + "`");
        more = true;
      }
    }
  }
}

Result<void> Binder::check_extents() const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    for (size_t axis = 0; axis < inputs_[i].shape.size(); ++axis) {
      const Expr& extent = declared(i).shape[axis];
      const auto here = extent.as_constant() ? Result<int64_t>(*extent.as_constant()) : extent.evaluate(machine_.dims);
      if (here && *here == inputs_[i].shape[axis]) continue;
      std::string why = input_text(i) + "; " + declared_text(i) + ": axis " + std::to_string(axis) + " is " +
                        std::to_string(inputs_[i].shape[axis]);
      if (here) why += ", not " + std::to_string(*here);
      for (const uint32_t dim : machine_.mentioned(extent)) {
        const auto& size = machine_.dims.constexprs[dim];
        why += size ? ", where " + graph_.dims[dim].name + " is " + std::to_string(*size) + " by " + said_by_[dim]
                    : "; no input says what " + graph_.dims[dim].name + " is";
      }
      return invalid_argument(why);
    }
  }
  return {};
}

Result<void> Binder::check_ranges() const {
  for (size_t i = 0; i < graph_.dims.size(); ++i) {
    const auto& size = machine_.dims.constexprs[i];
    const DimInfo& dim = graph_.dims[i];
    if (!size) continue;
    const std::string is = dim.name + " is " + std::to_string(*size) + " by " + said_by_[i];
    if (*size < dim.low || *size > dim.high) {
      return invalid_argument(is + "; the graph is for " + std::to_string(dim.low) +
                              (dim.high == DimInfo::kMost ? " and more" : " … " + std::to_string(dim.high)));
    }
    if (dim.multiple > 1 && *size % dim.multiple != 0) {
      return invalid_argument(is + "; the graph is for multiples of " + std::to_string(dim.multiple));
    }
  }
  return {};
}

}  // namespace

Result<void> bind_sizes(Machine& machine, std::span<const Array> inputs, const std::map<std::string, int64_t>& sizes) {
  Binder binder(machine, inputs);
  if (auto done = binder.check_arrays(); !done) return done;
  if (auto done = binder.take_given(sizes); !done) return done;
  binder.solve();
  if (auto done = binder.check_extents(); !done) return done;
  return binder.check_ranges();
}

}  // namespace kiln::graph::evaluator
