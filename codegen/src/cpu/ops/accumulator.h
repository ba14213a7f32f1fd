// What a reduction keeps while it walks: per lane along the reduced axis, or one lane per result across it. Lives in
// allocas that the pipeline promotes to registers.
#pragma once

#include <memory>

#include "cpu/ops/combine.h"

namespace kiln::codegen::cpu {

class Accumulator {
 public:
  // Elements to take in: a vector (or scalar) per operand.
  struct Elements {
    Registers values;
    Value* lanes = nullptr;  // the active ones; null: all
    Value* index = nullptr;  // i64, along the reduced axis: of the first lane, or of all of them
  };
  // What stands for all elements so far, for reductions that leave off at the end of a block and go on later.
  struct State {
    ElementType element;
    Value* variable;
  };

  Accumulator(Context& context, const Op& reduce, int width)
      : ctx(context), ir(context.ir), op(reduce), width_(width) {}
  virtual ~Accumulator() = default;

  virtual void reset() = 0;
  virtual Result<void> add(const Elements& elements) = 0;
  // After a number of elements that a sum in one precision bears.
  virtual void end_block() {}
  // Takes in `count` (i64) equal elements that begin at index `first`, once.
  virtual bool takes_equal() const { return false; }
  virtual void add_equal(Value* /*x*/, Value* /*first*/, Value* /*count*/) {}
  // The results, lane by lane, or over all lanes.
  virtual Registers lanes() = 0;
  virtual Result<Registers> total() = 0;

  std::vector<State> states;

 protected:
  llvm::Type* lanes_of(llvm::Type* scalar) const {
    return width_ > 1 ? llvm::FixedVectorType::get(scalar, static_cast<unsigned>(width_)) : scalar;
  }
  Value* splat(Value* x) const { return width_ > 1 ? ir.CreateVectorSplat(static_cast<unsigned>(width_), x) : x; }
  // A variable of `width` lanes that is part of the state.
  Value* state(ElementType element) {
    Value* variable = entry_alloca(ctx, lanes_of(register_type(ir.getContext(), dsl::scalar_type(element))));
    states.push_back({element, variable});
    return variable;
  }
  Value* load(Value* variable) const {
    return ir.CreateLoad(llvm::cast<llvm::AllocaInst>(variable)->getAllocatedType(), variable);
  }

  Context& ctx;
  Builder& ir;
  const Op& op;
  const int width_;
};

// `along`: lanes lie along the reduced axis. `blocks`: end_block() is called, so that sums may be in two levels.
struct AccumulatorForm {
  int width = 1;
  bool along = false;
  bool blocks = false;
};
std::unique_ptr<Accumulator> make_accumulator(Context& ctx, const Op& op, AccumulatorForm form);

}  // namespace kiln::codegen::cpu
