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

Atomic describe(const Context& c, const Op& op) {
  Atomic out;
  out.is_cas = op.code == OpCode::kAtomicCas;
  const size_t order = out.is_cas ? 0 : 1;
  if (!out.is_cas) out.kind = static_cast<AtomicKind>(int_attr(op, 0));
  out.element = c.type(op.operands[0]).element;
  out.order = static_cast<MemoryOrder>(int_attr(op, order));
  out.scope = static_cast<MemoryScope>(int_attr(op, order + 1));
  out.gives_old = c.uses(op.results[0]) > 0;
  return out;
}

// The word that an element lies in, and by how many bits it is shifted there.
struct Word {
  Value* pointer;
  Value* shift;  // null: it is the element
};

Word word_of(Builder& b, Value* pointer, int element_bits, int word_bits) {
  if (element_bits == word_bits) return {pointer, nullptr};
  const auto inside = static_cast<uint64_t>(word_bits / 8 - 1);
  Value* offset = b.CreateAnd(b.CreatePtrToInt(pointer, b.getInt64Ty()), b.getInt64(inside));
  Value* shift = b.CreateTrunc(b.CreateShl(offset, 3), b.getIntNTy(static_cast<unsigned>(word_bits)));
  return {b.CreateGEP(b.getInt8Ty(), pointer, b.CreateNeg(offset)), shift};
}

Value* element_of(Builder& b, Value* word, const Word& place, llvm::Type* element) {
  return place.shift ? b.CreateTrunc(b.CreateLShr(word, place.shift), element) : word;
}

Value* with_element(Builder& b, Value* word, const Word& place, Value* element) {
  if (!place.shift) return element;
  llvm::Type* whole = word->getType();
  Value* ones = b.CreateZExt(llvm::Constant::getAllOnesValue(element->getType()), whole);
  Value* others = b.CreateAnd(word, b.CreateNot(b.CreateShl(ones, place.shift)));
  return b.CreateOr(others, b.CreateShl(b.CreateZExt(element, whole), place.shift));
}

// bits (pointer, expected, value, i1 predicate): the old bits, 0 where the predicate is false.
void build_exchange_loop(Context& c, const Atomic& atomic, llvm::Function* function) {
  llvm::LLVMContext& context = c.module.getContext();
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(context, name, function); };
  llvm::BasicBlock *entry = block("entry"), *retry = block("retry"), *done = block("done");
  Builder b(entry);
  Value *pointer = function->getArg(0), *expected = function->getArg(1), *value = function->getArg(2);
  llvm::Type* type = value->getType();
  const int word_bits = std::max(atomic.bits(), c.target.least_exchange_bits());
  const Word place = word_of(b, pointer, atomic.bits(), word_bits);
  b.CreateBr(retry);

  b.SetInsertPoint(retry);
  auto* seen = b.CreatePHI(b.getIntNTy(static_cast<unsigned>(word_bits)), 2);
  auto* pending = b.CreatePHI(b.getInt1Ty(), 2);
  seen->addIncoming(llvm::Constant::getNullValue(seen->getType()), entry);
  pending->addIncoming(function->getArg(3), entry);
  Value* old = element_of(b, seen, place, type);
  Value* desired = atomic.is_cas ? b.CreateSelect(b.CreateICmpEQ(old, expected), value, old)
                                 : combine_bits(c, b, atomic.kind, atomic.element, old, value);
  Value* held =
      c.target.compare_exchange(b, seen, with_element(b, seen, place, desired), {place.pointer, pending, atomic.scope});
  Value* failed = b.CreateAnd(pending, b.CreateICmpNE(held, seen));
  // A lane that is done keeps what it saw while others try again.
  Value* next = b.CreateSelect(failed, held, seen);
  seen->addIncoming(next, b.GetInsertBlock());
  pending->addIncoming(failed, b.GetInsertBlock());
  b.CreateCondBr(c.target.any_lane(b, failed), retry, done);

  b.SetInsertPoint(done);
  b.CreateRet(b.CreateSelect(function->getArg(3), old, llvm::Constant::getNullValue(type)));
}

