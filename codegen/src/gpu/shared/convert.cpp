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
Value* output(Context& c, const Layout& map, Bits round) {
  Value* thread = c.thread_coordinate(map, 0);
  return c.b.CreateXor(thread, c.b.getInt32(static_cast<uint32_t>(map.at({.reg = round}))));
}

// What stands by the number that is `start` xor what the thread makes of the map, of `count` there are: a select for
// each bit that it may change.
Value* choose(Context& c, const Layout& map, Bits start, size_t count, llvm::function_ref<Value*(Bits)> at) {
  Value* thread = c.thread_coordinate(map, 0);
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
    Value* set = c.b.CreateIsNotNull(c.b.CreateAnd(thread, c.b.getInt32(static_cast<uint32_t>(mask))));
    for (size_t i = 0; i < half; ++i) {
      candidates[i].second = candidates[i].second == candidates[half + i].second
                                 ? candidates[i].second
                                 : c.b.CreateSelect(set, candidates[half + i].second, candidates[i].second);
    }
    candidates.resize(half);
  }
  return candidates[0].second;
}

// Integers of any width from another lane: by words of 32 bits.
Value* shuffle_bits(Context& c, Value* x, llvm::function_ref<Value*(Value* word)> shuffle) {
  Builder& b = c.b;
  const unsigned bits = x->getType()->getIntegerBitWidth();
  if (bits <= 32) return b.CreateTrunc(shuffle(b.CreateZExt(x, b.getInt32Ty())), x->getType());
  Value* low = shuffle(b.CreateTrunc(x, b.getInt32Ty()));
  Value* high = shuffle(b.CreateTrunc(b.CreateLShr(x, 32), b.getInt32Ty()));
  return b.CreateOr(b.CreateZExt(low, x->getType()), b.CreateShl(b.CreateZExt(high, x->getType()), 32));
}

// So many elements side by side in one integer, the first lowest.
Value* pack(Context& c, llvm::ArrayRef<Value*> elements) {
  if (elements.size() == 1) return elements[0];
  const auto bits = static_cast<unsigned>(elements.size()) * elements[0]->getType()->getIntegerBitWidth();
  return c.b.CreateBitCast(vector_from(c.b, elements), c.b.getIntNTy(bits));
}

Registers unpack(Context& c, Value* packed, int bits, Bits count) {
  if (count == 1) return {packed};
  llvm::Type* element = c.b.getIntNTy(static_cast<unsigned>(bits));
  Value* vector = c.b.CreateBitCast(packed, llvm::FixedVectorType::get(element, static_cast<unsigned>(count)));
  Registers out;
  for (Bits i = 0; i < count; ++i) out.push_back(c.b.CreateExtractElement(vector, i));
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
Registers run_shuffle(Context& c, const Shuffle& plan, const Registers& in, int bits) {
  Builder& b = c.b;
  const Bits packs = Bits{1} << plan.offer_pack.size();
  std::map<Bits, Value*> packed, placed;  // by the register of the first element
  const auto pack_at = [&](Bits first) {
    Value*& out = packed[first];
    if (out) return out;
    llvm::SmallVector<Value*, 4> elements;
    for (Bits j = 0; j < packs; ++j) elements.push_back(in[first ^ multiply(plan.offer_pack, j)]);
    return out = pack(c, elements);
  };
  Registers out(plan.put.element_bits() == 0 ? 1 : static_cast<size_t>(plan.put.shape()[0]));
  for (Bits round = 0; round < static_cast<Bits>(plan.rounds()); ++round) {
    Value* offered = choose(c, plan.offer, plan.offer.at({.reg = round}), in.size(), pack_at);
    Value* fetched =
        shuffle_bits(c, offered, [&](Value* word) { return c.target.shuffle(b, word, output(c, plan.fetch, round)); });
    // Lanes may put the same round into different registers: each possible one takes it or keeps what it has.
    Value* accepted = b.CreateIsNull(output(c, plan.accept, round));
    Value* place = output(c, plan.put, round);
    for (Bits reg : places_of(plan.put, round, out.size())) {
      Value*& slot = placed[reg];
      Value* mine = b.CreateAnd(accepted, b.CreateICmpEQ(place, b.getInt32(static_cast<uint32_t>(reg))));
      slot = slot ? b.CreateSelect(mine, fetched, slot) : fetched;
    }
  }
  for (const auto& [reg, word] : placed) {
    const Registers elements = unpack(c, word, bits, packs);
    for (Bits j = 0; j < packs; ++j) out[reg ^ multiply(plan.put_pack, j)] = elements[j];
  }
  return out;
}

constexpr int kStorePhase = 0, kLoadPhase = 1;

// What is stored now can be loaded later.
std::function<Registers()> start_round_trip(Context& c, const RoundTrip& plan, const Registers& in, int bits) {
  const SharedBuffer buffer(c.b, plan.bytes);
  store_shared(c, {&buffer, buffer.pointer(), kStorePhase}, plan.store, in, bits);
  return [&c, buffer, load = plan.load, bits] {
    return load_shared(c, {&buffer, buffer.pointer(), kLoadPhase}, load, bits);
  };
}

}  // namespace

