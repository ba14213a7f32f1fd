#include "kiln/graph/sizes.h"

#include <algorithm>
#include <set>

#include "kiln/dsl/wide.h"

namespace kiln::graph {
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

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (const int64_t extent : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
  return out + "]";
}

void add_mentioned(const Expr& expr, std::set<uint32_t>& out) {
  for (const dsl::Term& term : expr.terms()) {
    for (const dsl::Atom& atom : term.atoms) {
      if (atom.kind == dsl::AtomKind::kConstexpr) out.insert(atom.index);
      if (!atom.args) continue;
      add_mentioned(atom.args->first, out);
      add_mentioned(atom.args->second, out);
    }
  }
}

class Binder {
 public:
  Binder(std::string_view name, std::span<const DimInfo> dims, std::span<const DeclaredTensor> declared,
         std::span<const GivenTensor> given)
      : name_(name), dims_(dims), declared_(declared), given_(given), said_by_(dims.size()) {
    sizes_.constexprs.resize(dims.size());
  }

  Result<dsl::Bindings> run(const std::map<std::string, int64_t>& sizes) {
    if (auto fine = check_tensors(); !fine) return fine.error();
    if (auto known = take_given(sizes); !known) return known.error();
    solve();
    if (auto fine = check_extents(); !fine) return fine.error();
    if (auto fine = check_ranges(); !fine) return fine.error();
    return std::move(sizes_);
  }

 private:
  std::string input_text(size_t i) const {
    return "input `" + std::string(declared_[i].name) + "` is " + std::string(dsl::info(given_[i].element).name) +
           shape_text(given_[i].shape);
  }
  std::string declared_text(size_t i) const {
    const dsl::ExprNames names{[this](uint32_t dim) { return dims_[dim].name; },
                               [](uint32_t param) { return "?" + std::to_string(param); }};
    return "the graph declares " + to_string(*declared_[i].type, names);
  }
  void bind(uint32_t dim, int64_t size, std::string by) {
    sizes_.constexprs[dim] = size;
    said_by_[dim] = std::move(by);
  }

  Result<void> check_tensors() const;
  Result<void> take_given(const std::map<std::string, int64_t>& sizes);
  void solve();
  Result<void> check_extents() const;
  Result<void> check_ranges() const;

  std::string_view name_;
  std::span<const DimInfo> dims_;
  std::span<const DeclaredTensor> declared_;
  std::span<const GivenTensor> given_;
  dsl::Bindings sizes_;
  std::vector<std::string> said_by_;  // "axis 0 of `x`", by dim
};

Result<void> Binder::check_tensors() const {
  if (given_.size() != declared_.size()) {
    return invalid_argument("graph `" + std::string(name_) + "` takes " + std::to_string(declared_.size()) +
                            " inputs, not " + std::to_string(given_.size()));
  }
  for (size_t i = 0; i < given_.size(); ++i) {
    const std::span<const int64_t> shape = given_[i].shape;
    if (std::ranges::any_of(shape, [](int64_t extent) { return extent < 0; })) {
      return invalid_argument(input_text(i) + ": an extent is below 0");
    }
    int64_t count = 1;
    for (const int64_t extent : shape) {
      if (__builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 59)) {
        return invalid_argument(input_text(i) + ": more elements than memory can have");
      }
    }
    if (given_[i].element != declared_[i].type->element || shape.size() != declared_[i].type->shape.size()) {
      return invalid_argument(input_text(i) + "; " + declared_text(i));
    }
  }
  return {};
}

Result<void> Binder::take_given(const std::map<std::string, int64_t>& sizes) {
  for (const auto& [dim, size] : sizes) {
    const auto found = std::ranges::find(dims_, dim, &DimInfo::name);
    if (found == dims_.end()) return invalid_argument("graph `" + std::string(name_) + "` has no dim `" + dim + "`");
    bind(static_cast<uint32_t>(found - dims_.begin()), size, "what was given");
  }
  return {};
}

// Extents that mention one unknown dim, once and linearly, say its size; until none says more.
void Binder::solve() {
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < given_.size(); ++i) {
      for (size_t axis = 0; axis < given_[i].shape.size(); ++axis) {
        const Expr& extent = declared_[i].type->shape[axis];
        if (extent.as_constant()) continue;
        const auto unknown = linear(extent.substitute(sizes_));
        if (!unknown) continue;
        const dsl::Wide total = dsl::Wide{given_[i].shape[axis]} - unknown->rest;
        if (total % unknown->coefficient != 0) continue;  // check_extents says so
        bind(unknown->dim, static_cast<int64_t>(total / unknown->coefficient),
             "axis " + std::to_string(axis) + " of input `" + std::string(declared_[i].name) + "`");
        more = true;
      }
    }
  }
}

Result<void> Binder::check_extents() const {
  for (size_t i = 0; i < given_.size(); ++i) {
    for (size_t axis = 0; axis < given_[i].shape.size(); ++axis) {
      const Expr& extent = declared_[i].type->shape[axis];
      const auto here = extent.as_constant() ? Result<int64_t>(*extent.as_constant()) : extent.evaluate(sizes_);
      if (here && *here == given_[i].shape[axis]) continue;
      std::string why = input_text(i) + "; " + declared_text(i) + ": axis " + std::to_string(axis) + " is " +
                        std::to_string(given_[i].shape[axis]);
      if (here) why += ", not " + std::to_string(*here);
      for (const uint32_t dim : mentioned_dims(extent)) {
        const auto& size = sizes_.constexprs[dim];
        why += size ? ", where " + dims_[dim].name + " is " + std::to_string(*size) + " by " + said_by_[dim]
                    : "; no input says what " + dims_[dim].name + " is";
      }
      return invalid_argument(why);
    }
  }
  return {};
}

Result<void> Binder::check_ranges() const {
  for (size_t i = 0; i < dims_.size(); ++i) {
    const auto& size = sizes_.constexprs[i];
    const DimInfo& dim = dims_[i];
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

Result<dsl::Bindings> bind_sizes(std::string_view name, std::span<const DimInfo> dims,
                                 std::span<const DeclaredTensor> declared, std::span<const GivenTensor> given,
                                 const std::map<std::string, int64_t>& sizes) {
  return Binder(name, dims, declared, given).run(sizes);
}

std::vector<uint32_t> mentioned_dims(const Expr& expr) {
  std::set<uint32_t> dims;
  add_mentioned(expr, dims);
  return {dims.begin(), dims.end()};
}

}  // namespace kiln::graph
