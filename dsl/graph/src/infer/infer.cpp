// The dispatch by family, and what rules share.
#include "kiln/graph/infer.h"

#include <algorithm>

#include "infer/rules.h"
#include "ir/expr_limits.h"

namespace kiln::graph {
namespace {

bool is_kind(AttrKind kind, const Attr& attr) {
  switch (kind) {
    case AttrKind::kInt:
    case AttrKind::kFlag:
    case AttrKind::kEnum:
    case AttrKind::kBody:
    case AttrKind::kKernel:
      return std::holds_alternative<int64_t>(attr);
    case AttrKind::kFloat:
      return std::holds_alternative<double>(attr);
    case AttrKind::kExpr:
      return std::holds_alternative<Expr>(attr);
    case AttrKind::kShape:
      return std::holds_alternative<std::vector<Expr>>(attr);
    case AttrKind::kInts:
      return std::holds_alternative<std::vector<int64_t>>(attr);
    case AttrKind::kElement:
      return std::holds_alternative<ElementType>(attr);
    case AttrKind::kLiteral:
      return std::holds_alternative<Literal>(attr);
    case AttrKind::kData:
      return std::holds_alternative<std::vector<uint64_t>>(attr);
    case AttrKind::kString:
      return std::holds_alternative<std::string>(attr);
  }
  return false;
}

// The range of what is one of few values.
Result<void> in_range(const OpInfo& op, const AttrInfo& attr, const Attr& value) {
  int64_t count = 0;
  if (attr.kind == AttrKind::kFlag) count = 2;
  if (attr.kind == AttrKind::kEnum) count = static_cast<int64_t>(attr.values.size());
  if (attr.kind == AttrKind::kElement && static_cast<int>(std::get<ElementType>(value)) >= dsl::kElementTypeCount) {
    return error(ErrorCode::kVerifyFailed, op.name + ": " + attr.name + " is no element type");
  }
  if (attr.kind == AttrKind::kFloat && std::get<double>(value) != std::get<double>(value)) {
    return error(ErrorCode::kVerifyFailed, op.name + ": " + attr.name + " is NaN");
  }
  if (count == 0) return {};
  const int64_t number = std::get<int64_t>(value);
  if (number >= 0 && number < count) return {};
  return error(ErrorCode::kVerifyFailed, op.name + ": " + attr.name + " is " + std::to_string(number) + ", of " +
                                             std::to_string(count) + " values");
}

std::string wanted_operands(const OpInfo& op) {
  size_t needed = 0;
  bool open = false;
  for (const OperandInfo& operand : op.operands) {
    if (operand.variadic)
      open = true;
    else if (!operand.optional)
      ++needed;
  }
  if (open) return "at least " + std::to_string(needed);
  return needed == op.operands.size() ? std::to_string(needed)
                                      : std::to_string(needed) + " to " + std::to_string(op.operands.size());
}

// Expressions are such that the rules may compute with them.
Result<void> check_exprs(const Application& app) {
  const auto check = [&](size_t i, const Expr& expr) -> Result<void> {
    const char* problem = expr_problem(expr, app.graph.dims.size());
    if (!problem) return {};
    return app.fail("an expression in " + info(app.op).attrs[i].name + " " + problem);
  };
  for (size_t i = 0; i < app.attrs.size(); ++i) {
    if (const Expr* expr = std::get_if<Expr>(&app.attrs[i])) KILN_CHECK(check(i, *expr));
    if (const auto* shape = std::get_if<std::vector<Expr>>(&app.attrs[i])) {
      for (const Expr& expr : *shape) KILN_CHECK(check(i, expr));
    }
  }
  return {};
}

// Required ones are there, optional ones may be null.
Result<void> check_present(const Application& app) {
  const OpInfo& op = info(app.op);
  for (size_t i = 0; i < app.operands.size(); ++i) {
    if (app.operands[i] != nullptr) continue;
    if (i < op.operands.size() && op.operands[i].optional) continue;
    return app.fail("operand " + app.operand_name(i) + " is missing");
  }
  return {};
}

Result<Types> by_family(const Application& app) {
  switch (info(app.op).family) {
    case Family::kMake:
      return infer_make(app);
    case Family::kElementwise:
      return infer_elementwise(app);
    case Family::kView:
      return infer_view(app);
    case Family::kCat:
      return infer_cat(app);
    case Family::kIndex:
      return infer_index(app);
    case Family::kReduce:
      return infer_reduce(app);
    case Family::kScan:
      return infer_scan(app);
    case Family::kOrder:
      return infer_order(app);
    case Family::kContract:
      return infer_contract(app);
    case Family::kConv:
      return infer_conv(app);
    case Family::kWindow:
      return infer_window(app);
    case Family::kResize:
      return infer_resize(app);
    case Family::kNorm:
      return infer_norm(app);
    case Family::kOptimiser:
      return infer_optimiser(app);
    case Family::kControl:
      return infer_control(app);
    case Family::kKernel:
      return infer_kernel(app);
  }
  return app.fail("no rule");
}

}  // namespace

std::string Application::text(const Extents& shape) const {
  std::string out = "[";
  for (const Expr& extent : shape) out += (out.size() > 1 ? ", " : "") + text(extent);
  return out + "]";
}

std::string Application::operand_name(size_t i) const {
  const auto& operands = info(op).operands;
  if (i < operands.size() && !operands[i].variadic) return operands[i].name;
  const size_t first = operands.empty() ? 0 : operands.size() - 1;
  return (operands.empty() ? "operand" : operands.back().name) + " " + std::to_string(i - first);
}

Result<void> Application::same_extent(const Expr& a, const Expr& b, const std::string& what) const {
  const Known known = equal(a, b);
  if (known == Known::kYes) return {};
  if (known == Known::kNo) return fail(what + " differ: " + text(a) + " and " + text(b));
  return fail(what + " are not known to be equal: " + text(a) + " and " + text(b) +
              "; use one dim for both, or say how one follows from the other");
}

Result<void> Application::same_shape(const Extents& a, const Extents& b, const std::string& what) const {
  if (a.size() != b.size()) return fail(what + " have shapes " + text(a) + " and " + text(b));
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // without the words
    KILN_CHECK(same_extent(a[i], b[i], "extents of axis " + std::to_string(i) + " of " + what));
  }
  return {};
}

