// LDS has 32 banks of 4 bytes. Lanes are served in order, as many at once as take 128 bytes, but for loads of 16 bytes
// on gfx9: there lanes 0-3 go with 20-23, 4-7 with 16-19, 8-11 with 28-31 and 12-15 with 24-27. So says AMD's
// documentation of Composable Kernel ("Understanding AMD GPU LDS and Bank Conflicts"), and so was it measured on an
// MI300, as was the order of loads of 8 bytes (github.com/tingqli/pyhip, "Measuring bank-conflict behaviour"). Of gfx11
// nobody seems to have published anything: order is taken for granted. An access to two places is two accesses.
#include "bank_conflicts.h"

#include <algorithm>
#include <array>
#include <set>

#include "buffer.h"

namespace kiln::amdgcn_emulator {
namespace {

constexpr unsigned kBanks = 32;

// What a load or store moves for each lane, at one offset or two.
struct Access {
  unsigned bytes = 4;
  bool loads = false;
  std::array<uint32_t, 2> offsets{};
  size_t count = 1;
};

std::optional<Access> access_of(const Instruction& i) {
  const std::string_view name = i.name->mnemonic;
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (!name.starts_with("ds_")) return std::nullopt;
  Access out;
  out.loads = has("ds_read") || has("ds_load");
  if ((!out.loads && !has("ds_write") && !has("ds_store")) || has("addtid")) return std::nullopt;
  out.bytes = has("b128") ? 16 : has("b96") ? 12 : has("b64") ? 8 : 4;  // a part of a word is a word
  out.offsets[0] = static_cast<uint32_t>(i.offset);
  if (has("read2") || has("write2") || has("2addr")) {
    const unsigned scale = out.bytes * (has("st64") || has("stride64") ? 64 : 1);
    out.offsets = {i.offset0 * scale, i.offset1 * scale};
    out.count = 2;
  }
  return out;
}

// Of loads of 16 bytes on gfx9: the lane that is served as the n-th.
unsigned wide_lane(unsigned n) { return (n & 0x23) ^ (n & 4 ? 20 : 0) ^ (n & 8 ? 4 : 0) ^ (n & 16 ? 8 : 0); }

}  // namespace

uint64_t bank_conflicts(const Wave& wave, const Instruction& instruction) {
  const std::optional<Access> access = access_of(instruction);
  if (!access) return 0;
  const Operand& base = instruction.operands[access->loads ? 1 : 0];
  const unsigned at_once = access->bytes <= 4 ? 32 : access->bytes <= 8 ? 16 : 8;
  const bool is_wide = access->loads && access->bytes == 16 && wave.processor->generation == Generation::kGfx9;
  uint64_t out = 0;
  for (size_t which = 0; which < access->count; ++which) {
    for (unsigned first = 0; first < wave.lanes; first += at_once) {
      std::array<std::set<uint32_t>, kBanks> words;
      for (unsigned n = first; n < first + at_once; ++n) {
        const unsigned lane = is_wide ? wide_lane(n) : n;
        if ((wave.exec() >> lane & 1) == 0) continue;
        const uint32_t word = (wave.vgpr[base.index][lane] + access->offsets[which]) / 4;
        for (uint32_t i = word; i < word + access->bytes / 4; ++i) words[i % kBanks].insert(i);
      }
      size_t turns = 1;
      for (const std::set<uint32_t>& bank : words) turns = std::max(turns, bank.size());
      out += turns - 1;
    }
  }
  return out;
}

}  // namespace kiln::amdgcn_emulator
