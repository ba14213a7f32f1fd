// Code for the plans of layout/conversion.h: registers renamed, lanes that shuffle, or a round trip through shared
// memory, of what does not fit there at once by parts.
#include "gpu/shared/convert.h"

#include <llvm/ADT/SmallVector.h>

#include <map>

#include "gpu/layout/algebra.h"
#include "gpu/layout/conversion.h"
#include "gpu/shared/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

Registers renamed(const Registers& registers, const Columns& from) {
  Registers out;
  for (Bits i = 0; i < Bits{1} << from.size(); ++i) out.push_back(registers[multiply(from, i)]);
  return out;
}

// An output of a map of a shuffle: what the round makes of it, a constant, and what the thread does.
Value* output(Context& ctx, const Layout& map, Bits round) {
  Value* thread = ctx.thread_coordinate(map, 0);
  return ctx.ir.CreateXor(thread, ctx.ir.getInt32(static_cast<uint32_t>(map.at({.reg = round}))));
}

// What stands by the number that is `start` xor what the thread makes of the map, of `count` there are: a select for
// each bit that it may change.
Value* choose(Context& ctx, const Layout& map, Bits start, size_t count, llvm::function_ref<Value*(Bits)> at) {
  Value* thread = ctx.thread_coordinate(map, 0);
  if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(thread)) return at(start ^ constant->getZExtValue());
  Bits varying = 0;
  for (Dim dim : {Dim::kLane, Dim::kWarp}) {
    for (Bits basis : map.bases(dim)) varying |= basis;
  }
  std::vector<std::pair<Bits, Value*>> candidates = {{0, at(start)}};  // by the difference that the thread makes
  for (int bit = 0; bit < 63; ++bit) {
    const Bits mask = Bits{1} << bit;
    if ((varying & mask) == 0) continue;
    const size_t so_far = candidates.size();
    for (size_t i = 0; i < so_far; ++i) {
      const Bits other = candidates[i].first | mask;
      candidates.emplace_back(other, at((start ^ other) < count ? start ^ other : start));
    }
  }
  // From the highest bit down, halves are chosen between.
  while (candidates.size() > 1) {
    const size_t half = candidates.size() / 2;
    const Bits mask = candidates[half].first ^ candidates[0].first;
    Value* set = ctx.ir.CreateIsNotNull(ctx.ir.CreateAnd(thread, ctx.ir.getInt32(static_cast<uint32_t>(mask))));
    for (size_t i = 0; i < half; ++i) {
      candidates[i].second = candidates[i].second == candidates[half + i].second
                                 ? candidates[i].second
                                 : ctx.ir.CreateSelect(set, candidates[half + i].second, candidates[i].second);
    }
    candidates.resize(half);
  }
  return candidates[0].second;
}

// Integers of any width from another lane: by words of 32 bits.
Value* shuffle_bits(Context& ctx, Value* x, llvm::function_ref<Value*(Value* word)> shuffle) {
  Builder& ir = ctx.ir;
  const unsigned bits = x->getType()->getIntegerBitWidth();
  if (bits <= 32) return ir.CreateTrunc(shuffle(ir.CreateZExt(x, ir.getInt32Ty())), x->getType());
  Value* low = shuffle(ir.CreateTrunc(x, ir.getInt32Ty()));
  Value* high = shuffle(ir.CreateTrunc(ir.CreateLShr(x, 32), ir.getInt32Ty()));
  return ir.CreateOr(ir.CreateZExt(low, x->getType()), ir.CreateShl(ir.CreateZExt(high, x->getType()), 32));
}

// So many elements side by side in one integer, the first lowest.
Value* pack(Context& ctx, llvm::ArrayRef<Value*> elements) {
  if (elements.size() == 1) return elements[0];
  const auto bits = static_cast<unsigned>(elements.size()) * elements[0]->getType()->getIntegerBitWidth();
  return ctx.ir.CreateBitCast(vector_from(ctx.ir, elements), ctx.ir.getIntNTy(bits));
}

