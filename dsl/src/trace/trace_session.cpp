// Starting and ending a trace: the kernel's signature from names and C++ types, and its config space.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "kiln/dsl/config.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/trace_kernel.h"
#include "trace/trace.h"

namespace kiln::dsl::detail {
namespace {

constexpr size_t kMaxNameLength = 256;

bool is_identifier(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  return name.size() <= kMaxNameLength &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// What keeps a text from being a name.
std::string name_problem(std::string_view name, const char* otherwise) {
  return name.size() > kMaxNameLength ? " is longer than 256 characters" : otherwise;
}

std::string in_backquotes(std::string_view name) { return "`" + std::string(name) + "`"; }

}  // namespace

// A trace with the parameters of its kernel.
struct Session {
  Session(std::string_view name, std::span<const std::string_view> names, std::span<const ParamSpec> params,
          std::source_location loc);

  // "BM" or "BM=128" for the next parameter; false after an error.
  void declare(std::string_view text, const ParamSpec& spec);

  lang::Trace trace;
  std::vector<lang::Argument> arguments;  // by position in the C++ signature; invalid for a Const
  std::vector<lang::Const> constants;     // likewise; 0 for the others
};

void Session::declare(std::string_view text, const ParamSpec& spec) {
  Kernel& kernel = trace.kernel();
  const size_t equals = text.find('=');
  const std::string name(text.substr(0, equals));
  auto fail = [&](const std::string& message) { trace.report(trace.loc(), message); };
  if (!is_identifier(name))
    return fail("kernel: " + in_backquotes(text) + name_problem(name, " does not begin with a name"));
  if (kernel.find_param(name) || kernel.find_constexpr(name))
    return fail("kernel: " + in_backquotes(name) + " is named twice");
  lang::Argument argument;
  lang::Const constant = 0;
  if (spec.is_const) {
    constant = lang::Const(Expr::constexpr_ref(static_cast<uint32_t>(kernel.constexprs.size())));
    kernel.constexprs.push_back({name, std::nullopt});
    if (equals != std::string_view::npos) {
      int64_t value = 0;
      auto [end, failure] = std::from_chars(text.data() + equals + 1, text.data() + text.size(), value);
      if (failure != std::errc() || end != text.data() + text.size()) {
        return fail("kernel: the default in " + in_backquotes(text) + " is not an integer");
      }
      kernel.constexprs.back().default_value = value;
    }
  } else {
    if (equals != std::string_view::npos) {
      return fail("kernel: " + in_backquotes(text) + ": only a Const parameter has a default");
    }
    argument.value = trace.add_value(spec.type, name);
    lang::Trace::Fact& fact = trace.fact(argument.value);
    fact.readonly = spec.readonly;
    if (!spec.type.pointer && is_int(spec.type.element)) {
      fact.launcher = Expr::param_ref(static_cast<uint32_t>(kernel.params.size()));
    }
    kernel.params.push_back({name, spec.type, spec.readonly, argument.value.id()});
  }
  arguments.push_back(argument);
  constants.push_back(constant);
}

Session::Session(std::string_view name, std::span<const std::string_view> names, std::span<const ParamSpec> params,
                 std::source_location loc)
    : trace(std::string(name), loc) {
  if (!is_identifier(name)) trace.report(loc, "kernel: " + in_backquotes(name) + name_problem(name, " is not a name"));
  if (names.size() != params.size()) {
    trace.report(loc, "kernel: " + std::to_string(names.size()) + " names for a function of " +
                          std::to_string(params.size()) + " parameters");
    return;
  }
  for (size_t i = 0; i < params.size(); ++i) declare(names[i], params[i]);
}

struct TraceSession::State : Session {
  using Session::Session;
};

TraceSession::TraceSession(std::string_view name, std::initializer_list<std::string_view> names,
                           std::vector<ParamSpec> params, std::source_location loc)
    : state_(std::make_unique<State>(name, std::span(names.begin(), names.size()), params, loc)) {}

TraceSession::~TraceSession() = default;

bool TraceSession::ready() const { return !state_->trace.failed(); }
Result<Kernel> TraceSession::finish() { return state_->trace.finish(); }
lang::Const TraceSession::constant(size_t index) const { return state_->constants[index]; }
lang::Argument TraceSession::argument(size_t index) const { return state_->arguments[index]; }

Result<Kernel> with_space(Result<Kernel> ir, const std::string& target, std::vector<SpaceAxis> axes) {
  if (!ir) return ir;
  std::erase_if(ir->space, [&](const SpaceAxis& axis) { return axis.target == target; });
  if (const std::string problem = target.empty() ? "" : target_defaults_problem(*ir, target, {}); !problem.empty()) {
    return error(ErrorCode::kVerifyFailed,
                 "kernel " + in_backquotes(ir->name) + ": space for " + in_backquotes(target) + ": " + problem);
  }
  for (SpaceAxis& axis : axes) {
    if (!ir->find_constexpr(axis.name) && !is_schedule_option(axis.name)) {
      return error(ErrorCode::kVerifyFailed, "kernel " + in_backquotes(ir->name) + ": space names " +
                                                 in_backquotes(axis.name) + ", which is neither a Const nor " +
                                                 target::schedule_option_names());
    }
    if (axis.values.empty()) {
      return error(ErrorCode::kVerifyFailed,
                   "kernel " + in_backquotes(ir->name) + ": space gives " + in_backquotes(axis.name) + " no values");
    }
    axis.target = target;
    ir->space.push_back(std::move(axis));
  }
  return ir;
}

Result<Kernel> with_constraint(Result<Kernel> ir, const std::string& constraint) {
  if (!ir) return ir;
  auto expr = parse_expr(*ir, constraint);
  if (!expr)
    return error(ErrorCode::kVerifyFailed, "kernel " + in_backquotes(ir->name) + ": where: " + expr.error().message);
  ir->constraints.push_back({std::move(*expr), {}});
  return ir;
}

Result<Kernel> with_array(Result<Kernel> ir, const std::string& param, const std::string& elements,
                          const std::string& low, const std::string& high) {
  if (!ir) return ir;
  auto fail = [&](const std::string& message) {
    return error(ErrorCode::kVerifyFailed,
                 "kernel " + in_backquotes(ir->name) + ": array " + in_backquotes(param) + ": " + message);
  };
  const auto index = ir->find_param(param);
  if (!index || !ir->params[*index].type.pointer) return fail("there is no pointer parameter of that name");
  for (const ArrayInfo& array : ir->arrays) {
    if (array.param == param && array.stated) return fail("it is described twice");
  }
  auto size = parse_expr(*ir, elements);
  if (!size) return fail(size.error().message);
  ArrayInfo array{param, std::move(*size), std::nullopt};
  if (low.empty() != high.empty()) return fail("a range has two ends");
  if (!low.empty()) {
    auto first = parse_expr(*ir, low), last = parse_expr(*ir, high);
    if (!first) return fail(first.error().message);
    if (!last) return fail(last.error().message);
    array.range.emplace(std::move(*first), std::move(*last));
  }
  std::erase_if(ir->arrays, [&](const ArrayInfo& other) { return other.param == param; });
  ir->arrays.push_back(std::move(array));
  return ir;
}

Result<Kernel> with_defaults(Result<Kernel> ir, const std::string& target, ConstexprValues values) {
  if (!ir) return ir;
  const std::string problem = target_defaults_problem(*ir, target, values);
  if (!problem.empty()) {
    return error(ErrorCode::kVerifyFailed,
                 "kernel " + in_backquotes(ir->name) + ": defaults for " + in_backquotes(target) + ": " + problem);
  }
  if (!values.empty()) ir->target_defaults[target] = std::move(values);
  return ir;
}

}  // namespace kiln::dsl::detail

namespace kiln::dsl {

lang::Value TracedParams::value(size_t index) const { return session_.arguments[index].value; }
lang::Const TracedParams::constant(size_t index) const { return session_.constants[index]; }

Result<Kernel> trace_kernel(std::string_view name, std::span<const NamedParam> params,
                            const std::function<void(const TracedParams&)>& body, std::source_location loc) {
  std::vector<std::string_view> names;
  std::vector<detail::ParamSpec> specs;
  for (const NamedParam& param : params) {
    names.push_back(param.name);
    specs.push_back({param.is_const, param.type, param.readonly});
  }
  detail::Session session(name, names, specs, loc);
  if (!session.trace.failed()) body(TracedParams(session));
  return session.trace.finish();
}

}  // namespace kiln::dsl
