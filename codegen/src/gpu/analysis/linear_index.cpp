#include "gpu/analysis/linear_index.h"

#include <algorithm>
#include <numeric>

#include "kiln/dsl/uses.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::AtomKind;
using dsl::Expr;
using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;
using dsl::Wide;

constexpr int64_t kEnough = int64_t{1} << 20;  // what is a multiple of more need not be known to be
constexpr size_t kMaxTerms = 16;               // products of sums grow; no index that people write has so many

bool has_no_terms(const Expr& expr) { return expr.terms().empty(); }

// Parameters may be any i64: what has no other bounds has these.
constexpr Wide kFar = Wide{1} << 100;
Wide clamped(Wide x) { return std::clamp(x, -kFar, kFar); }
Wide product(Wide a, Wide b) {
  // Both lie within ±2^100: the double is exact enough to see what leaves that range.
  const double estimate = static_cast<double>(a) * static_cast<double>(b);
  if (estimate > static_cast<double>(kFar)) return kFar;
  if (estimate < -static_cast<double>(kFar)) return -kFar;
  return a * b;
}

LinearForms::Range product(const LinearForms::Range& a, const LinearForms::Range& b) {
  const auto [low, high] =
      std::minmax({product(a.low, b.low), product(a.low, b.high), product(a.high, b.low), product(a.high, b.high)});
  return {low, high};
}

std::optional<AtomKind> host_operation(OpCode code) {
  switch (code) {
    case OpCode::kDiv:
      return AtomKind::kDiv;
    case OpCode::kRem:
      return AtomKind::kRem;
    case OpCode::kMin:
      return AtomKind::kMin;
    case OpCode::kMax:
      return AtomKind::kMax;
    default:
      return std::nullopt;
  }
}

bool is_index(const dsl::Type& type) {
  return type.is_value() && dsl::is_int(type.element) && type.element != dsl::ElementType::kI1;
}

}  // namespace

bool Linear::is_uniform() const { return std::ranges::all_of(axes, has_no_terms); }

Linear operator+(const Linear& a, const Linear& b) {
  Linear out = a;
  out.host = a.host + b.host;
  for (const auto& [id, factor] : b.program) {
    const Expr sum = out.program[id] + factor;
    if (has_no_terms(sum))
      out.program.erase(id);
    else
      out.program[id] = sum;
  }
  out.axes.resize(std::max(a.axes.size(), b.axes.size()));
  for (size_t i = 0; i < b.axes.size(); ++i) out.axes[i] = out.axes[i] + b.axes[i];
  return out;
}

Linear operator-(const Linear& a, const Linear& b) { return a + b * Expr(-1); }

Linear operator*(const Linear& a, const Expr& factor) {
  Linear out;
  out.host = a.host * factor;
  for (const auto& [id, other] : a.program) {
    if (!has_no_terms(other * factor)) out.program[id] = other * factor;
  }
  for (const Expr& axis : a.axes) out.axes.push_back(axis * factor);
  return out;
}

bool is_polynomial(const Expr& expr) {
  return std::ranges::all_of(expr.terms(), [](const dsl::Term& term) {
    return std::ranges::all_of(term.atoms, [](const dsl::Atom& atom) { return atom.kind == AtomKind::kParam; });
  });
}

bool is_polynomial(const Linear& form) {
  return is_polynomial(form.host) &&
         std::ranges::all_of(form.program, [](const auto& term) { return is_polynomial(term.second); });
}

std::string to_string(const Linear& form, const dsl::Kernel& kernel) {
  std::string out;
  const auto add = [&](const Expr& factor, const std::string& what) {
    if (has_no_terms(factor)) return;
    const std::string text = dsl::to_string(factor, kernel.expr_names());
    const std::string times = factor == Expr(1)           ? what
                              : factor.terms().size() > 1 ? "(" + text + ")*" + what
                                                          : text + "*" + what;
    out += (out.empty() ? "" : " + ") + (what.empty() ? text : times);
  };
  for (const auto& [id, factor] : form.program) {
    const std::string& name = kernel.values[id].name;
    add(factor, "%" + (name.empty() ? std::to_string(id) : name));
  }
  for (size_t axis = 0; axis < form.axes.size(); ++axis) add(form.axes[axis], "i" + std::to_string(axis));
  add(form.host, "");
  return out.empty() ? "0" : out;
}

