#include "execute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace kiln::codegen::gpu {
namespace {

Threads like(const Threads& threads, int64_t registers) {
  Threads out = threads;
  out.registers = registers;
  out.values.assign(static_cast<size_t>(threads.lanes * threads.warps * threads.blocks * registers), kNothing);
  return out;
}

// Registers renamed: bit i of the new number stands for the old registers from[i].
Threads renamed(Threads in, const Columns& from) {
  Threads out = like(in, int64_t{1} << from.size());
  for_each_thread(out, [&](const Index& thread, Value* registers) {
    const Value* old = in.at(thread.lane, thread.warp, thread.block);
    for (int64_t i = 0; i < out.registers; ++i) registers[i] = old[multiply(from, static_cast<Bits>(i))];
  });
  return out;
}

Threads move_registers(const RegisterMove& move, Threads in) {
  Threads out = like(in, std::ssize(move.from));
  for_each_thread(out, [&](const Index& thread, Value* registers) {
    const Value* old = in.at(thread.lane, thread.warp, thread.block);
    for (int from : move.from) *registers++ = old[from];
  });
  return out;
}

Threads shuffle(const Shuffle& plan, Threads in) {
  Threads out = like(in, plan.put.element_bits() == 0 ? 1 : plan.put.shape()[0]);
  for (Bits round = 0; round < static_cast<Bits>(plan.rounds()); ++round) {
    for (Bits pack = 0; pack < Bits{1} << plan.put_pack.size(); ++pack) {
      for_each_thread(out, [&](const Index& thread, Value* registers) {
        Index at = thread, other = thread;
        at.reg = other.reg = round;
        other.lane = plan.fetch.at(at);
        const Value offered =
            in.at(other.lane, other.warp, other.block)[plan.offer.at(other) ^ multiply(plan.offer_pack, pack)];
        if (plan.accept.at(at) != 0) return;
        Value& to = registers[plan.put.at(at) ^ multiply(plan.put_pack, pack)];
        EXPECT_EQ(to, kNothing) << "written twice";
        to = offered;
      });
    }
  }
  return out;
}

// Shared memory of a block, and the bank conflicts of what accesses it.
struct Memory {
  std::vector<Value> values;
  int element_bits;
  const LaneFacts& facts;

  int64_t per_word() const { return std::max(1, 32 / element_bits); }

