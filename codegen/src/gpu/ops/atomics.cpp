// atomic_rmw and atomic_cas, register by register. The first thread of those that have copies of an element acts; the
// others are told what it saw, where somebody wants to know. What the target has no instruction for is a loop around a
// compare-exchange, in a function of the module:
//
//   seen = 0
//   do { was = seen; seen = compare_exchange(was, combine(was, value)) } while (seen != was)
//
// where the warp stays together while any of its lanes tries, if the target wants that.
//
// Elements narrower than what the target exchanges change inside their word. Orders are fences around relaxed atomics:
// a barrier puts what the block did before a release ahead of it (global_order.h), and what follows an acquire behind.
#include "gpu/ops/atomics.h"

#include "elementwise/atomic_combine.h"
#include "gpu/address/address.h"
#include "gpu/address/register_groups.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::AtomicKind;
using dsl::MemoryOrder;
using dsl::MemoryScope;

struct Atomic {
  bool is_cas = false;
  AtomicKind kind = AtomicKind::kXchg;
  ElementType element = ElementType::kI32;
  MemoryOrder order = MemoryOrder::kAcqRel;
  MemoryScope scope = MemoryScope::kDevice;
  bool gives_old = true;

  bool releases() const { return order == MemoryOrder::kRelease || order == MemoryOrder::kAcqRel; }
  bool acquires() const { return order == MemoryOrder::kAcquire || order == MemoryOrder::kAcqRel; }
  int bits() const { return 8 * dsl::info(element).bytes; }
};

Atomic describe(const Context& ctx, const Op& op) {
  Atomic out;
  out.is_cas = op.code == OpCode::kAtomicCas;
  const size_t order = out.is_cas ? 0 : 1;
  if (!out.is_cas) out.kind = static_cast<AtomicKind>(int_attr(op, 0));
  out.element = ctx.type(op.operands[0]).element;
  out.order = static_cast<MemoryOrder>(int_attr(op, order));
  out.scope = static_cast<MemoryScope>(int_attr(op, order + 1));
  out.gives_old = ctx.uses(op.results[0]) > 0;
  return out;
}

// The word that an element lies in, and by how many bits it is shifted there.
struct Word {
  Value* pointer;
  Value* shift;  // null: it is the element
};

Word word_of(Builder& ir, Value* pointer, int element_bits, int word_bits) {
  if (element_bits == word_bits) return {pointer, nullptr};
  const auto inside = static_cast<uint64_t>(word_bits / 8 - 1);
  Value* offset = ir.CreateAnd(ir.CreatePtrToInt(pointer, ir.getInt64Ty()), ir.getInt64(inside));
  Value* shift = ir.CreateTrunc(ir.CreateShl(offset, 3), ir.getIntNTy(static_cast<unsigned>(word_bits)));
  return {ir.CreateGEP(ir.getInt8Ty(), pointer, ir.CreateNeg(offset)), shift};
}

Value* element_of(Builder& ir, Value* word, const Word& place, llvm::Type* element) {
  return place.shift ? ir.CreateTrunc(ir.CreateLShr(word, place.shift), element) : word;
}

Value* with_element(Builder& ir, Value* word, const Word& place, Value* element) {
  if (!place.shift) return element;
  llvm::Type* whole = word->getType();
  Value* ones = ir.CreateZExt(llvm::Constant::getAllOnesValue(element->getType()), whole);
  Value* others = ir.CreateAnd(word, ir.CreateNot(ir.CreateShl(ones, place.shift)));
  return ir.CreateOr(others, ir.CreateShl(ir.CreateZExt(element, whole), place.shift));
}

// bits (pointer, expected, value, i1 predicate): the old bits, 0 where the predicate is false.
void build_exchange_loop(Context& ctx, const Atomic& atomic, llvm::Function* function) {
  llvm::LLVMContext& context = ctx.module.getContext();
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(context, name, function); };
  llvm::BasicBlock *entry = block("entry"), *retry = block("retry"), *done = block("done");
  Builder ir(entry);
  Value *pointer = function->getArg(0), *expected = function->getArg(1), *value = function->getArg(2);
  llvm::Type* type = value->getType();
  const int word_bits = std::max(atomic.bits(), ctx.target.least_exchange_bits());
  const Word place = word_of(ir, pointer, atomic.bits(), word_bits);
  ir.CreateBr(retry);

  ir.SetInsertPoint(retry);
  auto* seen = ir.CreatePHI(ir.getIntNTy(static_cast<unsigned>(word_bits)), 2);
  auto* pending = ir.CreatePHI(ir.getInt1Ty(), 2);
  seen->addIncoming(llvm::Constant::getNullValue(seen->getType()), entry);
  pending->addIncoming(function->getArg(3), entry);
  Value* old = element_of(ir, seen, place, type);
  Value* desired = atomic.is_cas ? ir.CreateSelect(ir.CreateICmpEQ(old, expected), value, old)
                                 : combine_bits(ctx, ir, atomic.kind, atomic.element, old, value);
  Value* held = ctx.target.compare_exchange(ir, seen, with_element(ir, seen, place, desired),
                                            {place.pointer, pending, atomic.scope});
  Value* failed = ir.CreateAnd(pending, ir.CreateICmpNE(held, seen));
  // A lane that is done keeps what it saw while others try again.
  Value* next = ir.CreateSelect(failed, held, seen);
  seen->addIncoming(next, ir.GetInsertBlock());
  pending->addIncoming(failed, ir.GetInsertBlock());
  ir.CreateCondBr(ctx.target.any_lane(ir, failed), retry, done);

  ir.SetInsertPoint(done);
  ir.CreateRet(ir.CreateSelect(function->getArg(3), old, llvm::Constant::getNullValue(type)));
}

