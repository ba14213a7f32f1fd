// Instantiation: one walk over the ops that evaluates every integer expression, folds `if` and `for` on constants, and
// infers every type again; then facts, the canonical order (which also drops what became dead), and the passes behind
// kernel options (rounding.h).
//
//   before                                                     after {BLOCK: 64}, K = 1
//     constexpr BLOCK                                            constexpr BLOCK
//     require {cond = eq(rem(BLOCK, 16), 0), message = "…"}      %one = constant {value = 1, type = i32} : i32
//     %r = arange {start = 0, end = BLOCK} : tile<[BLOCK], i32>  %r = arange {start = 0, end = 64} : tile<[64], i32>
//     … %K …                                                     … %one …
#include "kiln/dsl/instantiate.h"

#include <set>
#include <unordered_map>
#include <utility>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/conditions.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/rounding.h"
#include "kiln/dsl/verify.h"

namespace kiln::dsl {
namespace {

// Far above what a tile can usefully hold; keeps element counts well inside an int64.
constexpr int64_t kMaxElements = int64_t{1} << 31;

std::string config_text(const Kernel& kernel, const ConstexprValues& values) {
  std::string out;
  for (const Constexpr& item : kernel.constexprs) {
    out += (out.empty() ? " (config " : ", ") + item.name + "=" + std::to_string(values.at(item.name));
  }
  return out.empty() ? out : out + ")";
}

Result<void> substitute_grid(Kernel& kernel, const Bindings& bindings, int64_t least, const std::string& config) {
  for (size_t axis = 0; axis < kernel.grid.size(); ++axis) {
    kernel.grid[axis] = kernel.grid[axis].substitute(bindings);
    const int64_t known = kernel.grid[axis].as_constant().value_or(least);
    if (known >= least) continue;
    return invalid_argument("kernel `" + kernel.name + "`: grid axis " + std::to_string(axis) + " is " +
                            std::to_string(known) + "; it must be " + std::to_string(least) + " or more" + config);
  }
  return {};
}

// Floats that programs add up in memory: in the order in which they run, whatever the thread count.
bool adds_floats_in_memory(const Kernel& kernel, const Op& op) {
  const bool combines = op.code == OpCode::kAtomicRmw || op.code == OpCode::kReduceTile;
  return combines && std::get<int64_t>(op.attrs[0]) == static_cast<int64_t>(AtomicKind::kAdd) &&
         is_float(kernel.type(op.operands[1]).element);
}

// What a launch must meet, as far as this config leaves it open. What no launch meets stays too, with what it was.
void substitute_constraints(Kernel& kernel, const Bindings& bindings) {
  for (Condition& constraint : kernel.constraints) {
    Expr left = constraint.expr.substitute(bindings);
    if (left.as_constant() == 0) constraint.message = unmet_text(kernel, constraint, bindings);
    constraint.expr = std::move(left);
  }
  std::erase_if(kernel.constraints,
                [](const Condition& condition) { return condition.expr.as_constant().value_or(0) != 0; });
}

class Instantiation {
 public:
  Instantiation(const Kernel& kernel, const ConstexprValues& values)
      : kernel_(kernel), out_(kernel), config_(config_text(kernel, values)) {
    for (const Constexpr& item : kernel.constexprs) bindings_.constexprs.push_back(values.at(item.name));
    if (auto found = values.find(std::string(kNumStages)); found != values.end()) num_stages_ = found->second;
  }

  Result<Kernel> run() {
    if (auto done = substitute_grid(out_, bindings_, 1, config_); !done) return done.error();
    substitute_constraints(out_, bindings_);
    if (auto done = visit(out_.body); !done) return done.error();
    return std::move(out_);
  }

 private:
  Error fail(ErrorCode code, const Op& op, const std::string& what) const {
    return error(code, diagnostic(kernel_, op.loc, what + config_));
  }

  Result<void> visit(Region& region) {
    std::vector<Op> kept;
    for (Op& op : region.ops) {
      if (auto done = visit(op, kept); !done) return done;
    }
    region.ops = std::move(kept);
    return {};
  }

