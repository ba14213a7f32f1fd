// Runs a kernel program by program and op by op. Nothing here is fast; everything here is what docs/ops.md says.
#include "kiln/dsl/interpreter.h"

#include <new>
#include <optional>

#include "interpreter_impl.h"
#include "kiln/dsl/verify.h"

namespace kiln::dsl {
namespace interpreter {

// A tile of more elements is a mistake, and its memory would not be there.
constexpr int64_t kMaxElements = int64_t{1} << 31;

size_t Machine::result_size(const Op& op) const {
  size_t count = 1;
  for (int64_t extent : result_shape(op)) count *= static_cast<size_t>(extent);
  return count;
}

Error Machine::fail(const Op& op, const std::string& what) const {
  const std::string place = " (program " + std::to_string(program[0]) + ", " + std::to_string(program[1]) + ", " +
                            std::to_string(program[2]) + ")";
  return invalid_argument(diagnostic(kernel, op.loc, info(op.code).name + ": " + what + place));
}

Result<int64_t> constant_attr(const Machine& machine, const Op& op, size_t index) {
  auto value = std::get<Expr>(op.attrs[index]).as_constant();
  if (!value) return machine.fail(op, "attribute `" + info(op.code).attrs[index].name + "` is not instantiated");
  return *value;
}

namespace {

Result<void> run_region(Machine& machine, const Region& region);

Result<void> run_for(Machine& machine, const Op& op) {
  const ElementTypeInfo& type = info(machine.element(op));
  auto bound = [&](size_t i) { return wide_from_bits(type, machine.operand(op, i).bits[0]); };
  const Wide start = bound(0), end = bound(1), step = bound(2);
  if (step < 1) {
    return machine.fail(op, "step is " + std::to_string(static_cast<int64_t>(step)) + ", must be 1 or more");
  }
  const Region& body = op.regions[0];
  for (size_t i = 3; i < op.operands.size(); ++i) machine.values[body.args[i - 2]] = machine.operand(op, i);
  for (Wide index = start; index < end; index += step) {
    machine.values[body.args[0]] = {{low_bits(static_cast<uint64_t>(index), type.bits)}, {}, {}};
    auto done = run_region(machine, body);
    if (!done) return done;
    // All values are read before the first argument changes: a yield may swap two of them.
    std::vector<Tile> next;
    for (ValueId value : body.ops.back().operands) next.push_back(machine.values[value]);
    for (size_t i = 0; i < next.size(); ++i) machine.values[body.args[i + 1]] = std::move(next[i]);
  }
  for (size_t i = 0; i < op.results.size(); ++i) machine.values[op.results[i]] = machine.values[body.args[i + 1]];
  return {};
}

Result<void> run_require(Machine& machine, const Op& op) {
  auto condition = constant_attr(machine, op, 0);
  if (!condition) return condition.error();
  if (*condition == 0) return machine.fail(op, std::get<std::string>(op.attrs[1]));
  return {};
}

// No default: a new op of the table does not compile before it is here.
Result<void> run_op(Machine& machine, const Op& op) {
  switch (op.code) {
    case OpCode::kProgramId:
    case OpCode::kNumPrograms:
    case OpCode::kConstant:
    case OpCode::kArange:
    case OpCode::kSplat:
      return run_make(machine, op);
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return run_shape(machine, op);
    case OpCode::kAdd:
    case OpCode::kSub:
    case OpCode::kMul:
    case OpCode::kDiv:
    case OpCode::kRem:
    case OpCode::kFma:
    case OpCode::kMin:
    case OpCode::kMax:
    case OpCode::kNeg:
    case OpCode::kAbs:
      return run_arithmetic(machine, op);
    case OpCode::kAnd:
    case OpCode::kOr:
    case OpCode::kXor:
    case OpCode::kShl:
    case OpCode::kShr:
      return run_bits(machine, op);
    case OpCode::kCmp:
    case OpCode::kSelect:
      return run_compare(machine, op);
    case OpCode::kMath:
      return run_math(machine, op);
    case OpCode::kCast:
    case OpCode::kBitcast:
      return run_convert(machine, op);
    case OpCode::kAddptr:
    case OpCode::kLoad:
    case OpCode::kStore:
      return run_memory(machine, op);
    case OpCode::kDot:
      return run_dot(machine, op);
    case OpCode::kReduce:
      return run_reduce(machine, op);
    case OpCode::kFor:
      return run_for(machine, op);
    case OpCode::kYield:
      return {};  // run_for reads its operands
    case OpCode::kAssume:
      return {};  // false ones give unspecified results, and these are as good as any
    case OpCode::kRequire:
      return run_require(machine, op);
    default:
      return machine.fail(op, "not interpreted");
  }
  return internal_error("the interpreter met an op outside the table");
}

Result<void> run_region(Machine& machine, const Region& region) {
  for (const Op& op : region.ops) {
    auto done = run_op(machine, op);
    if (!done) return done;
  }
  return {};
}

// Concrete shapes of all values; an error where the kernel is not instantiated.
Result<void> prepare_shapes(Machine& machine) {
  for (const Value& value : machine.kernel.values) {
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (const Expr& extent : value.type.shape) {
      auto known = extent.as_constant();
      if (!known) return invalid_argument("the kernel `" + machine.kernel.name + "` is not instantiated");
      if (*known < 1 || __builtin_mul_overflow(count, *known, &count) || count > kMaxElements) {
        return invalid_argument("a tile of type " + to_string(value.type, machine.kernel.expr_names()) +
                                " is too large or empty");
      }
      shape.push_back(*known);
    }
    machine.shapes.push_back(std::move(shape));
  }
  return {};
}

Result<void> bind_arguments(Machine& machine) {
  const auto& params = machine.kernel.params;
  if (machine.arguments.size() != params.size()) {
    return invalid_argument("kernel `" + machine.kernel.name + "` takes " + std::to_string(params.size()) +
                            " arguments, not " + std::to_string(machine.arguments.size()));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].value >= machine.values.size()) return internal_error("parameter without a value");
    Tile& tile = machine.values[params[i].value];
    if (params[i].type.pointer) {
      tile = {{0}, {static_cast<uint32_t>(i)}, {}};
    } else {
      tile = {{low_bits(machine.arguments[i].bits, info(params[i].type.element).bits)}, {}, {}};
    }
  }
  return {};
}

Result<void> run_grid(Machine& machine) {
  auto& [x, y, z] = machine.program;
  for (z = 0; z < machine.grid[2]; ++z) {
    for (y = 0; y < machine.grid[1]; ++y) {
      for (x = 0; x < machine.grid[0]; ++x) {
        auto done = run_region(machine, machine.kernel.body);
        if (!done) return done;
      }
    }
  }
  return {};
}

}  // namespace
}  // namespace interpreter

Result<void> interpret(const Kernel& kernel, std::span<const Argument> arguments, std::array<uint32_t, 3> grid) try {
  interpreter::Machine machine{kernel, arguments, grid, {}, {}, {}};
  machine.values.resize(kernel.values.size());
  if (auto done = interpreter::prepare_shapes(machine); !done) return done;
  if (auto done = interpreter::bind_arguments(machine); !done) return done;
  return interpreter::run_grid(machine);
} catch (const std::bad_alloc&) {
  return error(ErrorCode::kOutOfMemory, "not enough memory to interpret `" + kernel.name + "`");
}

}  // namespace kiln::dsl