  // So many turns it takes to serve these offsets together.
  int64_t turns(const std::vector<int64_t>& offsets) const {
    std::map<int64_t, std::set<int64_t>> words_of_bank;
    for (int64_t offset : offsets) {
      for (int64_t byte = offset * element_bits / 8; byte < (offset + 1) * element_bits / 8; ++byte) {
        words_of_bank[byte / 4 % facts.bank_count].insert(byte / 4);
      }
    }
    size_t out = 0;
    for (const auto& [bank, words] : words_of_bank) out = std::max(out, words.size());
    return static_cast<int64_t>(out);
  }
};

// One warp's accesses; `move` gets offset and register of each element.
using Move = std::function<void(int64_t lane, Bits reg, int64_t offset)>;

// A lane's elements lie one after another from the address of the first.
int64_t vectors(const SharedAccess& access, const Memory& memory, const Index& warp, int64_t lanes, bool loads,
                const Move& move) {
  const int64_t width = int64_t{1} << access.group.size();
  const int64_t bytes = std::max<int64_t>(4, width * memory.element_bits / 8);
  const int64_t at_once = std::min(lanes, 4 * memory.facts.bank_count / bytes);
  Columns order = loads && bytes == 16 ? memory.facts.wide_load_lanes : Columns();
  for (Bits lane : completion(order, unit_vectors(std::countr_zero(static_cast<uint64_t>(lanes)))))
    order.push_back(lane);
  int64_t wavefronts = 0;
  for (Bits i = 0; i < Bits{1} << access.each.size(); ++i) {
    const Bits first = multiply(access.each, i);
    std::vector<int64_t> offsets;
    for (int64_t turn = 0; turn < lanes; ++turn) {
      const auto lane = static_cast<int64_t>(multiply(order, static_cast<Bits>(turn)));
      const int64_t offset = static_cast<int64_t>(
          access.offsets.at({.reg = first, .lane = static_cast<Bits>(lane), .warp = warp.warp, .block = warp.block}));
      EXPECT_EQ(offset % width, 0) << "not aligned";
      for (int64_t j = 0; j < width; ++j) {
        move(lane, first ^ multiply(access.group, static_cast<Bits>(j)), offset + j);
        offsets.push_back(offset + j);
      }
      if ((turn + 1) % at_once == 0) wavefronts += memory.turns(offsets), offsets.clear();
    }
  }
  return wavefronts;
}

// PTX ISA, "ldmatrix": eight rows of 16 bytes, each at an address of its own; thread l has four bytes of row l / 4,
// from byte 4 * (l % 4) on. With .trans, of the transposed matrix of 16-bit elements.
int64_t matrices(const SharedAccess& access, const Memory& memory, const Index& warp, const Move& move) {
  const bool transposed = access.kind == AccessKind::kTransposedMatrix;
  const int64_t per_row = 128 / memory.element_bits, per_lane = per_row / 4;
  int64_t wavefronts = 0;
  for (Bits i = 0; i < Bits{1} << access.each.size(); ++i) {
    const Bits first = multiply(access.each, i);
    std::vector<int64_t> rows, offsets;
    for (Bits row = 0; row < 8; ++row) {
      // The first element of a row: lane 4 * row has it; of a transposed one, element row % 2 of lane row / 2.
      const Index at = transposed ? Index{first ^ (row % 2 ? access.group[0] : 0), row / 2, warp.warp, warp.block}
                                  : Index{first, 4 * row, warp.warp, warp.block};
      rows.push_back(static_cast<int64_t>(access.offsets.at(at)));
      EXPECT_EQ(rows.back() % per_row, 0) << "not aligned";
      for (int64_t column = 0; column < per_row; ++column) offsets.push_back(rows.back() + column);
    }
    wavefronts += memory.turns(offsets);
    for (int64_t lane = 0; lane < 32; ++lane) {
      for (int64_t j = 0; j < per_lane; ++j) {
        int64_t row = lane / 4, column = per_lane * (lane % 4) + j;
        if (transposed) std::swap(row, column);
        move(lane, first ^ multiply(access.group, static_cast<Bits>(j)), rows[static_cast<size_t>(row)] + column);
      }
    }
  }
  return wavefronts;
}

int64_t access_by_warp(const SharedAccess& access, const Memory& memory, const Index& warp, int64_t lanes, bool loads,
                       const Move& move) {
  return access.kind == AccessKind::kVector ? vectors(access, memory, warp, lanes, loads, move)
                                            : matrices(access, memory, warp, move);
}

Threads round_trip(const RoundTrip& plan, Threads in, int element_bits, const LaneFacts& facts,
                   Wavefronts* wavefronts) {
  Threads out = like(in, plan.load.offsets.size(Dim::kRegister));
  for (Bits block = 0; block < static_cast<Bits>(in.blocks); ++block) {
    Memory memory{std::vector<Value>(static_cast<size_t>(plan.bytes * 8 / element_bits), kNothing), element_bits,
                  facts};
    Wavefronts took;
    for (Bits warp = 0; warp < static_cast<Bits>(in.warps); ++warp) {
      took.store = access_by_warp(plan.store, memory, {.warp = warp, .block = block}, in.lanes, false,
                                  [&](int64_t lane, Bits reg, int64_t offset) {
                                    memory.values.at(static_cast<size_t>(offset)) = in.at(lane, warp, block)[reg];
                                  });
      EXPECT_EQ(took.store, plan.store.wavefronts) << "of stores";
    }
    for (Bits warp = 0; warp < static_cast<Bits>(in.warps); ++warp) {
      took.load = access_by_warp(plan.load, memory, {.warp = warp, .block = block}, in.lanes, true,
                                 [&](int64_t lane, Bits reg, int64_t offset) {
                                   out.at(lane, warp, block)[reg] = memory.values.at(static_cast<size_t>(offset));
                                 });
      EXPECT_EQ(took.load, plan.load.wavefronts) << "of loads";
    }
    if (wavefronts) *wavefronts = took;
  }
  return out;
}

// Everyone's registers, each summed with its partner's.
Threads combined(Threads in, const Partner& partner) {
  Threads out = in;
  for_each_thread(out, [&](const Index& thread, Value* registers) {
    const Value* other = in.at(static_cast<int64_t>(thread.lane ^ partner.lane), thread.warp, thread.block);
    for (Bits i = 0; i < static_cast<Bits>(out.registers); ++i) registers[i] += other[i ^ partner.reg];
  });
  return out;
}

}  // namespace