  Result<void> visit(Op& op, std::vector<Op>& kept) {
    replaced_.apply(op.operands);
    for (Attr& attr : op.attrs) {
      if (auto done = make_concrete(op, attr); !done) return done;
    }
    if (op.code == OpCode::kRequire) {
      if (std::get<Expr>(op.attrs[0]) == Expr(0)) {
        return fail(ErrorCode::kInvalidArgument, op, "require: " + std::get<std::string>(op.attrs[1]));
      }
      return {};
    }
    if (op.code == OpCode::kIf && known_.contains(op.operands[0])) return fold_if(op, kept);
    if (op.code == OpCode::kFor) {
      Expr& hint = std::get<Expr>(op.attrs[0]);
      if (num_stages_ && hint.as_constant().value_or(1) > 1) hint = Expr(*num_stages_);
      if (auto fine = types_of(op); !fine) return fine.error();
      auto folded = fold_for(op, kept);
      if (!folded) return folded.error();
      if (*folded) return {};
    }
    if (auto done = infer(op); !done) return done;
    if (out_.options.deterministic && adds_floats_in_memory(out_, op)) {
      return fail(ErrorCode::kVerifyFailed, op,
                  info(op.code).name +
                      ": the option `deterministic` fixes the order of sums, and programs add floats "
                      "to memory in the order in which they run; give each program a place of its own");
    }
    if (op.code == OpCode::kConstant && is_int(std::get<ElementType>(op.attrs[1]))) {
      known_[op.results[0]] = std::get<Literal>(op.attrs[0]).bits;
    }
    kept.push_back(std::move(op));
    return {};
  }

  // The ops of a region in place of the op that holds it. The op's other regions are never looked at: they need not be
  // well-typed for this config.
  Result<void> splice(Op& op, Region& region, std::vector<Op>& kept) {
    for (Op& inner : region.ops) {
      if (inner.code == OpCode::kYield) {
        for (size_t i = 0; i < op.results.size(); ++i) replaced_.set(op.results[i], replaced_[inner.operands[i]]);
      } else if (auto done = visit(inner, kept); !done) {
        return done;
      }
    }
    return {};
  }

  Result<void> fold_if(Op& op, std::vector<Op>& kept) {
    return splice(op, op.regions[known_.at(op.operands[0]) != 0 ? 0 : 1], kept);
  }

  // A loop with known bounds that runs once is its body; one that never runs is its first values.
  Result<bool> fold_for(Op& op, std::vector<Op>& kept) {
    for (size_t i = 0; i < 3; ++i) {
      if (!known_.contains(op.operands[i])) return false;
    }
    const ElementTypeInfo& type = info(out_.type(op.operands[0]).element);
    auto bound = [&](size_t i) -> __int128 {
      const uint64_t bits = known_.at(op.operands[i]);
      const int shift = 64 - type.bits;
      return type.is_signed ? __int128{static_cast<int64_t>(bits << shift) >> shift} : __int128{bits};
    };
    const __int128 start = bound(0), end = bound(1), step = bound(2);
    if (step < 1) {
      return fail(ErrorCode::kInvalidArgument, op,
                  "for: step is " + std::to_string(static_cast<int64_t>(step)) + ", must be 1 or more");
    }
    if (start + step < end) return false;
    Region& body = op.regions[0];
    for (size_t i = 3; i < op.operands.size(); ++i) {
      replaced_.set(start < end ? body.args[i - 2] : op.results[i - 3], op.operands[i]);
    }
    if (start >= end) return true;
    replaced_.set(body.args[0], op.operands[0]);
    if (auto done = splice(op, body, kept); !done) return done.error();
    return true;
  }

  Result<void> make_concrete(const Op& op, Attr& attr) const {
    auto evaluate = [&](Expr& expr) -> Result<void> {
      auto value = expr.evaluate(bindings_);
      if (!value) return fail(ErrorCode::kInvalidArgument, op, info(op.code).name + ": " + value.error().message);
      expr = Expr(*value);
      return {};
    };
    if (Expr* expr = std::get_if<Expr>(&attr)) return evaluate(*expr);
    if (auto* list = std::get_if<std::vector<Expr>>(&attr)) {
      for (Expr& expr : *list) {
        if (auto done = evaluate(expr); !done) return done;
      }
    }
    return {};
  }