// One for each kind of atomic that the kernel has.
llvm::Function* exchange_loop(Context& ctx, const Atomic& atomic) {
  const std::string name = "kiln_exchange_" + std::string(dsl::info(atomic.element).name) + "_" +
                           (atomic.is_cas ? "cas" : std::to_string(static_cast<int>(atomic.kind))) + "_" +
                           std::to_string(static_cast<int>(atomic.scope));
  if (llvm::Function* known = ctx.module.getFunction(name)) return known;
  llvm::Type* bits = ctx.ir.getIntNTy(static_cast<unsigned>(atomic.bits()));
  auto* type = llvm::FunctionType::get(bits, {ctx.ir.getPtrTy(), bits, bits, ctx.ir.getInt1Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, ctx.module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::Convergent);
  build_exchange_loop(ctx, atomic, function);
  return function;
}

Value* to_bits(Context& ctx, Value* x) {
  return ctx.ir.CreateBitCast(x, ctx.ir.getIntNTy(static_cast<unsigned>(x->getType()->getPrimitiveSizeInBits())));
}

// One element: the old bits, or null where nobody wants them and the target need not tell.
Value* exchange(Context& ctx, const Atomic& atomic, Value* expected, Value* value, const AtomicAccess& access) {
  if (!atomic.is_cas && ctx.target.has_atomic(atomic.kind, atomic.element, 1, atomic.gives_old)) {
    return ctx.target.atomic_rmw(ctx.ir, atomic.kind, atomic.element, value, atomic.gives_old, access);
  }
  if (atomic.is_cas && atomic.bits() >= ctx.target.least_exchange_bits()) {
    return ctx.target.compare_exchange(ctx.ir, expected, value, access);
  }
  Value* predicate = access.predicate ? access.predicate : ctx.ir.getTrue();
  return ctx.ir.CreateCall(exchange_loop(ctx, atomic), {access.pointer, expected ? expected : value, value, predicate});
}

// Neighbours that one instruction takes: where nobody wants to know what was there.
int64_t vector_of(Context& ctx, const Op& op, const Atomic& atomic, const Layout& layout, std::optional<ValueId> mask) {
  if (atomic.is_cas || atomic.gives_old) return 1;
  int64_t out = vector_of(ctx, op, layout, mask);
  while (out > 1 && !ctx.target.has_atomic(atomic.kind, atomic.element, out, false)) out /= 2;
  return out;
}

Value* neighbours(Context& ctx, const Group& group, const Registers& values) {
  if (group.size() == 1) return to_bits(ctx, values[group[0]]);
  Value* out = nullptr;
  for (size_t i = 0; i < group.size(); ++i) {
    Value* element = to_bits(ctx, values[group[i]]);
    if (!out) out = llvm::PoisonValue::get(llvm::FixedVectorType::get(element->getType(), group.size()));
    out = ctx.ir.CreateInsertElement(out, element, i);
  }
  return out;
}

}  // namespace

Result<void> lower_atomic(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  const Atomic atomic = describe(ctx, op);
  const Layout& layout = ctx.placement.wanted.at(&op);
  const size_t value_operand = atomic.is_cas ? 2 : 1;
  const std::optional<ValueId> mask = operand(op, value_operand + 1);
  auto where = addresses(ctx, op.operands[0], layout);
  if (!where) return where.error();
  auto values = ctx.get(op.operands[value_operand], layout), masks = get_if(ctx, mask, layout);
  auto expected = get_if(ctx, atomic.is_cas ? operand(op, 1) : std::nullopt, layout);
  for (const auto* part : {&values, &masks, &expected}) {
    if (!*part) return part->error();
  }
  Value* first = is_first_copy(ctx, layout);
  const bool orders = atomic.order != MemoryOrder::kRelaxed;
  ctx.order.mark(ir, op.operands[0], layout, orders ? GlobalOrder::Use::kOrderingWrite : GlobalOrder::Use::kWrite);
  if (atomic.releases()) ctx.target.fence(ir, atomic.scope, first);
  Registers old(values->size());
  for (const Group& group : groups_of(layout, vector_of(ctx, op, atomic, layout, mask))) {
    const size_t reg = group[0];
    Value* inside = both(ir, mask ? (*masks)[reg] : nullptr, ctx.in_tile(layout, reg, ctx.type(op.operands[0])));
    const AtomicAccess access = {pointer_of(ctx, (*where)[reg]), both(ir, inside, first), atomic.scope};
    if (group.size() > 1) {
      ctx.target.atomic_rmw(ir, atomic.kind, atomic.element, neighbours(ctx, group, *values), false, access);
    } else {
      old[reg] = exchange(ctx, atomic, atomic.is_cas ? to_bits(ctx, (*expected)[reg]) : nullptr,
                          to_bits(ctx, (*values)[reg]), access);
    }
  }
  if (atomic.acquires()) ctx.target.fence(ir, atomic.scope, first);
  if (!atomic.gives_old) return {};
  tell_copies(ctx, layout, first, old);
  llvm::Type* type = register_type(ir.getContext(), ctx.type(op.results[0]));
  for (Value*& x : old) x = ir.CreateBitCast(x, type);
  ctx.define(op.results[0], std::move(old));
  return {};
}

}  // namespace kiln::codegen::gpu
