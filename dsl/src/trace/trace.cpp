// The trace: errors, values and ops. Its regions and variables are in trace_regions.cpp.
#include "trace/trace.h"

#include <algorithm>
#include <atomic>

#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/verify.h"

namespace kiln::dsl::lang {
namespace {

thread_local Trace* g_current = nullptr;

constexpr size_t kMaxErrors = 20;

// Drops values that nothing defines (arguments of loops that were only read) and numbers the rest in their old order.
void drop_undefined(Kernel& kernel) {
  std::vector<ValueId> map(kernel.values.size(), kNoValue);
  const auto mark = [&](const std::vector<ValueId>& defined) {
    for (ValueId id : defined) map[id] = 0;
  };
  for (const Param& param : kernel.params) map[param.value] = 0;
  for_each_region(kernel, [&](const Region& region) {
    mark(region.args);
    for (const Op& op : region.ops) mark(op.results);
  });
  std::vector<dsl::Value> kept;
  for (ValueId id = 0; id < map.size(); ++id) {
    if (map[id] == kNoValue) continue;
    map[id] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(kernel.values[id]));
  }
  kernel.values = std::move(kept);
  for (Param& param : kernel.params) param.value = map[param.value];
  rename_values(kernel.body, [&](ValueId id) { return map[id]; });
}

// Nodes of an expression that a launcher is asked for; polynomials of long chains of arithmetic would explode.
constexpr size_t kMostNodes = 1024;

bool is_large(const Expr& expr) { return tree_size(expr, kMostNodes) == kMostNodes; }

// 1 where it holds, else 0.
Expr compared(Predicate predicate, const Expr& a, const Expr& b) {
  switch (predicate) {
    case Predicate::kEq:
      return Expr::apply(AtomKind::kEq, a, b);
    case Predicate::kNe:
      return Expr::apply(AtomKind::kNe, a, b);
    case Predicate::kLt:
      return Expr::apply(AtomKind::kLt, a, b);
    case Predicate::kLe:
      return Expr::apply(AtomKind::kLe, a, b);
    case Predicate::kGt:
      return Expr::apply(AtomKind::kLt, b, a);
    case Predicate::kGe:
      return Expr::apply(AtomKind::kLe, b, a);
  }
  return Expr(0);
}

// Scalar integer arithmetic and comparisons that a launcher can do too.
std::optional<Expr> launcher_expr(const Op& op, ElementType type, const Expr& a, const Expr& b) {
  if (is_large(a) || is_large(b)) return std::nullopt;
  const bool multiplies = op.code == OpCode::kMul || op.code == OpCode::kAnd;
  if (multiplies && a.terms().size() * b.terms().size() > kMostNodes) return std::nullopt;
  const bool is_truth = type == ElementType::kI1;
  switch (op.code) {
    case OpCode::kAdd:
      return a + b;
    case OpCode::kSub:
      return a - b;
    case OpCode::kMul:
      return a * b;
    case OpCode::kDiv:
      return Expr::apply(AtomKind::kDiv, a, b);
    case OpCode::kRem:
      return Expr::apply(AtomKind::kRem, a, b);
    case OpCode::kMin:
      return Expr::apply(AtomKind::kMin, a, b);
    case OpCode::kMax:
      return Expr::apply(AtomKind::kMax, a, b);
    case OpCode::kCmp:
      return compared(static_cast<Predicate>(std::get<int64_t>(op.attrs[0])), a, b);
    case OpCode::kAnd:
      return is_truth ? std::optional(a * b) : std::nullopt;
    case OpCode::kOr:
      return is_truth ? std::optional(Expr::apply(AtomKind::kMax, a, b)) : std::nullopt;
    case OpCode::kXor:  // `!x` is one with true
      return is_truth ? std::optional(Expr::apply(AtomKind::kNe, a, b)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

const char* outside_text(Trace::RegionKind kind) {
  switch (kind) {
    case Trace::RegionKind::kBranch:
      return "a value computed inside a branch is used outside of it; return it from both branches, or assign it to a "
             "Var made before the if_";
    case Trace::RegionKind::kCondition:
      return "a value computed inside the condition of a while_ is used outside of it; compute it again";
    case Trace::RegionKind::kCombine:
      return "a value computed inside a combining function is used outside of it";
    default:
      return "a value computed inside a loop is used after it; carry it out in a Var made before the loop";
  }
}

bool is_launcher_type(const Type& type) { return type.is_scalar() && !type.pointer && is_int(type.element); }

}  // namespace

Trace::Trace(std::string name, std::source_location loc) : loc_(loc), last_loc_(loc), outer_(g_current) {
  static std::atomic<uint64_t> next_serial{1};
  serial_ = next_serial++;
  kernel_.name = std::move(name);
  g_current = this;
}

Trace::~Trace() { g_current = outer_; }

Trace* Trace::current() { return g_current; }

Location Trace::intern(const std::source_location& loc) {
  const std::string file = loc.file_name();
  uint32_t index = 0;
  while (index < kernel_.files.size() && kernel_.files[index] != file) ++index;
  if (index == kernel_.files.size()) kernel_.files.push_back(file);
  return {index + 1, loc.line(), loc.column()};
}

void Trace::report(const std::source_location& loc, const std::string& message) {
  if (errors_.size() >= kMaxErrors) return;
  const std::source_location place = scope_.value_or(loc);
  // An operand that was left out has no line; the kernel's is better than none.
  errors_.push_back(diagnostic(kernel_, intern(place.line() == 0 ? loc_ : place), message));
}

Result<Kernel> Trace::finish() {
  if (failed()) {
    std::string message;
    for (const std::string& text : errors_) message += (message.empty() ? "" : "\n") + text;
    return error(ErrorCode::kVerifyFailed, message);
  }
  kernel_.arrays = arrays_.arrays(kernel_);
  drop_undefined(kernel_);
  return std::move(kernel_);
}

Value Trace::add_value(Type type, std::string name) {
  kernel_.values.push_back({std::move(type), std::move(name)});
  facts_.push_back({open_.empty() ? 0 : open_.back().serial, std::nullopt, false});
  return {static_cast<ValueId>(kernel_.values.size() - 1), serial_};
}

bool Trace::is_open(uint32_t region) const {
  if (region == 0) return true;
  return std::any_of(open_.begin(), open_.end(), [&](const TracedRegion& open) { return open.serial == region; });
}

bool Trace::usable(const Value& value, const std::source_location& loc) {
  if (!value.valid()) {
    // After an error invalid values are its echo; without one the author forgot something.
    if (!failed()) report(loc, "a Value without a value is used here; it was never assigned, or made outside a kernel");
    return false;
  }
  if (value.trace() != serial_) {
    report(loc, "a value of another kernel is used here");
    return false;
  }
  if (!is_open(fact(value).region)) {
    report(loc, outside_text(kinds_[fact(value).region - 1]));
    return false;
  }
  return true;
}

std::vector<Value> Trace::emit_all(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                                   const std::source_location& loc, std::vector<Region> regions) {
  if (!fits_region(code, loc)) return {};
  Op op{code, {}, {}, with_default_attrs(code, std::move(attrs)), std::move(regions), {}};
  std::vector<Type> types, yields;
  for (const Value& operand : operands) {
    if (!usable(operand, loc)) return {};
    op.operands.push_back(operand.id());
    types.push_back(type(operand));
    if (types.back().pointer && stated_depth_ == 0 && code != OpCode::kAssume) arrays_.reach(operand.id());
  }
  if (code == OpCode::kIf) {
    for (ValueId id : op.regions[0].ops.back().operands) yields.push_back(kernel_.type(id));
  }
  if (auto fits = check_arity(code, types.size(), op.attrs); !fits) {
    report(loc, fits.error().message);
    return {};
  }
  auto results = infer_types(code, types, op.attrs, kernel_.expr_names(), yields);
  if (!results) {
    report(loc, results.error().message);
    return {};
  }
  last_loc_ = scope_.value_or(loc);
  op.loc = intern(last_loc_);
  std::vector<Value> out;
  for (Type& result : *results) {
    out.push_back(add_value(std::move(result)));
    op.results.push_back(out.back().id());
    if (op.regions.empty()) derive_fact(op, operands, out.back());
  }
  ops().push_back(std::move(op));
  return out;
}

Value Trace::emit(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                  const std::source_location& loc) {
  const std::vector<Value> results = emit_all(code, operands, std::move(attrs), loc);
  return results.empty() ? Value() : results[0];
}

void Trace::derive_fact(const Op& op, const std::vector<Value>& operands, Value result) {
  if (type(result).pointer || type(result).descriptor) {
    for (const Value& operand : operands) fact(result).readonly |= fact(operand).readonly;
  }
  if (operands.empty() || !is_launcher_type(type(result))) return;
  const std::optional<Expr>& a = fact(operands[0]).launcher;
  if (!a) return;
  if (op.code == OpCode::kCast) {
    fact(result).launcher = a;
  } else if (op.code == OpCode::kNeg) {
    fact(result).launcher = Expr(0) - *a;
  } else if (operands.size() == 2 && fact(operands[1]).launcher) {
    fact(result).launcher = launcher_expr(op, type(result).element, *a, *fact(operands[1]).launcher);
  }
}

Trace::LocationScope::LocationScope(const std::source_location& loc) : trace_(Trace::current()) {
  if (trace_ && trace_->scope_) trace_ = nullptr;
  if (trace_) trace_->scope_ = loc;
}

Trace::LocationScope::~LocationScope() {
  if (trace_) trace_->scope_.reset();
}

// --- free helpers ------------------------------------------------------------------------------------------------

Value emit(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs, const std::source_location& loc) {
  Trace* trace = Trace::current();
  return trace ? trace->emit(code, operands, std::move(attrs), loc) : Value();
}

std::vector<Value> emit_all(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                            const std::source_location& loc) {
  Trace* trace = Trace::current();
  return trace ? trace->emit_all(code, operands, std::move(attrs), loc) : std::vector<Value>{};
}

void report(const std::source_location& loc, const std::string& message) {
  if (Trace* trace = Trace::current()) trace->report(loc, message);
}

std::string type_text(const Type& type) {
  Trace* trace = Trace::current();
  return trace ? to_string(type, trace->kernel().expr_names()) : "";
}

std::string expr_text(const Expr& expr) {
  Trace* trace = Trace::current();
  return trace ? to_string(expr, trace->kernel().expr_names()) : "";
}

Type Value::type() const {
  Trace* trace = Trace::current();
  if (!trace || !valid() || trace->serial() != trace_) return Type{};
  return trace->type(*this);
}

Const Value::extent(int axis) const {
  const Type type = this->type();
  const int index = axis < 0 ? axis + type.rank() : axis;
  return index < 0 || index >= type.rank() ? Const(1) : Const(type.shape[static_cast<size_t>(index)]);
}

}  // namespace kiln::dsl::lang
