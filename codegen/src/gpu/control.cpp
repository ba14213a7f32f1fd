// for, while and if. All conditions are scalars, the same in all threads, so a block stays together. Carried registers
// live in allocas that LLVM promotes.
#include "gpu/context.h"

namespace kiln::codegen::gpu {
namespace {

// The registers of a carried value, or of a result, in memory of their own.
struct Variable {
  Layout layout;
  std::vector<llvm::AllocaInst*> places;
};

Variable make_variable(Context& c, ValueId id) {
  Variable out{*c.placement.home[id], {}};
  llvm::IRBuilder<> entry(c.prologue_end);
  llvm::Type* type = register_type(c.b.getContext(), c.type(id));
  for (int64_t i = 0; i < out.layout.size(Dim::kRegister); ++i) out.places.push_back(entry.CreateAlloca(type));
  return out;
}

void write(Context& c, const Variable& variable, const Registers& registers) {
  for (size_t i = 0; i < registers.size(); ++i) c.b.CreateStore(registers[i], variable.places[i]);
}

Registers read(Context& c, const Variable& variable) {
  Registers out;
  for (llvm::AllocaInst* place : variable.places) out.push_back(c.b.CreateLoad(place->getAllocatedType(), place));
  return out;
}

// All values are read before any is written: they may be each other's.
Result<void> assign(Context& c, llvm::ArrayRef<ValueId> values, const std::vector<Variable>& variables) {
  std::vector<Registers> registers;
  for (size_t i = 0; i < values.size(); ++i) {
    auto value = c.get(values[i], variables[i].layout);
    if (!value) return value.error();
    registers.push_back(std::move(*value));
  }
  for (size_t i = 0; i < values.size(); ++i) write(c, variables[i], registers[i]);
  return {};
}

std::vector<Variable> make_variables(Context& c, llvm::ArrayRef<ValueId> ids) {
  std::vector<Variable> out;
  for (ValueId id : ids) out.push_back(make_variable(c, id));
  return out;
}

void define_from(Context& c, llvm::ArrayRef<ValueId> ids, const std::vector<Variable>& variables) {
  for (size_t i = 0; i < ids.size(); ++i) c.define(ids[i], read(c, variables[i]));
}

llvm::BasicBlock* new_block(Context& c, const char* name) {
  return llvm::BasicBlock::Create(c.b.getContext(), name, c.function);
}

// A region in the block where the builder stands; `guard` ends the block before it.
Result<void> lower_inside(Context& c, const dsl::Region& region, llvm::Instruction* guard,
                          llvm::function_ref<Result<void>()> body) {
  c.enter(region, guard);
  Result<void> done = body();
  c.leave();
  return done;
}

}  // namespace

Result<void> lower_for(Context& c, const Op& op) {
  Builder& b = c.b;
  const dsl::Region& region = op.regions[0];
  const dsl::ElementTypeInfo& element = dsl::info(c.type(op.operands[0]).element);
  const auto wide = [&](ValueId id) {
    return element.is_signed ? b.CreateSExt(c.scalar(id), b.getInt64Ty()) : b.CreateZExt(c.scalar(id), b.getInt64Ty());
  };
  const auto arguments = llvm::ArrayRef(region.args).drop_front();
  const std::vector<Variable> carried = make_variables(c, op.results);
  if (auto done = assign(c, llvm::ArrayRef(op.operands).drop_front(3), carried); !done) return done;

  Value *start = wide(op.operands[0]), *end = wide(op.operands[1]);
  Value* step = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, wide(op.operands[2]), b.getInt64(1));
  llvm::BasicBlock *before = b.GetInsertBlock(), *loop = new_block(c, "for"), *after = new_block(c, "for.end");
  llvm::Instruction* guard = b.CreateCondBr(b.CreateICmpSLT(start, end), loop, after);
  b.SetInsertPoint(loop);
  auto* index = b.CreatePHI(b.getInt64Ty(), 2, "for");
  index->addIncoming(start, before);
  auto done = lower_inside(c, region, guard, [&]() -> Result<void> {
    c.define(region.args[0], {b.CreateTrunc(index, b.getIntNTy(static_cast<unsigned>(element.bits)))});
    define_from(c, arguments, carried);
    if (auto lowered = lower_region(c, region); !lowered) return lowered;
    return assign(c, region.ops.back().operands, carried);
  });
  if (!done) return done;
  Value* next = b.CreateAdd(index, step);
  index->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, after);
  b.SetInsertPoint(after);
  define_from(c, op.results, carried);
  return {};
}

Result<void> lower_while(Context& c, const Op& op) {
  Builder& b = c.b;
  const dsl::Region &condition = op.regions[0], &body = op.regions[1];
  const std::vector<Variable> carried = make_variables(c, op.results);
  if (auto done = assign(c, op.operands, carried); !done) return done;
  llvm::BasicBlock *test = new_block(c, "while"), *loop = new_block(c, "while.body"),
                   *after = new_block(c, "while.end");
  llvm::Instruction* guard = b.CreateBr(test);
  b.SetInsertPoint(test);
  auto done = lower_inside(c, condition, guard, [&]() -> Result<void> {
    define_from(c, condition.args, carried);
    if (auto lowered = lower_region(c, condition); !lowered) return lowered;
    b.CreateCondBr(c.scalar(condition.ops.back().operands[0]), loop, after);
    return {};
  });
  if (!done) return done;
  b.SetInsertPoint(loop);
  done = lower_inside(c, body, guard, [&]() -> Result<void> {
    define_from(c, body.args, carried);
    if (auto lowered = lower_region(c, body); !lowered) return lowered;
    return assign(c, body.ops.back().operands, carried);
  });
  if (!done) return done;
  b.CreateBr(test);
  b.SetInsertPoint(after);
  define_from(c, op.results, carried);
  return {};
}

Result<void> lower_if(Context& c, const Op& op) {
  Builder& b = c.b;
  const std::vector<Variable> results = make_variables(c, op.results);
  llvm::BasicBlock *then = new_block(c, "then"), *otherwise = new_block(c, "else"), *after = new_block(c, "if.end");
  llvm::Instruction* guard = b.CreateCondBr(c.scalar(op.operands[0]), then, otherwise);
  for (size_t i = 0; i < 2; ++i) {
    const dsl::Region& region = op.regions[i];
    b.SetInsertPoint(i == 0 ? then : otherwise);
    auto done = lower_inside(c, region, guard, [&]() -> Result<void> {
      if (auto lowered = lower_region(c, region); !lowered) return lowered;
      return assign(c, region.ops.back().operands, results);
    });
    if (!done) return done;
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
  define_from(c, op.results, results);
  return {};
}

}  // namespace kiln::codegen::gpu
