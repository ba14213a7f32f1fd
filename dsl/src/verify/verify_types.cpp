// Verifier: types and stores, on a kernel of sound structure.
#include "kiln/dsl/walk.h"
#include "verify/verify_rules.h"

namespace kiln::dsl {
namespace {

class Types {
 public:
  Types(const Kernel& kernel, Report& report) : kernel_(kernel), report_(report), names_(kernel.expr_names()) {}

  void check(const Op& op) {
    std::vector<Type> operands;
    operands.reserve(op.operands.size());
    for (ValueId id : op.operands) operands.push_back(kernel_.type(id));
    const std::vector<Type> yields = op.code == OpCode::kIf ? yielded(op.regions[0]) : std::vector<Type>{};
    auto types = infer_types(op.code, operands, op.attrs, names_, yields);
    const std::string& name = info(op.code).name;
    if (!types) {
      report_.add(op.loc, types.error().message);
    } else if (types->size() != op.results.size()) {
      report_.add(op.loc, name + ": has " + std::to_string(op.results.size()) + " results, not " +
                              std::to_string(types->size()));
    } else {
      for (size_t i = 0; i < types->size(); ++i) {
        if (kernel_.type(op.results[i]) == (*types)[i]) continue;
        report_.add(op.loc,
                    name + ": gives " + to_string((*types)[i], names_) + ", but the result is " + text(op.results[i]));
      }
      check_regions(op, region_types(op.code, operands, op.attrs));
    }
    if (op.code == OpCode::kConstant && std::holds_alternative<Literal>(op.attrs[0])) check_literal(op);
  }

 private:
  std::string text(ValueId id) const { return to_string(kernel_.type(id), names_); }

  std::vector<Type> yielded(const Region& region) const {
    std::vector<Type> out;
    for (ValueId id : region.ops.back().operands) out.push_back(kernel_.type(id));
    return out;
  }

  void check_literal(const Op& op) {
    const int bits = info(std::get<ElementType>(op.attrs[1])).bits;
    if (bits < 64 && std::get<Literal>(op.attrs[0]).bits >> bits) {
      report_.add(op.loc, "constant: the literal has bits beyond its type");
    }
  }

  // Structure has checked the counts of region arguments, but not the yields'.
  void check_regions(const Op& op, std::vector<RegionTypes> expected) {
    const std::string& name = info(op.code).name;
    for (size_t r = 0; r < op.regions.size(); ++r) {
      const Region& region = op.regions[r];
      for (size_t i = 0; i < region.args.size(); ++i) {
        if (kernel_.type(region.args[i]) == expected[r].args[i]) continue;
        report_.add(op.loc, name + ": argument " + std::to_string(i) + " of a region is " + text(region.args[i]) +
                                ", not " + to_string(expected[r].args[i], names_));
      }
      // The branches of `if` yield alike.
      check_yield(op, region.ops.back(), expected[r].yields ? *expected[r].yields : yielded(op.regions[0]));
    }
    if (op.code == OpCode::kReduce || op.code == OpCode::kScan) check_combine(op);
  }

  void check_yield(const Op& op, const Op& yield, const std::vector<Type>& expected) {
    const std::string& name = info(op.code).name;
    if (yield.operands.size() != expected.size()) {
      return report_.add(yield.loc, "yield: gives " + std::to_string(yield.operands.size()) +
                                        " values, but this region of `" + name + "` yields " +
                                        std::to_string(expected.size()));
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      if (may_equal(kernel_.type(yield.operands[i]), expected[i])) continue;
      report_.add(yield.loc,
                  "yield: value " + std::to_string(i) + " is " + text(yield.operands[i]) + ", but this region of `" +
                      name + "` yields " + to_string(expected[i], names_) +
                      (op.code == OpCode::kFor || op.code == OpCode::kWhile ? "; carried types do not change" : ""));
    }
  }

  // Combining is a function of scalars: a backend may run it in any grouping, on any lanes.
  void check_combine(const Op& op) {
    for (const Region& region : op.regions) {
      for (const Op& inner : region.ops) {
        const OpInfo& table = info(inner.code);
        if (table.has(kElementwise) || table.has(kTerminator) || inner.code == OpCode::kConstant) continue;
        report_.add(inner.loc, table.name + ": is not allowed in the region of `" + info(op.code).name +
                                   "`, which holds elementwise ops on scalars");
      }
    }
  }

  const Kernel& kernel_;
  Report& report_;
  ExprNames names_;
};

// For each pointer value, the values its addresses come from; a store walks them back to the parameters.
class PointerSources {
 public:
  explicit PointerSources(const Kernel& kernel) : kernel_(kernel), sources_(kernel.values.size()) {
    for_each_op(kernel, [&](const Op& op) { collect(op); });
  }

  // The read-only parameters that `pointer` may address.
  std::vector<const Param*> readonly_roots(ValueId pointer) const {
    std::vector<bool> seen(sources_.size(), false);
    std::vector<ValueId> work = {pointer};
    while (!work.empty()) {
      const ValueId id = work.back();
      work.pop_back();
      if (seen[id]) continue;
      seen[id] = true;
      work.insert(work.end(), sources_[id].begin(), sources_[id].end());
    }
    std::vector<const Param*> out;
    for (const Param& param : kernel_.params) {
      if (param.readonly && seen[param.value]) out.push_back(&param);
    }
    return out;
  }

 private:
  void collect(const Op& op) {
    switch (op.code) {
      case OpCode::kFor:
        return carry(op, 3, 1);
      case OpCode::kWhile:
        return carry(op, 0, 0);
      case OpCode::kIf:
        for (const Region& branch : op.regions) add_all(op.results, branch.ops.back().operands);
        return;
      default:
        break;
    }
    if (!op.regions.empty()) return;
    for (ValueId result : op.results) {
      for (ValueId operand : op.operands) add(result, operand);
    }
  }

  // What a loop carries: the arguments of its regions are the first values or what the last region yields, and through
  // the arguments every iteration is reached.
  void carry(const Op& op, size_t first_operand, size_t first_arg) {
    const std::vector<ValueId> inits(op.operands.begin() + static_cast<ptrdiff_t>(first_operand), op.operands.end());
    for (const Region& region : op.regions) {
      const std::vector<ValueId> args(region.args.begin() + static_cast<ptrdiff_t>(first_arg), region.args.end());
      add_all(args, inits);
      add_all(args, op.regions.back().ops.back().operands);
      add_all(op.results, args);
    }
  }

  void add_all(const std::vector<ValueId>& to, const std::vector<ValueId>& from) {
    for (size_t i = 0; i < to.size() && i < from.size(); ++i) add(to[i], from[i]);
  }

  void add(ValueId to, ValueId from) {
    auto leads_to_memory = [&](ValueId id) { return kernel_.type(id).pointer || kernel_.type(id).descriptor; };
    if (leads_to_memory(to) && leads_to_memory(from)) sources_[to].push_back(from);
  }

  const Kernel& kernel_;
  std::vector<std::vector<ValueId>> sources_;
};

}  // namespace

void verify_types(const Kernel& kernel, Report& report) {
  Types types(kernel, report);
  for_each_op(kernel, [&](const Op& op) { types.check(op); });
}

void verify_readonly(const Kernel& kernel, Report& report) {
  const PointerSources sources(kernel);
  for_each_op(kernel, [&](const Op& op) {
    if (!info(op.code).has(kWrites)) return;
    for (const Param* param : sources.readonly_roots(op.operands[0])) {
      report.add(op.loc, info(op.code).name + ": writes through the read-only parameter `" + param->name + "`");
    }
  });
}

}  // namespace kiln::dsl
