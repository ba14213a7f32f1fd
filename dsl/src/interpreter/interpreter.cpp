// Runs a kernel program by program and op by op. Nothing here is clever; everything here is what docs/reference/ops.md
// says.
#include "kiln/dsl/interpreter.h"

#include <new>

#include "interpreter/interpreter_impl.h"
#include "kiln/dsl/conditions.h"
#include "kiln/dsl/float_mode.h"
#include "kiln/dsl/verify.h"

namespace kiln::dsl {
namespace interpreter {

// A tile of more elements is a mistake, and its memory would not be there.
constexpr int64_t kMaxElements = int64_t{1} << 31;

size_t Machine::result_size(const Op& op, size_t i) const {
  size_t count = combine_lanes;
  for (int64_t extent : shapes[op.results[i]]) count *= static_cast<size_t>(extent);
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

// An op that cannot fail.
Result<void> run(Machine& machine, const Op& op, void (*function)(Machine&, const Op&)) {
  function(machine, op);
  return {};
}

Result<void> run_memory(Machine& machine, const Op& op) {
  if (op.code == OpCode::kLoad) return run_load(machine, op);
  if (op.code == OpCode::kStore) return run_store(machine, op);
  return run(machine, op, run_addptr);
}

Result<void> run_collective(Machine& machine, const Op& op) {
  switch (op.code) {
    case OpCode::kReduce:
      return run_reduce(machine, op);
    case OpCode::kScan:
      return run_scan(machine, op);
    case OpCode::kSort:
      return run(machine, op, run_sort);
    case OpCode::kTopk:
      return run_topk(machine, op);
    default:
      return run(machine, op, run_histogram);
  }
}

Result<void> run_control(Machine& machine, const Op& op) {
  switch (op.code) {
    case OpCode::kFor:
      return run_for(machine, op);
    case OpCode::kWhile:
      return run_while(machine, op);
    case OpCode::kIf:
      return run_if(machine, op);
    default:
      return {};  // kYield: the op that has the region reads its operands
  }
}

Result<void> run_fact(Machine& machine, const Op& op) {
  switch (op.code) {
    case OpCode::kAssume:
      return run_assume(machine, op);
    case OpCode::kRequire:
      return run_require(machine, op);
    case OpCode::kAssert:
      return run_assert(machine, op);
    default:
      return run(machine, op, run_print);
  }
}

// No default: a new family of the table does not compile before it is here.
Result<void> run_op(Machine& machine, const Op& op) {
  switch (info(op.code).family) {
    case OpFamily::kProgram:
      return run(machine, op, run_program);
    case OpFamily::kMake:
      return run_make(machine, op);
    case OpFamily::kView:
    case OpFamily::kPair:
    case OpFamily::kMovement:
      return run_shape(machine, op);
    case OpFamily::kArithmetic:
      return run(machine, op, run_arithmetic);
    case OpFamily::kBits:
      return run(machine, op, run_bits);
    case OpFamily::kChoice:
      return run(machine, op, op.code == OpCode::kCmp ? run_cmp : run_select);
    case OpFamily::kMath:
      return run(machine, op, run_math);
    case OpFamily::kConversion:
      return run(machine, op, op.code == OpCode::kCast ? run_cast : run_bitcast);
    case OpFamily::kMemory:
      return run_memory(machine, op);
    case OpFamily::kAtomic:
      return run_atomic(machine, op);
    case OpFamily::kDescribed:
      return op.code == OpCode::kDescriptor ? run(machine, op, run_descriptor) : run_described(machine, op);
    case OpFamily::kDot:
      return run(machine, op, op.code == OpCode::kDot ? run_dot : run_dot_scaled);
    case OpFamily::kCollective:
      return run_collective(machine, op);
    case OpFamily::kRandom:
      return run(machine, op, run_philox);
    case OpFamily::kControl:
      return run_control(machine, op);
    case OpFamily::kFact:
      return run_fact(machine, op);
    case OpFamily::kAsm:
      return machine.fail(op, "is target assembly, for GPU targets only");
  }
  return internal_error("the interpreter met an op outside the table");
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
      tile.set_scalar(0);
      tile.base = {static_cast<uint32_t>(i)};
    } else {
      tile.set_scalar(low_bits(machine.arguments[i].bits, info(params[i].type.element).bits));
    }
  }
  machine.memory.bind(machine);
  return {};
}

Result<void> run_grid(Machine& machine) {
  auto& [x, y, z] = machine.program;
  for (z = 0; z < machine.grid[2]; ++z) {
    for (y = 0; y < machine.grid[1]; ++y) {
      for (x = 0; x < machine.grid[0]; ++x) {
        machine.memory.begin_program(machine);
        auto done = run_region(machine, machine.kernel.body);
        if (!done) return done;
      }
    }
  }
  return {};
}

}  // namespace

Result<void> run_region(Machine& machine, const Region& region) {
  for (const Op& op : region.ops) {
    auto done = run_op(machine, op);
    if (!done) return done;
  }
  return {};
}

}  // namespace interpreter

Result<void> interpret(const Kernel& kernel, std::span<const Argument> arguments, std::array<uint32_t, 3> grid,
                       const InterpretOptions& options) try {
  const FloatMode mode;
  interpreter::Machine machine{kernel, arguments, grid, options};
  machine.values.resize(kernel.values.size());
  if (auto done = interpreter::prepare_shapes(machine); !done) return done;
  if (auto done = interpreter::bind_arguments(machine); !done) return done;
  Bindings bindings;
  bind_ints(kernel, arguments, bindings.params);
  if (auto met = check_conditions(kernel, bindings); !met) return met;
  return interpreter::run_grid(machine);
} catch (const std::bad_alloc&) {
  return error(ErrorCode::kOutOfMemory, "not enough memory to interpret `" + kernel.name + "`");
}

}  // namespace kiln::dsl