LinearForms::LinearForms(const dsl::Kernel& kernel, const std::vector<AxisInfo>& info)
    : kernel_(kernel), info_(info), definition_(dsl::definitions(kernel)) {
  for (uint32_t i = 0; i < kernel.params.size(); ++i) {
    if (is_index(kernel.params[i].type)) forms_[kernel.params[i].value] = Linear{Expr::param_ref(i), {}, {}};
  }
}

std::optional<Linear> LinearForms::of(ValueId id) {
  if (auto found = forms_.find(id); found != forms_.end()) return found->second;
  const dsl::Type& type = kernel_.type(id);
  if (!is_index(type)) return std::nullopt;
  const Op* op = definition_[id];
  std::optional<Linear> out = op ? compute(id, *op) : std::nullopt;
  const auto too_large = [](const Expr& expr) { return expr.terms().size() > kMaxTerms; };
  if (out &&
      (too_large(out->host) || std::ranges::any_of(out->program, too_large, &std::pair<const ValueId, Expr>::second)))
    out.reset();
  // A scalar is itself where it is nothing better.
  if (!out && type.rank() == 0) out = Linear{{}, {{id, Expr(1)}}, {}};
  if (out) out->axes.resize(static_cast<size_t>(type.rank()));
  forms_[id] = out;
  return out;
}

std::optional<Linear> LinearForms::compute(ValueId id, const Op& op) {
  const auto operand = [&](size_t i) { return of(op.operands[i]); };
  switch (op.code) {
    case OpCode::kArange: {
      Linear out{Expr(number_attr(op, 0)), {}, {}};
      out.axes.push_back(Expr(dsl::element_count(kernel_.type(id)) > 1 ? 1 : 0));
      return out;
    }
    case OpCode::kSplat:
      return operand(0);
    case OpCode::kExpandDims:
    case OpCode::kBroadcast:
    case OpCode::kPermute:
      return reordered(op);
    case OpCode::kAdd:
    case OpCode::kSub: {
      const auto a = operand(0), b = operand(1);
      if (!a || !b) return std::nullopt;
      return op.code == OpCode::kAdd ? *a + *b : *a - *b;
    }
    case OpCode::kMul: {
      const auto a = operand(0), b = operand(1);
      if (!a || !b || (!a->is_host() && !b->is_host())) return std::nullopt;
      return a->is_host() ? *b * a->host : *a * b->host;
    }
    case OpCode::kCast:
      return operand(0);
    default:
      return kernel_.type(id).rank() == 0 ? compute_scalar(op) : std::nullopt;
  }
}

std::optional<Linear> LinearForms::compute_scalar(const Op& op) {
  if (op.code == OpCode::kConstant) {
    const auto element = std::get<dsl::ElementType>(op.attrs[1]);
    const Wide number = number_from_bits(element, std::get<dsl::Literal>(op.attrs[0]).bits);
    if (number > INT64_MAX) return std::nullopt;
    return Linear{Expr(static_cast<int64_t>(number)), {}, {}};
  }
  const auto operation = host_operation(op.code);
  if (!operation) return std::nullopt;
  const auto a = of(op.operands[0]), b = of(op.operands[1]);
  if (!a || !b || !a->is_host() || !b->is_host()) return std::nullopt;
  return Linear{Expr::apply(*operation, a->host, b->host), {}, {}};
}