Threads::Threads(const Layout& layout)
    : lanes(layout.size(Dim::kLane)),
      warps(layout.size(Dim::kWarp)),
      blocks(layout.size(Dim::kBlock)),
      registers(layout.size(Dim::kRegister)),
      values(static_cast<size_t>(lanes * warps * blocks * registers), kNothing) {}

void for_each_thread(Threads& threads, const std::function<void(const Index& thread, Value* registers)>& act) {
  for (Bits block = 0; block < static_cast<Bits>(threads.blocks); ++block) {
    for (Bits warp = 0; warp < static_cast<Bits>(threads.warps); ++warp) {
      for (Bits lane = 0; lane < static_cast<Bits>(threads.lanes); ++lane) {
        act({.lane = lane, .warp = warp, .block = block},
            threads.at(static_cast<int64_t>(lane), static_cast<int64_t>(warp), static_cast<int64_t>(block)));
      }
    }
  }
}

Threads spread(const Layout& layout, const std::function<Value(Bits element)>& value) {
  Threads out(layout);
  for_each_thread(out, [&](Index thread, Value* registers) {
    for (; thread.reg < static_cast<Bits>(out.registers); ++thread.reg)
      registers[thread.reg] = value(layout.at(thread));
  });
  return out;
}

Threads execute(const ConversionPlan& plan, Threads source, const Layout& result, int element_bits,
                const LaneFacts& facts, Wavefronts* wavefronts) {
  if (const auto* move = std::get_if<RegisterMove>(&plan.how)) return move_registers(*move, std::move(source));
  source = renamed(std::move(source), plan.source_registers);
  Threads out(result);
  if (const auto* lanes = std::get_if<Shuffle>(&plan.how)) {
    out = shuffle(*lanes, std::move(source));
  } else {
    out = round_trip(std::get<RoundTrip>(plan.how), std::move(source), element_bits, facts, wavefronts);
  }
  return renamed(std::move(out), plan.result_registers);
}

Threads execute(const ReductionPlan& plan, Threads source, int element_bits, const LaneFacts& facts) {
  for (Bits reg : plan.in_thread) source = combined(std::move(source), {reg, 0});
  for (const Partner& partner : plan.shuffles) source = combined(std::move(source), partner);
  source = renamed(std::move(source), plan.partial_registers);
  const Result<ConversionPlan> gather = plan_conversion(plan.partial, plan.gathered, element_bits, facts);
  EXPECT_TRUE(gather.ok());
  source = execute(*gather, std::move(source), plan.gathered, element_bits, facts);
  const int part_bits = plan.gathered.bits(Dim::kRegister) - plan.result.bits(Dim::kRegister);
  for (int bit = 0; bit < part_bits; ++bit) source = combined(std::move(source), {Bits{1} << bit, 0});
  Columns kept;
  for (int bit = 0; bit < plan.result.bits(Dim::kRegister); ++bit) kept.push_back(Bits{1} << (part_bits + bit));
  return renamed(std::move(source), kept);
}

}  // namespace kiln::codegen::gpu