Value* shuffle(Context& c, Value* x, Value* lane) {
  return shuffle_bits(c, x, [&](Value* word) { return c.target.shuffle(c.b, word, lane); });
}

Value* shuffle_xor(Context& c, Value* x, unsigned lanes) {
  llvm::Type* type = x->getType();
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  Value* whole = type->isIntegerTy() ? x : c.b.CreateBitCast(x, c.b.getIntNTy(bits));
  Value* fetched = shuffle_bits(c, whole, [&](Value* word) { return c.target.shuffle_xor(c.b, word, lanes); });
  return type->isIntegerTy() ? fetched : c.b.CreateBitCast(fetched, type);
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

Result<Registers> convert_by_parts(Context& c, const Registers& registers, const dsl::Type& type, const Layout& from,
                                   const Layout& to, const Parts& parts) {
  Registers out(static_cast<size_t>(to.size(Dim::kRegister)));
  for (Bits i = 0; i < Bits{1} << parts.bits; ++i) {
    const RegisterPart source = register_part(from, parts.axis, parts.bits, i);
    const RegisterPart result = register_part(to, parts.axis, parts.bits, i);
    Registers in;
    for (const Bits reg : source.registers) in.push_back(registers[reg]);
    const auto converted = convert(c, in, type, source.layout, result.layout);
    if (!converted) return converted;
    for (size_t reg = 0; reg < converted->size(); ++reg) out[result.registers[reg]] = (*converted)[reg];
  }
  return out;
}

}  // namespace

Result<std::function<Registers()>> start_conversion(Context& c, const Registers& registers, const dsl::Type& type,
                                                    const Layout& from, const Layout& to) {
  using Rest = std::function<Registers()>;
  const auto at_once = [](Registers out) -> Rest { return [out = std::move(out)] { return out; }; };
  if (from == to) return at_once(registers);
  const int bits = traveling_bits(type);
  auto plan = plan_conversion(from, to, bits, c.target.lane_facts());
  if (!plan) {
    const auto parts = find_parts(from, to, bits, c.target.lane_facts());
    if (!parts) return plan.error();
    auto converted = convert_by_parts(c, registers, type, from, to, *parts);
    if (!converted) return converted.error();
    return at_once(std::move(*converted));
  }
  if (const auto* move = std::get_if<RegisterMove>(&plan->how)) {
    Registers out;
    for (int reg : move->from) out.push_back(registers[static_cast<size_t>(reg)]);
    return at_once(std::move(out));
  }
  Registers in = renamed(registers, plan->source_registers);
  for (Value*& x : in) x = to_bits(c, x, bits);
  const auto finished = [&c, type, result_registers = plan->result_registers](Registers out) {
    for (Value*& x : out) x = from_bits(c, x, type);
    return renamed(out, result_registers);
  };
  if (const auto* shuffle = std::get_if<Shuffle>(&plan->how))
    return at_once(finished(run_shuffle(c, *shuffle, in, bits)));
  return Rest(
      [finished, rest = start_round_trip(c, std::get<RoundTrip>(plan->how), in, bits)] { return finished(rest()); });
}

Result<Registers> convert(Context& c, const Registers& registers, const dsl::Type& type, const Layout& from,
                          const Layout& to) {
  auto rest = start_conversion(c, registers, type, from, to);
  if (!rest) return rest.error();
  return (*rest)();
}

}  // namespace kiln::codegen::gpu
