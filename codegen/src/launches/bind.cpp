#include "launches/bind.h"

#include <algorithm>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

class Binder {
 public:
  Binder(const LaunchSequence& sequence, LaunchStep& step)
      : sequence_(sequence), step_(step), kernel_(step.kernel), build_(kernel_, ops_, dsl::Location()) {}

  void run() {
    const std::vector<dsl::Param> given(kernel_.params.begin() + static_cast<ptrdiff_t>(sequence_.kernel_params),
                                        kernel_.params.end());
    const ElementType element = given[1].type.element;
    kernel_.params.resize(sequence_.kernel_params);
    const ValueId workspace = fresh_value(kernel_, {element, true, {}});
    std::string name = "workspace";
    while (kernel_.find_param(name)) name += "_";
    kernel_.params.push_back({name, {element, true, {}}, false, workspace, false});
    kernel_.grid[0] = kernel_.grid[0] * dsl::Expr(step_.chunks);
    build_.effect(OpCode::kAssume, {workspace}, {dsl::Expr(kAlignment)});
    find_program();
    define(given[0].value, OpCode::kRem, {own_id_, chunks_});
    const int64_t bytes = dsl::info(element).bytes;
    const ValueId part =
        build_.add(OpCode::kMul, {linear_id(), number(ElementType::kI64, sequence_.workspace_bytes / bytes)});
    for (size_t i = 1; i < given.size(); ++i) {
      const ValueId offset = number(ElementType::kI64, sequence_.workspace_offsets[i - 1] / bytes);
      define(given[i].value, OpCode::kAddptr, {workspace, build_.add(OpCode::kAdd, {part, offset})});
    }
    rename_programs();
    std::ranges::move(kernel_.body.ops, std::back_inserter(ops_));
    kernel_.body.ops = std::move(ops_);
    kernel_ = dsl::canonicalise(kernel_);
  }

 private:
  static constexpr int64_t kAlignment = 64;  // bytes: of the workspace, and of what a program has of it

  ValueId number(ElementType type, int64_t x) { return build_.constant(type, static_cast<uint64_t>(x)); }
  void define(ValueId id, OpCode code, std::vector<ValueId> operands) {
    build_.add(code, std::move(operands));
    ops_.back().results[0] = id;
  }

  // Along the first axis of the kernel's grid.
  void find_program() {
    chunks_ = number(ElementType::kI32, step_.chunks);
    own_id_ = build_.add(OpCode::kProgramId, {}, {int64_t{0}});
    id_ = build_.add(OpCode::kDiv, {own_id_, chunks_});
    count_ = build_.add(OpCode::kDiv, {build_.add(OpCode::kNumPrograms, {}, {int64_t{0}}), chunks_});
  }

  // x + gx·(y + gy·z), i64
  ValueId linear_id() {
    const auto wide = [&](ValueId x) { return build_.add(OpCode::kCast, {x}, {ElementType::kI64}); };
    const auto along = [&](OpCode code, int64_t axis) { return wide(build_.add(code, {}, {axis})); };
    const ValueId plane = build_.add(OpCode::kMul, {along(OpCode::kNumPrograms, 1), along(OpCode::kProgramId, 2)});
    const ValueId row = build_.add(OpCode::kAdd, {along(OpCode::kProgramId, 1), plane});
    return build_.add(OpCode::kAdd, {wide(id_), build_.add(OpCode::kMul, {wide(count_), row})});
  }

  // What is of the step's grid along the first axis becomes what is of the kernel's.
  void rename_programs() {
    dsl::ValueMap instead;
    dsl::rewrite_ops(kernel_, [&](Op& op, std::vector<Op>& out) {
      instead.apply(op.operands);
      if (family_of(op) == dsl::OpFamily::kProgram && int_attr(op, 0) == 0) {
        instead.set(op.results[0], op.code == OpCode::kProgramId ? id_ : count_);
      } else {
        out.push_back(std::move(op));
      }
    });
  }

  const LaunchSequence& sequence_;
  LaunchStep& step_;
  dsl::Kernel& kernel_;
  std::vector<Op> ops_;
  OpBuilder build_;
  ValueId own_id_ = 0, id_ = 0, count_ = 0, chunks_ = 0;
};

}  // namespace

void bind_steps(LaunchSequence& sequence) {
  for (LaunchStep& step : sequence.steps) Binder(sequence, step).run();
}

}  // namespace kiln::codegen
