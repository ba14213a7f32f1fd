// Verifier: types and stores, on a kernel of sound structure.
#include "verify_rules.h"

namespace kiln::dsl {
namespace {

class Types {
 public:
  Types(const Kernel& kernel, Report& report) : kernel_(kernel), report_(report), names_(kernel.expr_names()) {}

  void visit(const Region& region) {
    for (const Op& op : region.ops) visit(op);
  }

 private:
  std::string text(ValueId id) const { return to_string(kernel_.type(id), names_); }

  void visit(const Op& op) {
    std::vector<Type> operands;
    for (ValueId id : op.operands) operands.push_back(kernel_.type(id));
    auto types = infer_types(op.code, operands, op.attrs, names_);
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
    }
    if (op.code == OpCode::kConstant && std::holds_alternative<Literal>(op.attrs[0])) check_literal(op);
    if (op.code == OpCode::kFor) check_loop(op);
    for (const Region& inner : op.regions) visit(inner);
  }

  void check_literal(const Op& op) {
    const int bits = info(std::get<ElementType>(op.attrs[1])).bits;
    if (bits < 64 && std::get<Literal>(op.attrs[0]).bits >> bits) {
      report_.add(op.loc, "constant: the literal has bits beyond its type");
    }
  }

  // Structure has checked the counts of region arguments, but not the yield's.
  void check_loop(const Op& op) {
    const Region& region = op.regions[0];
    const Op& yield = region.ops.back();
    const size_t carried = op.operands.size() - 3;
    if (kernel_.type(region.args[0]) != kernel_.type(op.operands[0])) {
      report_.add(op.loc, "for: the index is " + text(region.args[0]) + ", but the start is " + text(op.operands[0]));
    }
    if (yield.operands.size() != carried) {
      report_.add(yield.loc, "yield: gives " + std::to_string(yield.operands.size()) +
                                 " values, but the loop carries " + std::to_string(carried));
      return;
    }
    for (size_t i = 0; i < carried; ++i) {
      const ValueId init = op.operands[i + 3];
      if (kernel_.type(region.args[i + 1]) != kernel_.type(init)) {
        report_.add(op.loc, "for: carried value " + std::to_string(i) + " is " + text(region.args[i + 1]) +
                                ", but starts as " + text(init));
      }
      if (kernel_.type(yield.operands[i]) != kernel_.type(init)) {
        report_.add(yield.loc, "yield: carried value " + std::to_string(i) + " is " + text(yield.operands[i]) +
                                   ", but the loop starts it as " + text(init) + "; carried types do not change");
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
    collect(kernel.body);
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
  void collect(const Region& region) {
    for (const Op& op : region.ops) {
      if (op.code == OpCode::kFor) {
        const Region& inner = op.regions[0];
        for (size_t i = 0; i + 3 < op.operands.size() && i < op.results.size(); ++i) {
          add(inner.args[i + 1], op.operands[i + 3]);
          add(op.results[i], inner.args[i + 1]);
          // The loop's next value is its yield's; through the argument every iteration is reached.
          if (i < inner.ops.back().operands.size()) add(inner.args[i + 1], inner.ops.back().operands[i]);
        }
        collect(inner);
      } else if (op.results.size() == 1) {
        for (ValueId operand : op.operands) add(op.results[0], operand);
      }
    }
  }

  void add(ValueId to, ValueId from) {
    if (kernel_.type(to).pointer && kernel_.type(from).pointer) sources_[to].push_back(from);
  }

  const Kernel& kernel_;
  std::vector<std::vector<ValueId>> sources_;
};

void check_stores(const Kernel& kernel, const Region& region, const PointerSources& sources, Report& report) {
  for (const Op& op : region.ops) {
    if (op.code == OpCode::kStore) {
      for (const Param* param : sources.readonly_roots(op.operands[0])) {
        report.add(op.loc, "store: writes through the read-only parameter `" + param->name + "`");
      }
    }
    for (const Region& inner : op.regions) check_stores(kernel, inner, sources, report);
  }
}

}  // namespace

void verify_types(const Kernel& kernel, Report& report) { Types(kernel, report).visit(kernel.body); }

void verify_readonly(const Kernel& kernel, Report& report) {
  check_stores(kernel, kernel.body, PointerSources(kernel), report);
}

}  // namespace kiln::dsl