  Result<std::vector<Type>> types_of(const Op& op) const {
    std::vector<Type> operands;
    for (ValueId id : op.operands) operands.push_back(out_.type(id));
    auto types = infer_types(op.code, operands, op.attrs, out_.expr_names());
    if (!types) return fail(ErrorCode::kVerifyFailed, op, types.error().message);
    return types;
  }

  // Types of results and region arguments from the concrete operands; goes through the regions on its way.
  Result<void> infer(Op& op) {
    std::vector<Type> operands;
    for (ValueId id : op.operands) operands.push_back(out_.type(id));
    auto types = types_of(op);
    if (!types) return types.error();
    if (auto done = visit_regions(op, operands); !done) return done;
    if (op.code == OpCode::kIf) types = yielded(op.regions[0]);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const Type& type = (*types)[i];
      if (!small_enough(type)) {
        return fail(ErrorCode::kVerifyFailed, op,
                    info(op.code).name + ": " + to_string(type, out_.expr_names()) + " has too many elements");
      }
      out_.values[op.results[i]].type = type;
    }
    if (op.code == OpCode::kConstant) {
      if (const Expr* value = std::get_if<Expr>(&op.attrs[0])) {
        op.attrs[0] = Literal{bits_from_int(std::get<ElementType>(op.attrs[1]), value->as_constant().value_or(0))};
      }
    }
    return {};
  }

  Result<void> visit_regions(Op& op, const std::vector<Type>& operands) {
    const std::vector<RegionTypes> expected = region_types(op.code, operands, op.attrs);
    for (size_t r = 0; r < op.regions.size(); ++r) {
      Region& region = op.regions[r];
      for (size_t i = 0; i < region.args.size(); ++i) out_.values[region.args[i]].type = expected[r].args[i];
      if (auto done = visit(region); !done) return done;
      const std::vector<Type> wanted = expected[r].yields ? *expected[r].yields : yielded(op.regions[0]);
      const std::vector<Type> given = yielded(region);
      for (size_t i = 0; i < given.size(); ++i) {
        if (given[i] == wanted[i]) continue;
        const ExprNames names = out_.expr_names();
        return fail(ErrorCode::kVerifyFailed, region.ops.back(),
                    "yield: value " + std::to_string(i) + " is " + to_string(given[i], names) +
                        ", but this region of `" + info(op.code).name + "` yields " + to_string(wanted[i], names));
      }
    }
    return {};
  }

  std::vector<Type> yielded(const Region& region) const {
    std::vector<Type> out;
    for (ValueId id : region.ops.back().operands) out.push_back(out_.type(id));
    return out;
  }

  static bool small_enough(const Type& type) {
    int64_t count = 1;
    for (int64_t extent : concrete_shape(type)) {
      if (__builtin_mul_overflow(count, extent, &count) || count > kMaxElements) return false;
    }
    return true;
  }