Result<void> Application::not_negative(const Expr& a, const std::string& what) const {
  return ordered(Expr(0), a, what);
}

Result<void> Application::ordered(const Expr& a, const Expr& b, const std::string& what) const {
  const Known known = at_most(graph.dims, a, b);
  if (known == Known::kYes) return {};
  return fail(what + ": " + text(a) + " <= " + text(b) +
              (known == Known::kNo ? " does not hold" : " is not known for all sizes; give the dims bounds"));
}

Result<Expr> Application::times(const Expr& a, const Expr& b) const {
  if (multiplies(weight(a), weight(b))) return a * b;
  return fail("(" + text(a) + ")*(" + text(b) + ") is too large");
}

Result<void> Application::int_between(size_t attr, int64_t low, int64_t high) const {
  const int64_t value = int_attr(attrs, attr);
  if (value >= low && value <= high) return {};
  return fail(info(op).attrs[attr].name + " is " + std::to_string(value) + "; it may be " + std::to_string(low) +
              " to " + std::to_string(high));
}

Result<void> Application::fits(const Extents& shape) const {
  if (shape.size() > kMaxRank) return fail("a shape of " + std::to_string(shape.size()) + " axes; 16 are the most");
  if (const char* problem = shape_problem(shape)) return fail("the shape " + text(shape) + " " + problem);
  for (const Expr& extent : shape) {
    if (auto constant = extent.as_constant()) {
      if (*constant < 0 || *constant > DimInfo::kMost)
        return fail("an extent of " + std::to_string(*constant) + "; it may be 0 to 2^40");
      continue;
    }
    const Interval range = interval(graph.dims, extent);
    if (range.low < 0) return fail("the extent " + text(extent) + " may be negative; give the dims bounds");
  }
  return {};
}

