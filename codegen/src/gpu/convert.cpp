// Code for the plans of layout/conversion.h: registers renamed, lanes that shuffle, or a round trip through shared
// memory, of what does not fit there at once by parts.
#include <llvm/ADT/SmallVector.h>

#include "gpu/context.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/conversion.h"
#include "gpu/shared_access.h"

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

// The register whose number is `fixed` xor what the thread makes of the map: a select for each bit that it may change.
Value* choose(Context& c, const Registers& registers, const Layout& map, Bits fixed, Bits pack) {
  const llvm::ConstantInt* constant = llvm::dyn_cast<llvm::ConstantInt>(c.thread_coordinate(map, 0));
  const Bits start = fixed ^ pack;
  if (constant) return registers[start ^ constant->getZExtValue()];
  Columns changed;  // the differences that bits of the thread make
  Value* thread = c.thread_coordinate(map, 0);
  Bits varying = 0;
  for (Dim dim : {Dim::kLane, Dim::kWarp}) {
    for (Bits basis : map.bases(dim)) varying |= basis;
  }
  std::vector<std::pair<Bits, Value*>> candidates = {{0, registers[start]}};
  for (int bit = 0; bit < 63; ++bit) {
    const Bits mask = Bits{1} << bit;
    if ((varying & mask) == 0) continue;
    const size_t count = candidates.size();
    for (size_t i = 0; i < count; ++i) {
      const Bits other = candidates[i].first | mask;
      candidates.emplace_back(other, (start ^ other) < registers.size() ? registers[start ^ other] : registers[start]);
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
Value* pack(Context& c, llvm::ArrayRef<Value*> elements, int bits) {
  Builder& b = c.b;
  if (elements.size() == 1) return elements[0];
  llvm::Type* whole = b.getIntNTy(static_cast<unsigned>(bits * static_cast<int>(elements.size())));
  Value* out = nullptr;
  for (size_t i = 0; i < elements.size(); ++i) {
    Value* part = b.CreateShl(b.CreateZExt(elements[i], whole), static_cast<uint64_t>(bits) * i);
    out = out ? b.CreateOr(out, part) : part;
  }
  return out;
}

Value* unpack(Context& c, Value* packed, int bits, size_t index) {
  llvm::Type* element = c.b.getIntNTy(static_cast<unsigned>(bits));
  return c.b.CreateTrunc(c.b.CreateLShr(packed, static_cast<uint64_t>(bits) * index), element);
}

Registers run_shuffle(Context& c, const Shuffle& plan, const Registers& in, int bits) {
  Builder& b = c.b;
  const Bits packs = Bits{1} << plan.offer_pack.size();
  Registers out(plan.put.element_bits() == 0 ? 1 : static_cast<size_t>(plan.put.shape()[0]));
  for (Bits round = 0; round < static_cast<Bits>(plan.rounds()); ++round) {
    llvm::SmallVector<Value*, 4> offered;
    for (Bits j = 0; j < packs; ++j) {
      offered.push_back(choose(c, in, plan.offer, plan.offer.at({.reg = round}), multiply(plan.offer_pack, j)));
    }
    Value* fetched = shuffle_bits(c, pack(c, offered, bits),
                                  [&](Value* word) { return c.target.shuffle(b, word, output(c, plan.fetch, round)); });
    // Lanes may put the same round into different registers: each possible one takes it or keeps what it has.
    Value* accepted = b.CreateIsNull(output(c, plan.accept, round));
    Value* place = output(c, plan.put, round);
    std::vector<Bits> places;
    const Span reachable([&] {
      Columns bases = plan.put.bases(Dim::kLane);
      const Columns& warps = plan.put.bases(Dim::kWarp);
      bases.insert(bases.end(), warps.begin(), warps.end());
      return bases;
    }());
    for (Bits reg = 0; reg < out.size(); ++reg) {
      if (reachable.contains(reg ^ plan.put.at({.reg = round}))) places.push_back(reg);
    }
    for (Bits reg : places) {
      for (Bits j = 0; j < packs; ++j) {
        Value*& slot = out[reg ^ multiply(plan.put_pack, j)];
        Value* element = unpack(c, fetched, bits, j);
        Value* mine = b.CreateAnd(accepted, b.CreateICmpEQ(place, b.getInt32(static_cast<uint32_t>(reg))));
        slot = slot ? b.CreateSelect(mine, element, slot) : element;
      }
    }
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
