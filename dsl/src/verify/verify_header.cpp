// Verifier: names, parameters and the grid.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "ir/kernel_limits.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/text_format.h"
#include "verify/verify_rules.h"

namespace kiln::dsl {
namespace {

constexpr Location kNowhere;

struct ExprUse {
  bool params_allowed = false;
  std::string problem = {};

  void visit(const Kernel& kernel, const Expr& expr, int depth = 0) {
    if (depth >= kMaxExprDepth) problem = "is nested too deeply";
    if (!problem.empty()) return;
    for (const Term& term : expr.terms()) {
      for (const Atom& atom : term.atoms) visit(kernel, atom, depth);
    }
  }

  void visit(const Kernel& kernel, const Atom& atom, int depth) {
    if (atom.kind == AtomKind::kConstexpr) {
      if (atom.index >= kernel.constexprs.size()) problem = "mentions an unknown constexpr";
    } else if (atom.kind != AtomKind::kParam) {
      visit(kernel, atom.args->first, depth + 1);
      visit(kernel, atom.args->second, depth + 1);
    } else if (!params_allowed) {
      problem = "mentions a parameter; only constexprs are known at instantiation";
    } else if (atom.index >= kernel.params.size()) {
      problem = "mentions an unknown parameter";
    } else {
      const Param& param = kernel.params[atom.index];
      if (param.type.pointer || !is_int(param.type.element)) {
        problem = "mentions the parameter `" + param.name + "`, which is not an int";
      }
    }
  }
};

void check_arrays(const Kernel& kernel, Report& report) {
  auto check = [&](const std::string& what, const Expr& expr) {
    const std::string problem = expr_problem(kernel, expr, true);
    if (!problem.empty()) report.add(kNowhere, what + " " + problem);
  };
  for (const Condition& constraint : kernel.constraints) check("a condition of launches", constraint.expr);
  std::unordered_set<std::string> described;
  for (const ArrayInfo& array : kernel.arrays) {
    const auto param = kernel.find_param(array.param);
    if (!param || !kernel.params[*param].type.pointer)
      report.add(kNowhere, "the array `" + array.param + "` is not a pointer parameter");
    else if (!described.insert(array.param).second)
      report.add(kNowhere, "the array `" + array.param + "` is described twice");
    check("the size of the array `" + array.param + "`", array.elements);
    if (!array.range) continue;
    check("the range of the array `" + array.param + "`", array.range->first);
    check("the range of the array `" + array.param + "`", array.range->second);
  }
}

void check_params(const Kernel& kernel, Report& report) {
  size_t bytes = 0;
  for (const Param& param : kernel.params) bytes += kParamBytes + param.name.size();
  if (bytes <= kMaxParamBytes) return;
  report.add(kNowhere, "the kernel has " + std::to_string(kernel.params.size()) +
                           " parameters, whose description takes " + std::to_string(bytes) +
                           " bytes; an artifact has room for " + std::to_string(kMaxParamBytes) +
                           ": pass an array in place of scalars");
}

void check_names(const Kernel& kernel, Report& report) {
  if (kernel.name.size() > 256)
    report.add(kNowhere, "a kernel's name has up to 256 characters");
  else if (!is_name(kernel.name))
    report.add(kNowhere, "a kernel's name is letters, digits, `_` and `.`");
  std::unordered_set<std::string> names;
  auto check = [&](const std::string& name, const char* what) {
    if (!is_name(name))
      report.add(kNowhere, std::string(what) + " `" + name.substr(0, 40) + "` " + name_problem(name));
    else if (!names.insert(name).second)
      report.add(kNowhere, "the name `" + name + "` is used twice");
  };
  for (const Param& param : kernel.params) check(param.name, "a parameter");
  for (const Constexpr& item : kernel.constexprs) {
    check(item.name, "a constexpr");
    if (is_schedule_option(item.name))
      report.add(kNowhere, "a constexpr has the name of a schedule option, `" + item.name + "`");
  }
  for (const auto& [target, values] : kernel.target_defaults) {
    const std::string problem = target_defaults_problem(kernel, target, values);
    if (!problem.empty()) report.add(kNowhere, "the defaults for `" + target.substr(0, 80) + "`: " + problem);
  }
  std::set<std::pair<std::string, std::string>> axes;
  for (const SpaceAxis& axis : kernel.space) {
    if (!is_name(axis.name))
      report.add(kNowhere, "a space axis has no usable name");
    else if (!axes.emplace(axis.target, axis.name).second)
      report.add(kNowhere, "the space has two axes `" + axis.name + "`" +
                               (axis.target.empty() ? "" : " for `" + axis.target + "`"));
    if (const std::string problem = axis.target.empty() ? "" : target_defaults_problem(kernel, axis.target, {});
        !problem.empty()) {
      report.add(kNowhere, "the space axis `" + axis.name + "`: " + problem);
    }
    if (!kernel.find_constexpr(axis.name) && !is_schedule_option(axis.name)) {
      report.add(kNowhere,
                 "the space axis `" + axis.name + "` is neither a constexpr nor " + target::schedule_option_names());
    }
    for (int64_t value : axis.values) {
      if (kernel.find_constexpr(axis.name) || !is_schedule_option(axis.name)) break;
      if (auto fine = check_schedule_option(axis.name, value); !fine) report.add(kNowhere, fine.error().message);
    }
    if (axis.values.empty()) report.add(kNowhere, "the space axis `" + axis.name + "` has no values");
  }
  check_params(kernel, report);
  check_arrays(kernel, report);
  std::unordered_set<std::string> values;
  for (const Value& value : kernel.values) {
    if (!value.name.empty() && !values.insert(value.name).second) {
      report.add(kNowhere, "two values are named `%" + value.name + "`");
    }
  }
}

}  // namespace

std::string expr_problem(const Kernel& kernel, const Expr& expr, bool params_allowed) {
  if (tree_size(expr, kMaxExprSize) == kMaxExprSize) return "is too large";
  ExprUse use{params_allowed};
  use.visit(kernel, expr);
  return use.problem;
}

void verify_header(const Kernel& kernel, Report& report) {
  check_names(kernel, report);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const Param& param = kernel.params[i];
    if (!param.type.is_scalar()) report.add(kNowhere, "parameter `" + param.name + "` must be a scalar or a pointer");
    if (param.readonly && !param.type.pointer) {
      report.add(kNowhere, "parameter `" + param.name + "` is `readonly` but not a pointer");
    }
    if (param.may_alias && !param.type.pointer) {
      report.add(kNowhere, "parameter `" + param.name + "` is `may_alias` but not a pointer");
    }
    if (param.value >= kernel.values.size()) {
      report.add(kNowhere, "parameter `" + param.name + "` has no value");
    } else if (kernel.values[param.value].type != param.type) {
      report.add(kNowhere, "parameter `" + param.name + "` and its value have different types");
    }
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    const std::string problem = expr_problem(kernel, kernel.grid[axis], true);
    if (!problem.empty()) report.add(kNowhere, "grid axis " + std::to_string(axis) + " " + problem);
    auto known = kernel.grid[axis].as_constant();
    if (known && *known < 1)
      report.add(kNowhere, "grid axis " + std::to_string(axis) + " is " + std::to_string(*known));
  }
}

}  // namespace kiln::dsl
