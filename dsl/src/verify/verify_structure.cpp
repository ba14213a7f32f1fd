// Verifier: what must hold before any other rule may look at an op.
#include <algorithm>

#include "verify/verify_rules.h"

namespace kiln::dsl {
namespace {

class Structure {
 public:
  Structure(const Kernel& kernel, Report& report)
      : kernel_(kernel), report_(report), state_(kernel.values.size(), State::kUndefined) {}

  void run() {
    for (const Param& param : kernel_.params) {
      if (param.value < state_.size()) define(param.value, {}, "parameter `" + param.name + "`");
    }
    for (const Value& value : kernel_.values) check_type(value.type);
    visit(kernel_.body, 0);
  }

 private:
  enum class State : uint8_t { kUndefined, kVisible, kHidden };

  std::string name_of(ValueId id) const {
    const std::string& name = kernel_.values[id].name;
    return name.empty() ? "value #" + std::to_string(id) : "`%" + name + "`";
  }

  void define(ValueId id, const Location& loc, const std::string& by) {
    if (id >= state_.size()) return report_.add(loc, by + ": a result is no value of the kernel");
    if (state_[id] != State::kUndefined) return report_.add(loc, by + ": " + name_of(id) + " is defined twice");
    state_[id] = State::kVisible;
    defined_.push_back(id);
  }

  void check_type(const Type& type) {
    if (static_cast<size_t>(type.element) >= static_cast<size_t>(kElementTypeCount)) {
      report_.add({}, "a value has an unknown element type");
    }
    for (const Expr& extent : type.shape) {
      const std::string problem = expr_problem(kernel_, extent, false);
      if (!problem.empty()) report_.add({}, "an extent " + problem);
    }
  }

  void visit(const Region& region, int depth) {
    if (depth > kMaxRegionDepth) return report_.add({}, "regions are nested too deeply");
    for (size_t i = 0; i < region.ops.size(); ++i) {
      visit(region.ops[i], depth);
      const Op& op = region.ops[i];
      if (static_cast<int>(op.code) >= kOpCount) continue;
      const bool last = i + 1 == region.ops.size();
      if (info(op.code).has(kTerminator) && (depth == 0 || !last)) {
        report_.add(op.loc, info(op.code).name + (depth == 0 ? ": only ends a region, and the kernel's body has none"
                                                             : ": must be the last op of its region"));
      }
    }
    if (depth > 0 && (region.ops.empty() || region.ops.back().code != OpCode::kYield)) {
      report_.add(region.ops.empty() ? Location{} : region.ops.back().loc, "a region must end with yield");
    }
  }

  void visit(const Op& op, int depth) {
    // A broken op still defines its results, so that their uses do not complain as well.
    if (static_cast<int>(op.code) >= kOpCount) {
      report_.add(op.loc, "an op has an unknown code");
      for (ValueId result : op.results) define(result, op.loc, "an op");
      return;
    }
    const OpInfo& table = info(op.code);
    if (auto fits = check_arity(op.code, op.operands.size(), op.attrs); !fits)
      report_.add(op.loc, fits.error().message);
    for (const Attr& attr : op.attrs) check_attr(op, attr);
    for (ValueId operand : op.operands) {
      if (operand >= state_.size()) {
        report_.add(op.loc, table.name + ": an operand is no value of the kernel");
      } else if (state_[operand] != State::kVisible) {
        report_.add(op.loc,
                    table.name + ": " + name_of(operand) +
                        (state_[operand] == State::kHidden ? " is defined in a region that does not enclose this use"
                                                           : " is used before it is defined"));
      }
    }
    check_regions(op);
    for (const Region& region : op.regions) visit_region(op, region, depth);
    for (ValueId result : op.results) define(result, op.loc, table.name);
  }

  // How many regions and arguments; on sound operands and attributes only, since these say how many.
  void check_regions(const Op& op) {
    if (!check_arity(op.code, op.operands.size(), op.attrs)) return;
    std::vector<Type> operands;
    operands.reserve(op.operands.size());
    for (ValueId operand : op.operands) {
      if (operand >= state_.size()) return;
      operands.push_back(kernel_.type(operand));
    }
    const std::string& name = info(op.code).name;
    const std::vector<RegionTypes> expected = region_types(op.code, operands, op.attrs);
    if (op.regions.size() != expected.size()) {
      return report_.add(op.loc, name + ": has " + std::to_string(op.regions.size()) + " regions, not " +
                                     std::to_string(expected.size()));
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      if (op.regions[i].args.size() == expected[i].args.size()) continue;
      report_.add(op.loc, name + ": the region has " + std::to_string(op.regions[i].args.size()) + " arguments, not " +
                              std::to_string(expected[i].args.size()) + " (" + expected[i].arg_doc + ")");
    }
  }

  void visit_region(const Op& op, const Region& region, int depth) {
    const size_t outer = defined_.size();
    for (ValueId arg : region.args) define(arg, op.loc, info(op.code).name);
    visit(region, depth + 1);
    for (; defined_.size() > outer; defined_.pop_back()) state_[defined_.back()] = State::kHidden;
  }

  void check_attr(const Op& op, const Attr& attr) {
    std::string problem;
    if (const Expr* expr = std::get_if<Expr>(&attr)) {
      problem = expr_problem(kernel_, *expr, false);
    } else if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) {
      for (const Expr& item : *list) {
        if (problem.empty()) problem = expr_problem(kernel_, item, false);
      }
    } else if (const ElementType* element = std::get_if<ElementType>(&attr)) {
      if (static_cast<size_t>(*element) >= static_cast<size_t>(kElementTypeCount))
        problem = "is an unknown element type";
    }
    if (!problem.empty()) report_.add(op.loc, info(op.code).name + ": an attribute " + problem);
  }

  const Kernel& kernel_;
  Report& report_;
  std::vector<State> state_;
  std::vector<ValueId> defined_;  // in order, so that a region's end can hide what it defined
};

}  // namespace

void verify_structure(const Kernel& kernel, Report& report) { Structure(kernel, report).run(); }

}  // namespace kiln::dsl
