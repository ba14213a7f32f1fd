// The ops of a region in program order: scalars are emitted, sinks open nests, tiles wait for their consumers.
#include "cpu/nest.h"

namespace kiln::codegen::cpu {
namespace {

Result<void> lower_scalar_load(Context& c, const Op& op) {
  Builder& b = c.b;
  const dsl::Type& type = c.type(op.results[0]);
  llvm::Type* memory = memory_type(b.getContext(), type.element, false);
  Value* pointer = c.scalars[op.operands[0]];
  Value* mask = op.operands.size() > 1 ? c.scalars[op.operands[1]] : nullptr;
  if (mask) pointer = b.CreateSelect(mask, pointer, entry_alloca(c, memory));
  Value* loaded = b.CreateLoad(memory, pointer);
  if (type.element == ElementType::kI1) loaded = b.CreateICmpNE(loaded, b.getInt8(0));
  if (mask) {
    Value* other = op.operands.size() > 2 ? c.scalars[op.operands[2]] : llvm::Constant::getNullValue(loaded->getType());
    loaded = b.CreateSelect(mask, loaded, other);
  }
  c.scalars[op.results[0]] = loaded;
  return {};
}

Result<void> lower_scalar(Context& c, const Op& op) {
  Value*& out = c.scalars[op.results[0]];
  switch (op.code) {
    case OpCode::kProgramId:
      out = c.program_id[static_cast<size_t>(std::get<int64_t>(op.attrs[0]))];
      return {};
    case OpCode::kNumPrograms:
      out = c.num_programs[static_cast<size_t>(std::get<int64_t>(op.attrs[0]))];
      return {};
    case OpCode::kConstant:
      out = emit_constant(c, op);
      return {};
    case OpCode::kLoad:
      return lower_scalar_load(c, op);
    // A scalar of rank 0 stays what it is.
    case OpCode::kSplat:
    case OpCode::kBroadcast:
    case OpCode::kPermute:
      out = c.scalars[op.operands[0]];
      return {};
    default:
      break;
  }
  llvm::SmallVector<Value*, 4> operands;
  for (ValueId operand : op.operands) operands.push_back(c.scalars[operand]);
  auto value = emit_elementwise(c, c.b, op, operands);
  if (!value) return value.error();
  out = *value;
  return {};
}

// A carried scalar lives in an alloca that the pipeline promotes, a carried tile in a slot.
struct Carried {
  ValueId argument;
  Value* variable = nullptr;
  Slot slot;
};

// Which values are computed from a place in scratch, when they are computed now.
class Readers {
 public:
  Readers(const Context& context, const Slot& place) : c_(context), offset_(place.offset) {}

  bool reads(ValueId id) {
    if (auto known = reads_.find(id); known != reads_.end()) return known->second;
    return reads_[id] = reads_new(id);
  }

  // Element i of `id` depends on the place through element i alone.
  bool elementwise(ValueId id) {
    if (auto known = elementwise_.find(id); known != elementwise_.end()) return known->second;
    return elementwise_[id] = elementwise_new(id);
  }

 private:
  bool has_place(ValueId id) const { return c_.slots[id] && c_.slots[id]->offset == offset_; }

  bool reads_new(ValueId id) {
    if (has_place(id)) return true;
    const Op* op = c_.definition[id];
    if (!op || c_.type(id).is_scalar() || (c_.slots[id] && c_.slots[id]->valid_under.empty())) return false;
    return llvm::any_of(op->operands, [&](ValueId operand) { return reads(operand); });
  }

  bool elementwise_new(ValueId id) {
    if (has_place(id) || !reads(id)) return true;
    const Op* op = c_.definition[id];
    return dsl::info(op->code).has(dsl::kElementwise) &&
           llvm::all_of(op->operands, [&](ValueId operand) { return elementwise(operand); });
  }