  const Kernel& kernel_;
  Kernel out_;
  Bindings bindings_;
  std::optional<int64_t> num_stages_;            // the schedule option
  std::unordered_map<ValueId, uint64_t> known_;  // ints that are constants of this config, by their bits
  ValueMap replaced_;                            // results of folded ops, by what their regions yielded
  std::string config_;
};

Result<void> check_fact(const Param& param, ParamFact fact) {
  if (fits(fact, param.type)) return {};
  return invalid_argument("fact " + std::string(fact_name(fact)) + ": parameter `" + param.name + "` is not " +
                          (fact == ParamFact::kAlign16 ? "a pointer" : "an int"));
}

Op assume_multiple(ValueId value, int64_t multiple) {
  return {OpCode::kAssume, {value}, {}, with_default_attrs(OpCode::kAssume, {Expr(multiple)}), {}, {}};
}

// What is known of the arguments, as ops at the start of the body.
Result<void> apply_facts(const Facts& facts, Kernel& kernel) {
  if (facts.size() > kernel.params.size()) {
    return invalid_argument("kernel `" + kernel.name + "` has " + std::to_string(kernel.params.size()) +
                            " parameters, but there are " + std::to_string(facts.size()) + " facts");
  }
  std::vector<Op> prefix;
  Bindings ones;
  ones.params.resize(kernel.params.size());
  for (size_t i = 0; i < facts.size(); ++i) {
    const Param& param = kernel.params[i];
    if (auto fits = check_fact(param, facts[i]); !fits) return fits;
    if (facts[i] == ParamFact::kOne) {
      const ValueId one = fresh_value(kernel, param.type);
      replace_uses(kernel.body, param.value, one);
      prefix.push_back({OpCode::kConstant, {}, {one}, {Literal{1}, param.type.element}, {}, {}});
      ones.params[i] = 1;
    } else if (facts[i] != ParamFact::kNone) {
      prefix.push_back(assume_multiple(param.value, multiple_of(facts[i])));
    }
  }
  if (auto done = substitute_grid(kernel, ones, 0, ""); !done) return done;
  kernel.body.ops.insert(kernel.body.ops.begin(), std::make_move_iterator(prefix.begin()),
                         std::make_move_iterator(prefix.end()));
  return {};
}

void add_params(const Expr& expr, std::set<uint32_t>& out) {
  for (const Term& term : expr.terms()) {
    for (const Atom& atom : term.atoms) {
      if (atom.kind == AtomKind::kParam) out.insert(atom.index);
      if (!atom.args) continue;
      add_params(atom.args->first, out);
      add_params(atom.args->second, out);
    }
  }
}

// How a grid extent came about: ": `div(n + 63, 64)` with n = -100".
struct GridArguments {
  std::string text;
  bool any_negative = false;
};
GridArguments arguments_of(const Expr& extent, const Bindings& bindings, const Kernel* kernel) {
  std::set<uint32_t> params;
  add_params(extent, params);
  GridArguments out;
  if (kernel && !params.empty()) out.text = ": `" + to_string(extent, kernel->expr_names()) + "`";
  const char* before = " with ";
  for (uint32_t index : params) {
    const int64_t value = bindings.params[index].value_or(0);
    out.any_negative |= value < 0;
    if (kernel)
      out.text += std::exchange(before, ", ") + kernel->expr_names().param_name(index) + " = " + std::to_string(value);
  }
  return out;
}

}  // namespace

Result<Kernel> with_constants(const Kernel& kernel, const ConstexprValues& values, const Facts& facts) {
  if (auto valid = verify(kernel); !valid) return valid.error();
  auto complete = complete_constexprs(kernel, values);
  if (!complete) return complete.error();
  auto concrete = Instantiation(kernel, *complete).run();
  if (!concrete) return concrete.error();
  if (auto applied = apply_facts(facts, *concrete); !applied) return applied.error();
  // Dead uses of a product are gone before its uses are counted: contraction must not depend on them.
  return canonicalise(*concrete);
}

Result<Kernel> instantiate(const Kernel& kernel, const ConstexprValues& values, const Facts& facts) {
  auto concrete = with_constants(kernel, values, facts);
  if (!concrete) return concrete;
  return contract(fuse_precision(std::move(*concrete)));
}

Result<std::array<uint32_t, 3>> evaluate_grid(const std::array<Expr, 3>& grid, const Bindings& bindings,
                                              const Kernel* kernel) {
  std::array<uint32_t, 3> out{};
  for (size_t axis = 0; axis < 3; ++axis) {
    auto extent = grid[axis].evaluate(bindings);
    if (!extent) return invalid_argument("grid axis " + std::to_string(axis) + ": " + extent.error().message);
    const int64_t limit = axis == 0 ? 0x7fffffff : 65535;
    const bool is_fine = *extent > 0 && *extent <= limit;
    if (!is_fine) [[unlikely]] {
      const GridArguments arguments = arguments_of(grid[axis], bindings, kernel);
      const std::string what = "grid axis " + std::to_string(axis) + " is " + std::to_string(*extent) + arguments.text;
      if (*extent == 0 && arguments.any_negative) return invalid_argument(what + "; no size is negative");
      if (*extent != 0) return invalid_argument(what + "; it must be 0 to " + std::to_string(limit));
    }
    out[axis] = static_cast<uint32_t>(*extent);
  }
  return out;
}

}  // namespace kiln::dsl
