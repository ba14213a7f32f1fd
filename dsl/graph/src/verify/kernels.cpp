// Kernels beside their parameters, operands, results and gradients.
#include <unordered_set>

#include "ir/expr_limits.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/verify.h"
#include "verify/checks.h"

namespace kiln::graph {
namespace {

class KernelCheck {
 public:
  KernelCheck(const Graph& graph, const TileKernel& kernel) : graph_(graph), kernel_(kernel) {}

  Result<void> run() {
    if (auto fine = dsl::verify(kernel_.kernel); !fine) return fail(fine.error().message);
    for (const auto* types : {&kernel_.operands, &kernel_.results}) {
      for (const TensorType& type : *types) {
        if (const char* problem = type_problem(type, graph_.dims)) return fail(std::string("a type ") + problem);
      }
    }
    if (kernel_.results.empty()) return fail("gives no results");
    if (kernel_.arguments.size() != kernel_.kernel.params.size()) {
      return fail("has " + std::to_string(kernel_.arguments.size()) + " arguments, for " +
                  std::to_string(kernel_.kernel.params.size()) + " parameters");
    }
    if (auto fine = arguments(); !fine) return fine;
    for (const TileKernel::Code& each : kernel_.codes) {
      if (auto fine = code(each); !fine) return fine;
    }
    return kernel_.gradient == kNone ? Result<void>() : gradient();
  }

 private:
  using Kind = TileKernel::Argument::Kind;

  Error fail(const std::string& what) const {
    return error(ErrorCode::kVerifyFailed, "kernel @" + kernel_.name + ": " + what);
  }
  std::string text(const TensorType& type) const { return to_string(type, graph_.expr_names()); }

  Result<void> arguments() {
    std::vector<bool> written(kernel_.results.size(), false), read(kernel_.operands.size(), false);
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      const TileKernel::Argument& argument = kernel_.arguments[i];
      const dsl::Param& param = kernel_.kernel.params[i];
      const std::string what = "parameter " + param.name + " ";
      if (argument.kind == Kind::kScalar) {
        if (const char* problem = expr_problem(argument.scalar, graph_.dims.size())) {
          return fail(what + "is given an expression that " + problem);
        }
        if (param.type.pointer || !dsl::is_int(param.type.element)) return fail(what + "is no int, and given a number");
        continue;
      }
      if (argument.kind != Kind::kOperand && argument.kind != Kind::kResult) return fail(what + "is given nothing");
      const bool is_result = argument.kind == Kind::kResult;
      std::vector<bool>& seen = is_result ? written : read;
      if (argument.index >= seen.size()) return fail(what + "is given a tensor that is not there");
      const TensorType& type = (is_result ? kernel_.results : kernel_.operands)[argument.index];
      if (!param.type.pointer || param.type.element != type.element) {
        return fail(what + "is of " + dsl::to_string(param.type, kernel_.kernel.expr_names()) + ", and given " +
                    text(type));
      }
      if (is_result && param.readonly) return fail(what + "is read-only, and given a result");
      if (is_result && seen[argument.index]) return fail(what + "is given a result that another has");
      seen[argument.index] = true;
    }
    for (size_t i = 0; i < written.size(); ++i) {
      if (!written[i]) return fail("no parameter is given result " + std::to_string(i));
    }
    for (size_t i = 0; i < read.size(); ++i) {
      if (!read[i]) return fail("no parameter is given operand " + std::to_string(i));
    }
    return {};
  }

  // Of these targets, and in a form that they take; the rest shows when it is compiled.
  Result<void> code(const TileKernel::Code& each) {
    const std::string family(dsl::target_family(each.target));
    if (const std::string problem = dsl::target_defaults_problem(kernel_.kernel, each.target, {}); !problem.empty()) {
      return fail("has code for a target that is none: " + problem);
    }
    const dsl::CodeForm form = each.code.form;
    const bool fits = form == dsl::CodeForm::kLlvmIr || family == (form == dsl::CodeForm::kPtx ? "cuda" : "amd");
    if (!fits)
      return fail("has " + std::string(dsl::name_of(form)) + " for " + each.target + ", which does not take it");
    auto fine = dsl::check_custom_request({dsl::declaration_of(kernel_.kernel), each.code, each.target});
    return fine ? fine : fail(fine.error().message);
  }

  Result<void> gradient() {
    if (kernel_.gradient == 0 || kernel_.gradient >= graph_.bodies.size()) return fail("its gradient is no body");
    const Body& body = graph_.bodies[kernel_.gradient];
    std::vector<const TensorType*> takes, gives;
    for (const TensorType& type : kernel_.operands) takes.push_back(&type);
    for (int times = 0; times < 2; ++times) {
      for (const TensorType& type : kernel_.results) takes.push_back(&type);
    }
    for (const TensorType& type : kernel_.operands) {
      if (dsl::is_float(type.element)) gives.push_back(&type);
    }
    if (body.inputs.size() != takes.size() || body.outputs.size() != gives.size()) {
      return fail("its gradient @" + body.name + " must take " + std::to_string(takes.size()) +
                  " tensors (operands, results, a gradient of each result) and give " + std::to_string(gives.size()) +
                  " (one of each float operand)");
    }
    for (size_t i = 0; i < takes.size(); ++i) {
      if (graph_.type(body, body.inputs[i].value) == *takes[i]) continue;
      return fail("input " + body.inputs[i].name + " of its gradient @" + body.name + " must be " + text(*takes[i]));
    }
    for (size_t i = 0; i < gives.size(); ++i) {
      if (graph_.type(body, body.outputs[i].value) == *gives[i]) continue;
      return fail("output " + body.outputs[i].name + " of its gradient @" + body.name + " must be " + text(*gives[i]));
    }
    return {};
  }

  const Graph& graph_;
  const TileKernel& kernel_;
};

}  // namespace

Result<void> verify_kernels(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (const TileKernel& kernel : graph.kernels) {
    if (kernel.name.empty()) return error(ErrorCode::kVerifyFailed, "a kernel has no name");
    if (!names.insert(kernel.name).second) {
      return error(ErrorCode::kVerifyFailed, "two kernels have the name @" + kernel.name);
    }
    if (auto fine = KernelCheck(graph, kernel).run(); !fine) return fine;
  }
  return {};
}

}  // namespace kiln::graph