// One for each kind of atomic that the kernel has.
llvm::Function* exchange_loop(Context& c, const Atomic& atomic) {
  const std::string name = "kiln_exchange_" + std::string(dsl::info(atomic.element).name) + "_" +
                           (atomic.is_cas ? "cas" : std::to_string(static_cast<int>(atomic.kind))) + "_" +
                           std::to_string(static_cast<int>(atomic.scope));
  if (llvm::Function* known = c.module.getFunction(name)) return known;
  llvm::Type* bits = c.b.getIntNTy(static_cast<unsigned>(atomic.bits()));
  auto* type = llvm::FunctionType::get(bits, {c.b.getPtrTy(), bits, bits, c.b.getInt1Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, c.module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::Convergent);
  build_exchange_loop(c, atomic, function);
  return function;
}

Value* to_bits(Context& c, Value* x) {
  return c.b.CreateBitCast(x, c.b.getIntNTy(static_cast<unsigned>(x->getType()->getPrimitiveSizeInBits())));
}

// One element: the old bits, or null where nobody wants them and the target need not tell.
Value* exchange(Context& c, const Atomic& atomic, Value* expected, Value* value, const AtomicAccess& access) {
  if (!atomic.is_cas && c.target.has_atomic(atomic.kind, atomic.element, 1, atomic.gives_old)) {
    return c.target.atomic_rmw(c.b, atomic.kind, atomic.element, value, atomic.gives_old, access);
  }
  if (atomic.is_cas && atomic.bits() >= c.target.least_exchange_bits()) {
    return c.target.compare_exchange(c.b, expected, value, access);
  }
  Value* predicate = access.predicate ? access.predicate : c.b.getTrue();
  return c.b.CreateCall(exchange_loop(c, atomic), {access.pointer, expected ? expected : value, value, predicate});
}

// Neighbours that one instruction takes: where nobody wants to know what was there.
int64_t vector_of(Context& c, const Op& op, const Atomic& atomic, const Layout& layout, std::optional<ValueId> mask) {
  if (atomic.is_cas || atomic.gives_old) return 1;
  int64_t out = vector_of(c, op, layout, mask);
  while (out > 1 && !c.target.has_atomic(atomic.kind, atomic.element, out, false)) out /= 2;
  return out;
}

Value* neighbours(Context& c, const Group& group, const Registers& values) {
  if (group.size() == 1) return to_bits(c, values[group[0]]);
  Value* out = nullptr;
  for (size_t i = 0; i < group.size(); ++i) {
    Value* element = to_bits(c, values[group[i]]);
    if (!out) out = llvm::PoisonValue::get(llvm::FixedVectorType::get(element->getType(), group.size()));
    out = c.b.CreateInsertElement(out, element, i);
  }
  return out;
}

}  // namespace

Result<void> lower_atomic(Context& c, const Op& op) {
  Builder& b = c.b;
  const Atomic atomic = describe(c, op);
  const Layout& layout = c.placement.wanted.at(&op);
  const size_t value_operand = atomic.is_cas ? 2 : 1;
  const std::optional<ValueId> mask = operand(op, value_operand + 1);
  auto where = addresses(c, op.operands[0], layout);
  if (!where) return where.error();
  auto values = c.get(op.operands[value_operand], layout), masks = get_if(c, mask, layout);
  auto expected = get_if(c, atomic.is_cas ? operand(op, 1) : std::nullopt, layout);
  for (const auto* part : {&values, &masks, &expected}) {
    if (!*part) return part->error();
  }
  Value* first = is_first_copy(c, layout);
  const bool orders = atomic.order != MemoryOrder::kRelaxed;
  c.order.mark(b, op.operands[0], layout, orders ? GlobalOrder::Use::kOrderingWrite : GlobalOrder::Use::kWrite);
  if (atomic.releases()) c.target.fence(b, atomic.scope, first);
  Registers old(values->size());
  for (const Group& group : groups_of(layout, vector_of(c, op, atomic, layout, mask))) {
    const size_t reg = group[0];
    Value* inside = both(b, mask ? (*masks)[reg] : nullptr, c.in_tile(layout, reg, c.type(op.operands[0])));
    const AtomicAccess access = {pointer_of(c, (*where)[reg]), both(b, inside, first), atomic.scope};
    if (group.size() > 1) {
      c.target.atomic_rmw(b, atomic.kind, atomic.element, neighbours(c, group, *values), false, access);
    } else {
      old[reg] = exchange(c, atomic, atomic.is_cas ? to_bits(c, (*expected)[reg]) : nullptr, to_bits(c, (*values)[reg]),
                          access);
    }
  }
  if (atomic.acquires()) c.target.fence(b, atomic.scope, first);
  if (!atomic.gives_old) return {};
  tell_copies(c, layout, first, old);
  llvm::Type* type = register_type(b.getContext(), c.type(op.results[0]));
  for (Value*& x : old) x = b.CreateBitCast(x, type);
  c.define(op.results[0], std::move(old));
  return {};
}

}  // namespace kiln::codegen::gpu
