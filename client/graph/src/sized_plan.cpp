#include "sized_plan.h"

#include <utility>

#include "prepared_plan.h"

namespace kiln::client {
namespace {

using graph::Expr;
using graph::Plan;
using Home = graph::PlannedBuffer::Home;

constexpr uint64_t kMostBytes = uint64_t{1} << 60;

// Thrown inside of this file only.
struct Failure {
  Error error;
};

class Sizing {
 public:
  Sizing(const Plan& plan, std::span<const uint64_t> constants, dsl::Bindings dims)
      : plan_(plan), constants_(constants), dims_(std::move(dims)) {}

  std::shared_ptr<SizedPlan> run() {
    check_dims();
    for (const graph::PlannedTensor& input : plan_.inputs) out_->inputs.push_back(tensor(input));
    for (const graph::PlannedTensor& output : plan_.outputs) {
      out_->outputs.push_back(tensor(output));
      out_->output_bytes += out_->outputs.back().bytes;
      if (out_->output_bytes > kMostBytes) too_large("the results");
    }
    out_->arena_bytes = bytes(plan_.arena_bytes, [] { return std::string("the arena"); });
    for (size_t i = 0; i < plan_.buffers.size(); ++i) add_buffer(i);
    for (size_t i = 0; i < plan_.launches.size(); ++i) add_launch(i);
    for (const graph::PlannedLoop& loop : plan_.loops) {
      out_->loop_lengths.push_back(number(loop.length, [] { return std::string("the length of a loop"); }));
    }
    out_->prepared = std::make_shared<PreparedPlans>();
    return std::move(out_);
  }

 private:
  [[noreturn]] void too_large(const std::string& what) const {
    throw Failure{error(ErrorCode::kOutOfMemory, "graph `" + plan_.name + "`: " + what + " is larger than any memory")};
  }
  [[noreturn]] void bad_plan(const std::string& what) const {
    throw Failure{internal_error("the plan of graph `" + plan_.name + "` is wrong: " + what)};
  }

  void check_dims() const {
    for (size_t i = 0; i < plan_.dims.size(); ++i) {
      if (dims_.constexprs[i]) continue;
      throw Failure{invalid_argument("graph `" + plan_.name + "`: no input says what the dim `" + plan_.dims[i].name +
                                     "` is, and it was not given")};
    }
  }

  // `what` says what it is of; it is called where something is wrong.
  template <class What>
  int64_t number(const Expr& expr, const What& what) const {
    if (const auto constant = expr.as_constant()) return *constant;
    const auto value = expr.evaluate(dims_);
    if (!value) too_large(what());
    return *value;
  }
  template <class What>
  uint64_t bytes(const Expr& expr, const What& what) const {
    const int64_t value = number(expr, what);
    if (value < 0) bad_plan(what() + " has " + std::to_string(value) + " bytes");
    if (static_cast<uint64_t>(value) > kMostBytes) too_large(what());
    return static_cast<uint64_t>(value);
  }

  SizedPlan::Tensor tensor(const graph::PlannedTensor& planned) const {
    SizedPlan::Tensor out;
    out.bytes = static_cast<uint64_t>(dsl::info(planned.type.element).bytes);
    const auto what = [&] { return "`" + planned.name + "`"; };
    for (const Expr& extent : planned.type.shape) out.shape.push_back(number(extent, what));
    for (const int64_t extent : out.shape) {
      if (__builtin_mul_overflow(out.bytes, static_cast<uint64_t>(extent), &out.bytes) || out.bytes > kMostBytes) {
        too_large(what());
      }
    }
    return out;
  }

  uint64_t room_of(const graph::PlannedBuffer& buffer) const {
    switch (buffer.home) {
      case Home::kInput:
        return out_->inputs[buffer.index].bytes;
      case Home::kOutput:
        return out_->outputs[buffer.index].bytes;
      case Home::kConstant:
        return constants_[buffer.index];
      case Home::kArena:
        break;
    }
    return out_->arena_bytes;
  }

  void add_buffer(size_t index) {
    const graph::PlannedBuffer& planned = plan_.buffers[index];
    const auto what = [&] { return "buffer " + std::to_string(index); };
    SizedPlan::Buffer out{0, bytes(planned.bytes, what)};
    if (planned.home == Home::kArena) {
      out.offset = bytes(planned.offset, what);
      if (out.offset % graph::kArenaAlignment != 0) bad_plan(what() + " is not aligned");
    }
    if (out.offset + out.bytes > room_of(planned)) {
      bad_plan(what() + " of " + std::to_string(out.bytes) + " bytes is outside of its memory of " +
               std::to_string(room_of(planned)));
    }
    out_->buffers.push_back(out);
  }

