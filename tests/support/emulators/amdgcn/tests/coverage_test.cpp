// Which instructions of an architecture the emulator executes: every opcode of every encoding is put before LLVM's
// disassembler, and what it knows must be in the table or among those named here as left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "decode.h"
#include "disassembler.h"
#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

// An encoding: its fixed bits and where the opcode stands in its first dword. `second` are tried as second dwords, one
// after another, until the disassembler knows the opcode with one of them.
struct Encoding {
  const char* name;
  uint32_t fixed;
  unsigned shift;
  unsigned opcodes;
  std::vector<uint32_t> operands;  // further bits of the first dword
  std::vector<uint32_t> second;
  uint32_t third = 0;
};

// v4, s4 and the like: aligned enough for every width.
constexpr uint32_t kVector = 0x104;

std::vector<Encoding> gfx9_encodings() {
  const uint32_t three = kVector | 0x108 << 9 | 0x10c << 18;
  const uint32_t three_scalars = kVector | 0x108 << 9 | 4 << 18;
  return {
      {"SOP2", 0x80000000, 23, 0x60, {0x00080404}, {0}},
      {"SOPK", 0xb0000000, 23, 0x1d, {0x00080004}, {0}},
      {"SOP1", 0xbe800000, 8, 0x100, {0x00080004}, {0}},
      {"SOPC", 0xbf000000, 16, 0x80, {0x00000404}, {0}},
      {"SOPP", 0xbf800000, 16, 0x80, {0}, {0}},
      {"SMEM", 0xc0000000, 18, 0x100, {0x00020202, 0x00020002}, {0, 8}},
      {"VOP2", 0x00000000, 25, 0x3e, {0x00080800 | kVector, 0x00080804}, {0}},
      {"VOP1", 0x7e000000, 9, 0x100, {0x00080000 | kVector, 0x00080004}, {0}},
      {"VOPC", 0x7c000000, 17, 0x100, {0x00000800 | kVector}, {0}},
      {"VOP3", 0xd0000000, 16, 0x400, {8}, {three, three_scalars, kVector | 4 << 9, 4 | 4 << 9, 4 | 4 << 9 | 4 << 18}},
      {"VOP3P", 0xd3800000, 16, 0x80, {8}, {three, three | 0x18000000}},
      {"DS", 0xd8000000, 17, 0x100, {0}, {0x08080404, 0x08000404, 0}},
      {"FLAT", 0xdc000000, 18, 0x80, {0}, {0x08000404 | 0x007f0000, 0x08000404}},
      {"GLOBAL", 0xdc008000, 18, 0x80, {0}, {0x087f0404}},
      {"SCRATCH", 0xdc004000, 18, 0x80, {0}, {0x087f0404}},
      {"MUBUF", 0xe0000000, 18, 0x80, {0x1000, 0x11000}, {0x80010404}},
      {"MTBUF", 0xe8000000, 15, 0x10, {0x00801000}, {0x80010404}},
  };
}

std::vector<Encoding> gfx11_encodings() {
  const uint32_t three = kVector | 0x108 << 9 | 0x10c << 18;
  const uint32_t three_scalars = kVector | 0x108 << 9 | 4 << 18;
  return {
      {"SOP2", 0x80000000, 23, 0x60, {0x00080404}, {0}},
      {"SOPK", 0xb0000000, 23, 0x1d, {0x00080004}, {0}},
      {"SOP1", 0xbe800000, 8, 0x100, {0x00080004}, {0}},
      {"SOPC", 0xbf000000, 16, 0x80, {0x00000404}, {0}},
      {"SOPP", 0xbf800000, 16, 0x80, {0}, {0}},
      {"SMEM", 0xf4000000, 18, 0x100, {0x00000202}, {0xf8000000}},
      {"VOP2", 0x00000000, 25, 0x3e, {0x00080800 | kVector}, {0}},
      {"VOP1", 0x7e000000, 9, 0x100, {0x00080000 | kVector, 0x00080004}, {0}},
      {"VOPC", 0x7c000000, 17, 0x100, {0x00000800 | kVector}, {0}},
      {"VOP3",
       0xd4000000,
       16,
       0x400,
       {8},
       {three, three_scalars, kVector | 4 << 9, 4 | 4 << 9, kVector | 4 << 9 | 4 << 18}},
      {"VOP3P", 0xcc000000, 16, 0x80, {8}, {three}},
      {"VOPD X", 0xc8000000, 22, 0x10, {kVector | 0x800}, {0x08090a05}},
      {"VOPD Y", 0xc8000000, 17, 0x20, {kVector | 0x800}, {0x08090a05}},
      {"DS", 0xd8000000, 18, 0x100, {0}, {0x08080404, 0x08000404, 0}},
      {"FLAT", 0xdc000000, 18, 0x80, {0}, {0x087c0404}},
      {"GLOBAL", 0xdc020000, 18, 0x80, {0}, {0x087c0404}},
      {"SCRATCH", 0xdc010000, 18, 0x80, {0}, {0x087c0404}},
      {"MUBUF", 0xe0000000, 18, 0x100, {0}, {0x80410404}},
      {"MTBUF", 0xe8000000, 15, 0x10, {0x00800000}, {0x80410404}},
  };
}