Registers unpack(Context& ctx, Value* packed, int bits, Bits count) {
  if (count == 1) return {packed};
  llvm::Type* element = ctx.ir.getIntNTy(static_cast<unsigned>(bits));
  Value* vector = ctx.ir.CreateBitCast(packed, llvm::FixedVectorType::get(element, static_cast<unsigned>(count)));
  Registers out;
  for (Bits i = 0; i < count; ++i) out.push_back(ctx.ir.CreateExtractElement(vector, i));
  return out;
}

// The registers that a round's put may come to: what it is and what bits of the thread may make of that.
std::vector<Bits> places_of(const Layout& put, Bits round, size_t count) {
  Columns bases = put.bases(Dim::kLane);
  const Columns& warps = put.bases(Dim::kWarp);
  bases.insert(bases.end(), warps.begin(), warps.end());
  const Span reachable(bases);
  std::vector<Bits> out;
  for (Bits reg = 0; reg < count; ++reg) {
    if (reachable.contains(reg ^ put.at({.reg = round}))) out.push_back(reg);
  }
  return out;
}

// What travels together is packed before anything is chosen and unpacked behind.
Registers run_shuffle(Context& ctx, const Shuffle& plan, const Registers& in, int bits) {
  Builder& ir = ctx.ir;
  const Bits packs = Bits{1} << plan.offer_pack.size();
  std::map<Bits, Value*> packed, placed;  // by the register of the first element
  const auto pack_at = [&](Bits first) {
    Value*& out = packed[first];
    if (out) return out;
    llvm::SmallVector<Value*, 4> elements;
    for (Bits j = 0; j < packs; ++j) elements.push_back(in[first ^ multiply(plan.offer_pack, j)]);
    return out = pack(ctx, elements);
  };
  Registers out(plan.put.element_bits() == 0 ? 1 : static_cast<size_t>(plan.put.shape()[0]));
  for (Bits round = 0; round < static_cast<Bits>(plan.rounds()); ++round) {
    Value* offered = choose(ctx, plan.offer, plan.offer.at({.reg = round}), in.size(), pack_at);
    Value* fetched = shuffle_bits(
        ctx, offered, [&](Value* word) { return ctx.target.shuffle(ir, word, output(ctx, plan.fetch, round)); });
    // Lanes may put the same round into different registers: each possible one takes it or keeps what it has.
    Value* accepted = ir.CreateIsNull(output(ctx, plan.accept, round));
    Value* place = output(ctx, plan.put, round);
    for (Bits reg : places_of(plan.put, round, out.size())) {
      Value*& slot = placed[reg];
      Value* mine = ir.CreateAnd(accepted, ir.CreateICmpEQ(place, ir.getInt32(static_cast<uint32_t>(reg))));
      slot = slot ? ir.CreateSelect(mine, fetched, slot) : fetched;
    }
  }
  for (const auto& [reg, word] : placed) {
    const Registers elements = unpack(ctx, word, bits, packs);
    for (Bits j = 0; j < packs; ++j) out[reg ^ multiply(plan.put_pack, j)] = elements[j];
  }
  return out;
}

constexpr int kStorePhase = 0, kLoadPhase = 1;

// What is stored now can be loaded later.
std::function<Registers()> start_round_trip(Context& ctx, const RoundTrip& plan, const Registers& in, int bits) {
  const SharedBuffer buffer(ctx.ir, plan.bytes);
  store_shared(ctx, {&buffer, buffer.pointer(), kStorePhase}, plan.store, in, bits);
  return [&ctx, buffer, load = plan.load, bits] {
    return load_shared(ctx, {&buffer, buffer.pointer(), kLoadPhase}, load, bits);
  };
}

}  // namespace

Value* shuffle(Context& ctx, Value* x, Value* lane) {
  return shuffle_bits(ctx, x, [&](Value* word) { return ctx.target.shuffle(ctx.ir, word, lane); });
}