  void add_launch(size_t index) {
    const graph::PlannedLaunch& launch = plan_.launches[index];
    const std::vector<dsl::Param>& params = plan_.kernels[launch.kernel].kernel.params;
    for (size_t i = 0; i < params.size(); ++i) {
      const graph::PlannedArgument& planned = launch.arguments[i];
      const auto what = [&] { return launch_text(plan_, index) + ": `" + params[i].name + "`"; };
      out_->arguments.push_back(planned.kind == graph::PlannedArgument::Kind::kScalar
                                    ? scalar(planned.scalar, params[i].type.element, what)
                                    : pointer(planned, params[i].type.element, what));
    }
    const auto moved = launch.moved.evaluate(dims_);
    out_->moved_bytes.push_back(moved && *moved >= 0 ? static_cast<uint64_t>(*moved) : UINT64_MAX);
    out_->argument_end.push_back(static_cast<uint32_t>(out_->arguments.size()));
  }

  // What is left to be said in each pass; none where nothing is.
  std::optional<Expr> varying(const Expr& expr) const {
    if (plan_.loops.empty() || expr.as_constant()) return std::nullopt;
    Expr known = expr.substitute(dims_);
    return known.as_constant() ? std::nullopt : std::optional(std::move(known));
  }

  template <class What>
  SizedPlan::Argument scalar(const Expr& expr, dsl::ElementType element, const What& what) const {
    if (auto left = varying(expr)) return {.varying = std::move(left), .element = element};
    const int64_t value = number(expr, what);
    if (!dsl::int_fits(element, value)) {
      throw Failure{invalid_argument(what() + " is " + std::to_string(value) + ", which no " +
                                     std::string(dsl::info(element).name) + " is")};
    }
    return {.value = dsl::bits_from_int(element, value)};
  }

  template <class What>
  SizedPlan::Argument pointer(const graph::PlannedArgument& planned, dsl::ElementType element, const What& what) const {
    const uint64_t size = out_->buffers[planned.buffer].bytes;
    if (auto left = varying(planned.offset)) {
      return {.buffer = planned.buffer, .varying = std::move(left), .buffer_bytes = size, .element = element};
    }
    const uint64_t offset = bytes(planned.offset, what);
    if (offset > size) bad_plan(what() + " is outside of its buffer");
    return {.buffer = planned.buffer,
            .value = offset,
            .extent = static_cast<int64_t>((size - offset) / dsl::info(element).bytes)};
  }

  const Plan& plan_;
  const std::span<const uint64_t> constants_;
  const dsl::Bindings dims_;
  std::shared_ptr<SizedPlan> out_ = std::make_shared<SizedPlan>();
};

}  // namespace

Result<SizedPlan::Argument> SizedPlan::at(const Argument& argument, const dsl::Bindings& dims) {
  auto number = argument.varying->evaluate(dims);
  if (!number) return number.error();
  Argument out{.buffer = argument.buffer};
  if (argument.buffer == graph::kNone) {
    if (!dsl::int_fits(argument.element, *number)) {
      return invalid_argument(std::to_string(*number) + " is no " + std::string(dsl::info(argument.element).name));
    }
    out.value = dsl::bits_from_int(argument.element, *number);
    return out;
  }
  if (*number < 0 || static_cast<uint64_t>(*number) > argument.buffer_bytes) {
    return internal_error("a plan is wrong: an argument is outside of its buffer");
  }
  out.value = static_cast<uint64_t>(*number);
  out.extent = static_cast<int64_t>((argument.buffer_bytes - out.value) / dsl::info(argument.element).bytes);
  return out;
}

void size_key(const Plan& plan, std::span<const graph::GivenTensor> inputs, const std::map<std::string, int64_t>& sizes,
              std::vector<int64_t>& key) {
  key.clear();
  for (const graph::GivenTensor& input : inputs) key.insert(key.end(), input.shape.begin(), input.shape.end());
  if (sizes.empty()) return;
  for (const graph::DimInfo& dim : plan.dims) {
    const auto given = sizes.find(dim.name);
    key.push_back(given == sizes.end() ? -1 : given->second);
  }
}

Result<std::shared_ptr<const SizedPlan>> size_plan(const Plan& plan, std::span<const uint64_t> constants,
                                                   std::span<const graph::GivenTensor> inputs,
                                                   const std::map<std::string, int64_t>& sizes) {
  std::vector<graph::DeclaredTensor> declared;
  for (const graph::PlannedTensor& input : plan.inputs) declared.push_back({input.name, &input.type});
  auto dims = graph::bind_sizes(plan.name, plan.dims, declared, inputs, sizes);
  if (!dims) return dims.error();
  try {
    const auto out = Sizing(plan, constants, std::move(*dims)).run();
    size_key(plan, inputs, sizes, out->sizes);
    return std::shared_ptr<const SizedPlan>(out);
  } catch (const Failure& failure) {
    return failure.error;
  }
}

std::string launch_text(const Plan& plan, size_t launch) {
  const graph::PlannedLaunch& it = plan.launches[launch];
  return "launch " + std::to_string(launch) + ", `" + it.name + "`" + (it.place.empty() ? "" : " (" + it.place + ")");
}

}  // namespace kiln::client