std::vector<Encoding> gfx1250_encodings() {
  const uint32_t three = kVector | 0x108 << 9 | 0x10c << 18;
  const uint32_t three_scalars = kVector | 0x108 << 9 | 4 << 18;
  const uint32_t scalar_second = kVector | 4 << 9;
  return {
      {"SOP2", 0x80000000, 23, 0x60, {0x00080404}, {0}},
      {"SOPK", 0xb0000000, 23, 0x1d, {0x00080004}, {0}},
      {"SOP1", 0xbe800000, 8, 0x80, {0x00080004}, {0}},
      {"SOPC", 0xbf000000, 16, 0x80, {0x00000404}, {0}},
      {"SOPP", 0xbf800000, 16, 0x80, {0}, {0}},
      {"SMEM", 0xf4000000, 13, 0x40, {0x00000202}, {0xf8000000}},
      {"VOP2", 0x00000000, 25, 0x3e, {0x00080800 | kVector}, {0}},
      {"VOP1", 0x7e000000, 9, 0x100, {0x00080000 | kVector, 0x00080004}, {0}},
      {"VOPC", 0x7c000000, 17, 0x100, {0x00000800 | kVector}, {0}},
      {"VOP3",
       0xd4000000,
       16,
       0x400,
       {8},
       {three, three_scalars, scalar_second, 4 | 4 << 9, scalar_second | 4 << 18, kVector | 0x108 << 9, kVector}},
      {"VOP3P", 0xcc000000, 16, 0x80, {8}, {three, three | 0x18000000}},
      {"VOPD X", 0xc8000000, 22, 0x10, {kVector | 0x800}, {0x08090a05}},
      {"VOPD Y", 0xc8000000, 17, 0x20, {kVector | 0x800}, {0x08090a05}},
      {"DS", 0xd8000000, 18, 0x100, {0}, {0x08080404, 0x08000404, 0}},
      {"FLAT", 0xec000000, 14, 0x80, {0x7c}, {8, 0x02000008}, 0x0404},
      {"GLOBAL", 0xee000000, 14, 0x80, {0x7c}, {8, 0x02000008}, 0x0404},
      {"SCRATCH", 0xed000000, 14, 0x80, {0x7c}, {8, 0x00020008}, 0x0404},
      {"BUFFER", 0xc4000000, 14, 0x80, {0x7c}, {0x40000808}, 0x0404},
  };
}

struct Example {
  std::string line;
  bool is_known = false;
};

// By the mnemonic as the table spells it, without the encoding's suffix.
std::map<std::string, Example> examples(const std::string& processor, const Encoding& encoding) {
  auto disassembler = Disassembler::create(processor, is_wave64(processor));
  LoadedCode code;
  code.processor = processor_of(processor);
  std::map<std::string, Example> found;
  const auto try_words = [&](uint32_t first, uint32_t second) {
    const uint32_t words[] = {first, second, encoding.third, 0};
    const auto printed = disassembler->print({reinterpret_cast<const uint8_t*>(words), sizeof words}, 0);
    if (printed.bytes == 0 || printed.text.empty() || printed.text.find("Invalid") != std::string::npos) return false;
    const size_t pair = printed.text.find(" :: ");
    const bool is_second = std::string_view(encoding.name).ends_with(" Y");
    const Instruction instruction =
        decode_line(code, is_second ? printed.text.substr(pair + 4) : printed.text.substr(0, pair));
    found.emplace(instruction.name->mnemonic, Example{printed.text, is_known(instruction)});
    return true;
  };
  for (uint32_t opcode = 0; opcode < encoding.opcodes; ++opcode) {
    const auto try_opcode = [&] {
      for (uint32_t operands : encoding.operands)
        for (uint32_t second : encoding.second)
          if (try_words(encoding.fixed | opcode << encoding.shift | operands, second)) return;
    };
    try_opcode();
  }
  return found;
}