// The same elements, with axes of one element more or less, or in another order.
std::optional<Linear> LinearForms::reordered(const Op& op) {
  auto out = of(op.operands[0]);
  if (!out) return out;
  if (op.code == OpCode::kExpandDims) out->axes.insert(out->axes.begin() + int_attr(op, 0), Expr());
  if (op.code == OpCode::kPermute) {
    const std::vector<Expr> before = out->axes;
    const auto& order = std::get<std::vector<Expr>>(op.attrs[0]);
    for (size_t i = 0; i < order.size(); ++i) out->axes[i] = before[static_cast<size_t>(*order[i].as_constant())];
  }
  return out;
}

LinearForms::Range LinearForms::range(const dsl::Atom& atom) const {
  if (atom.kind == AtomKind::kParam) {
    const AxisInfo& info = info_[kernel_.params[atom.index].value];
    return {clamped(info.low), clamped(info.high)};
  }
  if (!atom.args) return {-kFar, kFar};
  const Range a = range(atom.args->first), b = range(atom.args->second);
  const bool natural = a.low >= 0 && b.low >= 1;
  switch (atom.kind) {
    case AtomKind::kDiv:
      return natural ? Range{a.low / b.high, a.high / b.low} : Range{-kFar, kFar};
    case AtomKind::kRem:
      return natural ? Range{0, std::min(a.high, b.high - 1)} : Range{-kFar, kFar};
    case AtomKind::kMin:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case AtomKind::kMax:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    default:
      return {0, 1};  // comparisons
  }
}

LinearForms::Range LinearForms::range(const Expr& expr) const {
  Range out{0, 0};
  for (const dsl::Term& term : expr.terms()) {
    Range part{term.coefficient, term.coefficient};
    for (const dsl::Atom& atom : term.atoms) part = product(part, range(atom));
    out = {clamped(out.low + part.low), clamped(out.high + part.high)};
  }
  return out;
}

LinearForms::Range LinearForms::range(const Linear& form) const {
  Range out = range(form.host);
  for (const auto& [id, factor] : form.program) {
    const Range part = product(range(factor), Range{clamped(info_[id].low), clamped(info_[id].high)});
    out = {clamped(out.low + part.low), clamped(out.high + part.high)};
  }
  for_each_equal(form, [&](const AxisInfo& info, int64_t distance) {
    out.low = std::max(out.low, clamped(info.low) + distance);
    out.high = std::min(out.high, clamped(info.high) + distance);
  });
  return out;
}

void LinearForms::for_each_equal(const Linear& form, const std::function<void(const AxisInfo&, int64_t)>& see) const {
  for (const auto& [id, other] : forms_) {
    if (!other || kernel_.type(id).rank() != 0 || other->program != form.program) continue;
    if (const auto distance = (form.host - other->host).as_constant()) see(info_[id], *distance);
  }
}

int64_t LinearForms::multiple_of(const Linear& form) const {
  int64_t out = multiple_of(form.host);
  for (const auto& [id, factor] : form.program) {
    out = std::gcd(out, std::gcd(multiple_of(factor) * std::gcd(info_[id].multiple_of, kEnough), kEnough));
  }
  for_each_equal(form, [&](const AxisInfo& info, int64_t distance) {
    out = std::max(out, std::gcd(std::gcd(info.multiple_of, distance), kEnough));
  });
  return out;
}

int64_t LinearForms::multiple_of(const Expr& expr) const {
  const auto of_atom = [&](const dsl::Atom& atom) -> int64_t {
    if (atom.kind == AtomKind::kParam) return info_[kernel_.params[atom.index].value].multiple_of;
    if (atom.kind != AtomKind::kMin && atom.kind != AtomKind::kMax) return 1;
    return std::gcd(multiple_of(atom.args->first), multiple_of(atom.args->second));
  };
  int64_t out = 0;
  for (const dsl::Term& term : expr.terms()) {
    int64_t part = std::gcd(term.coefficient, kEnough);
    for (const dsl::Atom& atom : term.atoms) part = std::gcd(part * std::gcd(of_atom(atom), kEnough), kEnough);
    out = std::gcd(out, part);
  }
  return out;
}

}  // namespace kiln::codegen::gpu