  const Context& c_;
  uint64_t offset_;
  std::map<ValueId, bool> reads_, elementwise_;
};

// New tiles are computed into places of their own before any old one is overwritten: they may refer to each other.
Result<void> lower_yield(Context& c, const Op& yield, std::vector<Carried>& carried) {
  std::vector<std::pair<size_t, Slot>> copies;
  std::vector<Value*> scalars(carried.size(), nullptr);
  for (size_t i = 0; i < carried.size(); ++i) {
    const ValueId next = yield.operands[i];
    if (carried[i].variable) {
      scalars[i] = c.scalars[next];
      continue;
    }
    if (c.slots[next] && c.slots[next]->offset == carried[i].slot.offset) continue;
    Readers old(c, carried[i].slot);
    bool others_need_old = false;
    for (size_t j = 0; j < carried.size(); ++j) {
      others_need_old = others_need_old || (j != i && !carried[j].variable && old.reads(yield.operands[j]));
    }
    // An elementwise update reads each element before it writes it, so it can go in place.
    const bool in_place = !others_need_old && old.elementwise(next);
    Slot target = in_place ? carried[i].slot : allocate_slot(c, c.type(next));
    if (auto done = materialise(c, next, target); !done) return done;
    if (!in_place) copies.emplace_back(i, target);
  }
  for (auto& [i, from] : copies) {
    c.slots[carried[i].argument] = from;
    auto done = materialise(c, carried[i].argument, carried[i].slot);
    c.slots[carried[i].argument] = carried[i].slot;
    if (!done) return done;
  }
  for (size_t i = 0; i < carried.size(); ++i) {
    if (scalars[i]) c.b.CreateStore(scalars[i], carried[i].variable);
  }
  return {};
}

Result<void> lower_for(Context& c, const Op& op) {
  Builder& b = c.b;
  const dsl::Region& region = op.regions[0];
  const ElementType element = c.type(op.operands[0]).element;
  auto wide = [&](ValueId id) {
    return dsl::info(element).is_signed ? b.CreateSExt(c.scalars[id], b.getInt64Ty())
                                        : b.CreateZExt(c.scalars[id], b.getInt64Ty());
  };
  std::vector<Carried> carried;
  for (size_t i = 3; i < op.operands.size(); ++i) {
    Carried state{region.args[i - 2], nullptr, {}};
    const dsl::Type& type = c.type(state.argument);
    if (type.is_scalar()) {
      state.variable = entry_alloca(c, register_type(b.getContext(), type));
      b.CreateStore(c.scalars[op.operands[i]], state.variable);
    } else {
      state.slot = allocate_slot(c, type);
      if (auto done = materialise(c, op.operands[i], state.slot); !done) return done;
      c.slots[state.argument] = state.slot;
    }
    carried.push_back(state);
  }
  Value* step = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, wide(op.operands[2]), c.i64(1));
  Result<void> result;
  emit_loop(
      b, wide(op.operands[0]), wide(op.operands[1]), step, "for", [](llvm::Instruction*) {},
      [&](Value* index) {
        c.scalars[region.args[0]] = b.CreateTrunc(index, register_type(b.getContext(), dsl::scalar_type(element)));
        for (Carried& state : carried) {
          if (!state.variable) continue;
          c.scalars[state.argument] =
              b.CreateLoad(register_type(b.getContext(), c.type(state.argument)), state.variable);
        }
        result = lower_region(c, region);
        if (result.ok()) result = lower_yield(c, region.ops.back(), carried);
      });
  if (!result) return result;
  for (size_t i = 0; i < carried.size(); ++i) {
    const ValueId out = op.results[i];
    if (carried[i].variable)
      c.scalars[out] = b.CreateLoad(register_type(b.getContext(), c.type(out)), carried[i].variable);
    else
      c.slots[out] = carried[i].slot;
  }
  return {};
}

}  // namespace

Result<void> lower_region(Context& c, const dsl::Region& region) {
  for (const Op& op : region.ops) {
    Result<void> done;
    switch (op.code) {
      case OpCode::kStore:
        done = lower_store(c, op);
        break;
      case OpCode::kReduce:
        done = lower_reduce(c, op);
        break;
      case OpCode::kDot:
        done = lower_dot(c, op);
        break;
      case OpCode::kFor:
        done = lower_for(c, op);
        break;
      case OpCode::kYield:
      case OpCode::kAssume:
      case OpCode::kRequire:
      case OpCode::kAssert:  // without the option debug
        break;
      default:
        if (c.type(op.results[0]).is_scalar()) {
          done = lower_scalar(c, op);
        } else if (c.materialise[op.results[0]]) {
          const Slot slot = allocate_slot(c, c.type(op.results[0]));
          done = materialise(c, op.results[0], slot);
          if (done.ok()) c.slots[op.results[0]] = slot;
        }
    }
    if (!done) return done;
  }
  return {};
}

}  // namespace kiln::codegen::cpu