// What no kernel that computes has: forks and traps of GFX8, debugging, graphics, formats of images; and opcodes that
// LLVM's tables hold without an instruction behind them.
bool is_left_out(const std::string& mnemonic) {
  static const std::set<std::string> names = {
      "s_cbranch_g_fork",           "s_cbranch_i_fork",     "s_cbranch_join",           "s_rfe_b64",
      "s_rfe_restore_b64",          "s_setvskip",           "s_endpgm_ordered_ps_done", "s_setkill",
      "s_subvector_loop_begin",     "s_subvector_loop_end", "s_movrelsd_2_b32",         "s_sendmsg_rtn_b32",
      "v_screen_partition_4se_b32", "ds_bvh_stack_rtn_b32"};
  const bool is_scalar_scratch = mnemonic.starts_with("s_scratch_");
  return names.contains(mnemonic) || is_scalar_scratch || mnemonic.find("_format_") != std::string::npos;
}

// Of gfx1250: copies beside the wave and between workgroups, transposing loads, barriers with names, traps, sparse
// products, those of few bits without scales, conversions of several numbers with a scale or of f8 and f16, and
// arithmetic of bf16.
bool is_left_out_of_gfx1250(const std::string& mnemonic) {
  static const std::set<std::string> names = {"s_alloc_vgpr",
                                              "s_get_shader_cycles_u64",
                                              "s_rfe_i64",
                                              "s_wakeup_barrier",
                                              "s_get_barrier_state",
                                              "s_barrier_leave",
                                              "s_barrier_init",
                                              "s_barrier_join",
                                              "s_barrier_signal_isfirst",
                                              "v_prng_b32",
                                              "v_permlane16_swap_b32",
                                              "v_sat_pk4_i4_i8",
                                              "v_sat_pk4_u4_u8",
                                              "v_ashr_pk_i8_i32",
                                              "v_ashr_pk_u8_i32",
                                              "v_cvt_f16_fp8",
                                              "v_cvt_f16_bf8",
                                              "v_cvt_pk_f16_fp8",
                                              "v_cvt_pk_f16_bf8",
                                              "v_cvt_pk_fp8_f16",
                                              "v_cvt_pk_bf8_f16",
                                              "v_cvt_sr_fp8_f16",
                                              "v_cvt_sr_bf8_f16",
                                              "v_cvt_sr_pk_bf16_f32",
                                              "v_cvt_sr_pk_f16_f32",

                                              "v_wmma_f32_16x16x128_f8f6f4",
                                              "v_wmma_f32_32x16x128_f4",
                                              "ds_atomic_async_barrier_arrive_b64",
                                              "ds_atomic_barrier_arrive_rtn_b64"};
  constexpr std::string_view parts[] = {"_async_",     "cluster_",     "tensor_",     "load_monitor_",
                                        "_block",      "_prefetch_b8", "_load_tr",    "v_swmmac_",
                                        "v_cvt_scale", "v_permlane_",  "v_perm_pk16", "_cond_sub_"};
  const bool is_bf16 = (mnemonic.starts_with("v_pk_") && mnemonic.ends_with("_bf16")) ||
                       (std::count(mnemonic.begin(), mnemonic.end(), '_') == 2 && mnemonic.ends_with("_bf16"));
  return names.contains(mnemonic) || is_bf16 ||
         std::ranges::any_of(parts, [&](std::string_view part) { return mnemonic.find(part) != std::string::npos; });
}

// The table, of which KILN_COVERAGE shows what is known and what there is in all.
void expect_covered(const std::string& processor, const std::vector<Encoding>& encodings) {
  size_t all = 0;
  for (const Encoding& encoding : encodings) {
    const auto found = examples(processor, encoding);
    size_t known_here = 0;
    EXPECT_FALSE(found.empty()) << encoding.name;
    for (const auto& [mnemonic, example] : found) {
      known_here += example.is_known;
      const bool left_out = is_left_out(mnemonic) || (processor == "gfx1250" && is_left_out_of_gfx1250(mnemonic));
      EXPECT_NE(example.is_known, left_out) << processor << " " << encoding.name << ": " << example.line;
    }
    if (std::getenv("KILN_COVERAGE"))
      std::printf("%-8s %-8s %4zu of %4zu\n", processor.c_str(), encoding.name, known_here, found.size());
    all += found.size();
  }
  EXPECT_GT(all, 1000u) << "the encodings above do not lead to instructions";
}

TEST(Coverage, HasTheInstructionsOfGfx942) { expect_covered("gfx942", gfx9_encodings()); }
TEST(Coverage, HasTheInstructionsOfGfx1250) { expect_covered("gfx1250", gfx1250_encodings()); }
TEST(Coverage, HasTheInstructionsOfGfx1100) { expect_covered("gfx1100", gfx11_encodings()); }

}  // namespace
}  // namespace kiln::amdgcn_emulator