Value* shuffle_xor(Context& ctx, Value* x, unsigned lanes) {
  llvm::Type* type = x->getType();
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  Value* whole = type->isIntegerTy() ? x : ctx.ir.CreateBitCast(x, ctx.ir.getIntNTy(bits));
  Value* fetched = shuffle_bits(ctx, whole, [&](Value* word) { return ctx.target.shuffle_xor(ctx.ir, word, lanes); });
  return type->isIntegerTy() ? fetched : ctx.ir.CreateBitCast(fetched, type);
}

namespace {

// A conversion by parts, one after the other through the same bytes of shared memory: 2^bits of them, along an axis
// whose highest bits are in registers on both sides.
struct Parts {
  int axis = 0, bits = 0;
};

// The fewest that fit beside as much as they take; nothing where none do.
std::optional<Parts> find_parts(const Layout& from, const Layout& to, int element_bits, LaneFacts facts) {
  facts.shared_bytes /= 2;
  for (int bits = 1; bits <= from.element_bits(); ++bits) {
    for (int axis = 0; axis < from.rank(); ++axis) {
      if (outer_register_bits(from, axis) < bits || outer_register_bits(to, axis) < bits) continue;
      const Layout part = register_part(from, axis, bits, 0).layout, result = register_part(to, axis, bits, 0).layout;
      if (plan_conversion(part, result, element_bits, facts)) return Parts{axis, bits};
    }
  }
  return std::nullopt;
}

Result<Registers> convert_by_parts(Context& ctx, const Registers& registers, const dsl::Type& type, const Layout& from,
                                   const Layout& to, const Parts& parts) {
  Registers out(static_cast<size_t>(to.size(Dim::kRegister)));
  for (Bits i = 0; i < Bits{1} << parts.bits; ++i) {
    const RegisterPart source = register_part(from, parts.axis, parts.bits, i);
    const RegisterPart result = register_part(to, parts.axis, parts.bits, i);
    Registers in;
    for (const Bits reg : source.registers) in.push_back(registers[reg]);
    const auto converted = convert(ctx, in, type, source.layout, result.layout);
    if (!converted) return converted;
    for (size_t reg = 0; reg < converted->size(); ++reg) out[result.registers[reg]] = (*converted)[reg];
  }
  return out;
}

}  // namespace

Result<std::function<Registers()>> start_conversion(Context& ctx, const Registers& registers, const dsl::Type& type,
                                                    const Layout& from, const Layout& to) {
  using Rest = std::function<Registers()>;
  const auto at_once = [](Registers out) -> Rest { return [out = std::move(out)] { return out; }; };
  if (from == to) return at_once(registers);
  const int bits = traveling_bits(type);
  auto plan = plan_conversion(from, to, bits, ctx.target.lane_facts());
  if (!plan) {
    const auto parts = find_parts(from, to, bits, ctx.target.lane_facts());
    if (!parts) return plan.error();
    auto converted = convert_by_parts(ctx, registers, type, from, to, *parts);
    if (!converted) return converted.error();
    return at_once(std::move(*converted));
  }
  if (const auto* move = std::get_if<RegisterMove>(&plan->how)) {
    Registers out;
    for (int reg : move->from) out.push_back(registers[static_cast<size_t>(reg)]);
    return at_once(std::move(out));
  }
  Registers in = renamed(registers, plan->source_registers);
  for (Value*& x : in) x = to_bits(ctx, x, bits);
  const auto finished = [&ctx, type, result_registers = plan->result_registers](Registers out) {
    for (Value*& x : out) x = from_bits(ctx, x, type);
    return renamed(out, result_registers);
  };
  if (const auto* shuffle = std::get_if<Shuffle>(&plan->how))
    return at_once(finished(run_shuffle(ctx, *shuffle, in, bits)));
  return Rest(
      [finished, rest = start_round_trip(ctx, std::get<RoundTrip>(plan->how), in, bits)] { return finished(rest()); });
}

Result<Registers> convert(Context& ctx, const Registers& registers, const dsl::Type& type, const Layout& from,
                          const Layout& to) {
  auto rest = start_conversion(ctx, registers, type, from, to);
  if (!rest) return rest.error();
  return (*rest)();
}

}  // namespace kiln::codegen::gpu
