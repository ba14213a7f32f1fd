// Instantiation: one walk over the ops that evaluates every integer expression and infers every type again, then facts,
// then contraction, then the canonical order (which also drops what became dead).
//
//   before                                                     after {BLOCK: 64}, K = 1
//     constexpr BLOCK                                            constexpr BLOCK
//     require {cond = eq(rem(BLOCK, 16), 0), message = "…"}      %one = constant {value = 1, type = i32} : i32
//     %r = arange {start = 0, end = BLOCK} : tile<[BLOCK], i32>  %r = arange {start = 0, end = 64} : tile<[64], i32>
//     … %K …                                                     … %one …
#include "kiln/dsl/instantiate.h"

#include "contract.h"
#include "kiln/dsl/canonical.h"
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

class Instantiation {
 public:
  Instantiation(const Kernel& kernel, const ConstexprValues& values)
      : kernel_(kernel), out_(kernel), config_(config_text(kernel, values)) {
    for (const Constexpr& item : kernel.constexprs) bindings_.constexprs.push_back(values.at(item.name));
  }

  Result<Kernel> run() {
    for (Expr& extent : out_.grid) extent = extent.substitute(bindings_);
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
      for (Attr& attr : op.attrs) {
        if (auto done = make_concrete(op, attr); !done) return done.error();
      }
      if (op.code == OpCode::kRequire) {
        if (std::get<Expr>(op.attrs[0]) == Expr(0)) {
          return fail(ErrorCode::kInvalidArgument, op, "require: " + std::get<std::string>(op.attrs[1]));
        }
        continue;
      }
      if (auto done = infer(op); !done) return done.error();
      for (size_t i = 0; i < op.regions.size(); ++i) {
        if (auto done = visit(op.regions[i]); !done) return done.error();
      }
      kept.push_back(std::move(op));
    }
    region.ops = std::move(kept);
    return {};
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

  // Result types, and those of a loop's region arguments, from the concrete operands.
  Result<void> infer(Op& op) {
    std::vector<Type> operands;
    for (ValueId id : op.operands) operands.push_back(out_.type(id));
    auto types = infer_types(op.code, operands, op.attrs, out_.expr_names());
    if (!types) return fail(ErrorCode::kVerifyFailed, op, types.error().message);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const Type& type = (*types)[i];
      if (!small_enough(type)) {
        return fail(ErrorCode::kVerifyFailed, op,
                    info(op.code).name + ": " + to_string(type, out_.expr_names()) + " has too many elements");
      }
      out_.values[op.results[i]].type = type;
    }
    if (op.code == OpCode::kFor) {
      if (std::get<Expr>(op.attrs[0]).as_constant().value_or(0) < 1) {
        return fail(ErrorCode::kVerifyFailed, op, "for: num_stages must be 1 or more");
      }
      for (size_t i = 1; i < op.regions[0].args.size(); ++i) {
        out_.values[op.regions[0].args[i]].type = (*types)[i - 1];
      }
    }
    if (op.code == OpCode::kConstant) {
      if (const Expr* value = std::get_if<Expr>(&op.attrs[0])) {
        op.attrs[0] = Literal{bits_from_int(std::get<ElementType>(op.attrs[1]), value->as_constant().value_or(0))};
      }
    }
    return {};
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
  std::string config_;
};

void replace_uses(Region& region, ValueId from, ValueId to) {
  for (Op& op : region.ops) {
    for (ValueId& operand : op.operands) operand = operand == from ? to : operand;
    for (Region& inner : op.regions) replace_uses(inner, from, to);
  }
}

Result<void> check_fact(const Param& param, ParamFact fact) {
  const bool is_index = !param.type.pointer && is_int(param.type.element) && param.type.element != ElementType::kI1;
  if (fact == ParamFact::kAlign16 && !param.type.pointer) {
    return invalid_argument("fact align16: parameter `" + param.name + "` is not a pointer");
  }
  if ((fact == ParamFact::kMultiple16 || fact == ParamFact::kOne) && !is_index) {
    return invalid_argument("fact " + std::string(fact == ParamFact::kOne ? "1" : "x16") + ": parameter `" +
                            param.name + "` is not an int");
  }
  return {};
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
      const auto one = static_cast<ValueId>(kernel.values.size());
      kernel.values.push_back({param.type, ""});
      replace_uses(kernel.body, param.value, one);
      prefix.push_back({OpCode::kConstant, {}, {one}, {Literal{1}, param.type.element}, {}, {}});
      ones.params[i] = 1;
    } else if (facts[i] != ParamFact::kNone) {
      prefix.push_back({OpCode::kAssume, {param.value}, {}, {Expr(16)}, {}, {}});
    }
  }
  for (Expr& extent : kernel.grid) extent = extent.substitute(ones);
  kernel.body.ops.insert(kernel.body.ops.begin(), std::make_move_iterator(prefix.begin()),
                         std::make_move_iterator(prefix.end()));
  return {};
}

}  // namespace

Result<ConstexprValues> complete_constexprs(const Kernel& kernel, const ConstexprValues& values) {
  for (const auto& [name, value] : values) {
    if (kernel.find_constexpr(name)) continue;
    std::string known;
    for (const Constexpr& item : kernel.constexprs) known += (known.empty() ? "" : ", ") + item.name;
    return invalid_argument("kernel `" + kernel.name + "` has no constexpr `" + name + "`" +
                            (known.empty() ? "; it has none" : "; it has " + known));
  }
  ConstexprValues out;
  for (const Constexpr& item : kernel.constexprs) {
    auto given = values.find(item.name);
    if (given == values.end() && !item.default_value) {
      return invalid_argument("kernel `" + kernel.name + "`: constexpr `" + item.name +
                              "` has no value and no default");
    }
    out[item.name] = given != values.end() ? given->second : *item.default_value;
  }
  return out;
}

Result<Kernel> instantiate(const Kernel& kernel, const ConstexprValues& values, const Facts& facts) {
  if (auto valid = verify(kernel); !valid) return valid.error();
  auto complete = complete_constexprs(kernel, values);
  if (!complete) return complete.error();
  auto concrete = Instantiation(kernel, *complete).run();
  if (!concrete) return concrete.error();
  if (auto applied = apply_facts(facts, *concrete); !applied) return applied.error();
  // Dead uses of a product are gone before its uses are counted: contraction must not depend on them.
  Kernel live = canonicalise(*concrete);
  return kernel.options.contract ? canonicalise(contract(live)) : live;
}

Result<std::array<uint32_t, 3>> evaluate_grid(const std::array<Expr, 3>& grid, const Bindings& bindings) {
  std::array<uint32_t, 3> out{};
  for (size_t axis = 0; axis < 3; ++axis) {
    auto extent = grid[axis].evaluate(bindings);
    if (!extent) return invalid_argument("grid axis " + std::to_string(axis) + ": " + extent.error().message);
    const int64_t limit = axis == 0 ? 0x7fffffff : 65535;
    if (*extent < 1 || *extent > limit) {
      return invalid_argument("grid axis " + std::to_string(axis) + " is " + std::to_string(*extent) +
                              "; it must be 1 to " + std::to_string(limit));
    }
    out[axis] = static_cast<uint32_t>(*extent);
  }
  return out;
}

}  // namespace kiln::dsl