Result<int64_t> Application::axis(size_t attr, int rank) const {
  const int64_t value = int_attr(attrs, attr);
  if (value >= 0 && value < rank) return value;
  return fail(info(op).attrs[attr].name + " " + std::to_string(value) + " of " + (has(0) ? text(in(0)) : "nothing") +
              (rank == 0 ? ", which has no axes" : "; there are 0 to " + std::to_string(rank - 1)));
}

Result<std::vector<bool>> Application::axes(size_t attr, int rank) const {
  std::vector<bool> out(static_cast<size_t>(rank), false);
  for (const int64_t axis : ints_attr(attrs, attr)) {
    if (axis < 0 || axis >= rank) {
      return fail("axis " + std::to_string(axis) + " in " + info(op).attrs[attr].name + " of " + text(in(0)) +
                  (rank == 0 ? ", which has no axes" : "; there are 0 to " + std::to_string(rank - 1)));
    }
    if (out[static_cast<size_t>(axis)]) {
      return fail("axis " + std::to_string(axis) + " is twice in " + info(op).attrs[attr].name);
    }
    out[static_cast<size_t>(axis)] = true;
  }
  return out;
}

Result<void> Application::numbers(size_t attr, size_t count, int64_t least) const {
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto& values = ints_attr(attrs, attr);
  const std::string& what = info(op).attrs[attr].name;
  if (values.size() != count) {
    return fail(what + " has " + std::to_string(values.size()) + " numbers, for " + std::to_string(count) + " axes");
  }
  for (const int64_t value : values) {
    if (value < least || value > kMost) {
      return fail(what + " has " + std::to_string(value) + "; it may be " + std::to_string(least) + " to 2^31");
    }
  }
  return {};
}

Result<void> Application::is_float(size_t i) const {
  if (dsl::is_float(in(i).element)) return {};
  return fail(operand_name(i) + " is " + text(in(i)) + ", and must be of floats");
}

Result<void> Application::is_int(size_t i) const {
  if (dsl::is_int(in(i).element) && in(i).element != ElementType::kI1) return {};
  return fail(operand_name(i) + " is " + text(in(i)) + ", and must be of ints");
}

Result<void> Application::element_is(size_t i, ElementType element) const {
  if (in(i).element == element) return {};
  return fail(operand_name(i) + " is " + text(in(i)) + ", and must be of " + std::string(dsl::info(element).name));
}

Result<void> Application::rank_is(size_t i, int rank) const {
  if (in(i).rank() == rank) return {};
  return fail(operand_name(i) + " is " + text(in(i)) + ", and must have " + std::to_string(rank) +
              (rank == 1 ? " axis" : " axes"));
}

Result<void> check_arity(TensorOp code, size_t operand_count, const AttrList& attrs) {
  const OpInfo& op = info(code);
  const bool variadic = !op.operands.empty() && op.operands.back().variadic;
  const size_t fixed = op.operands.size() - (variadic ? 1 : 0);
  size_t needed = 0;
  for (const OperandInfo& operand : op.operands) needed += operand.optional || operand.variadic ? 0 : 1;
  if (operand_count < needed || (!variadic && operand_count > fixed)) {
    return error(ErrorCode::kVerifyFailed,
                 op.name + ": takes " + wanted_operands(op) + " operands, not " + std::to_string(operand_count));
  }
  if (attrs.size() != op.attrs.size()) {
    return error(ErrorCode::kVerifyFailed, op.name + ": has " + std::to_string(op.attrs.size()) + " attributes, not " +
                                               std::to_string(attrs.size()));
  }
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (!is_kind(op.attrs[i].kind, attrs[i])) {
      return error(ErrorCode::kVerifyFailed, op.name + ": attribute " + op.attrs[i].name + " is of another kind");
    }
    if (auto fine = in_range(op, op.attrs[i], attrs[i]); !fine) return fine;
  }
  return {};
}

Result<std::vector<TensorType>> infer_types(const Graph& graph, TensorOp op,
                                            std::span<const TensorType* const> operands, const AttrList& attrs) {
  const Application app{graph, op, operands, attrs};
  if (auto fine = check_arity(op, operands.size(), attrs); !fine) return fine.error();
  if (auto there = check_present(app); !there) return there.error();
  if (auto fine = check_exprs(app); !fine) return fine.error();
  return by_family(app);
}

}  // namespace kiln::graph
