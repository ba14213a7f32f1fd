// Decodes the text of a code object; see decode.h.
#include "decode.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "atomic_operations.h"
#include "disassembler.h"
#include "semantics.h"

namespace kiln::amdgcn_emulator {
namespace {

using Text = std::string_view;

bool take_prefix(Text& text, Text prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// "[…]", "(…)", "|…|": what stands inside.
Text inside(Text text) { return text.size() < 2 ? Text() : text.substr(1, text.size() - 2); }

int64_t integer_of(Text text) {
  bool negative = take_prefix(text, "-");
  int base = take_prefix(text, "0x") ? 16 : 10;
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return static_cast<int64_t>(negative ? 0 - value : value);
}

// Splits at a separator outside of brackets; empty parts are left out.
std::vector<Text> split(Text text, char separator) {
  std::vector<Text> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    char c = i < text.size() ? text[i] : separator;
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c != separator || depth > 0) continue;
    if (i > begin) parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

std::vector<uint8_t> list_of(Text text) {  // "[1,0,1]"
  std::vector<uint8_t> values;
  for (Text item : split(inside(text), ',')) values.push_back(static_cast<uint8_t>(integer_of(item)));
  return values;
}

uint8_t bits_of(Text text) {
  uint8_t bits = 0;
  unsigned position = 0;
  for (uint8_t value : list_of(text)) bits = static_cast<uint8_t>(bits | (value & 1) << position++);
  return bits;
}

struct NamedRegister {
  Text name;
  OperandKind kind;
  uint16_t index;
  uint8_t dwords;
};

constexpr NamedRegister kNamed[] = {
    {"vcc", OperandKind::kScalar, kVcc, 2},
    {"vcc_lo", OperandKind::kScalar, kVcc, 1},
    {"vcc_hi", OperandKind::kScalar, kVcc + 1, 1},
    {"exec", OperandKind::kScalar, kExec, 2},
    {"exec_lo", OperandKind::kScalar, kExec, 1},
    {"exec_hi", OperandKind::kScalar, kExec + 1, 1},
    {"m0", OperandKind::kScalar, kM0, 1},
    {"null", OperandKind::kScalar, kNull, 2},
    {"flat_scratch", OperandKind::kScalar, kFlatScratch, 2},
    {"flat_scratch_lo", OperandKind::kScalar, kFlatScratch, 1},
    {"flat_scratch_hi", OperandKind::kScalar, kFlatScratch + 1, 1},
    {"xnack_mask", OperandKind::kScalar, kXnackMask, 2},
    {"xnack_mask_lo", OperandKind::kScalar, kXnackMask, 1},
    {"xnack_mask_hi", OperandKind::kScalar, kXnackMask + 1, 1},
    {"off", OperandKind::kOff, 0, 1},
    {"scc", OperandKind::kSpecial, static_cast<uint16_t>(Special::kScc), 1},
    {"src_scc", OperandKind::kSpecial, static_cast<uint16_t>(Special::kScc), 1},
    {"src_vccz", OperandKind::kSpecial, static_cast<uint16_t>(Special::kVccz), 1},
    {"src_execz", OperandKind::kSpecial, static_cast<uint16_t>(Special::kExecz), 1},
    {"src_shared_base", OperandKind::kSpecial, static_cast<uint16_t>(Special::kSharedBase), 2},
    {"src_shared_limit", OperandKind::kSpecial, static_cast<uint16_t>(Special::kSharedLimit), 2},
    {"src_private_base", OperandKind::kSpecial, static_cast<uint16_t>(Special::kPrivateBase), 2},
    {"src_flat_scratch_base_lo", OperandKind::kSpecial, static_cast<uint16_t>(Special::kPrivateBase), 2},
    {"src_private_limit", OperandKind::kSpecial, static_cast<uint16_t>(Special::kPrivateLimit), 2},
};

// "v7", "v[2:5]", "a0", "s[0:1]", "ttmp9", "v3.h".
bool parse_numbered(Text text, Operand& operand) {
  unsigned base = 0;
  if (take_prefix(text, "ttmp"))
    base = kTrap;
  else if (take_prefix(text, "a"))
    base = 256;
  else if (!take_prefix(text, "v") && !take_prefix(text, "s"))
    return false;
  else if (text.data()[-1] == 's')
    base = 0;
  bool vector = text.data()[-1] == 'v' || text.data()[-1] == 'a';
  if (text.ends_with(".h")) operand.high = true;
  if (text.ends_with(".h") || text.ends_with(".l")) text.remove_suffix(2);
  if (text.empty()) return false;
  if (text.front() == '[') {
    std::vector<Text> ends = split(inside(text), ':');
    operand.index = static_cast<uint16_t>(integer_of(ends.front()));
    operand.dwords = static_cast<uint8_t>(integer_of(ends.back()) - operand.index + 1);
  } else {
    if (text.front() < '0' || text.front() > '9') return false;
    operand.index = static_cast<uint16_t>(integer_of(text));
    operand.dwords = 1;
  }
  operand.index = static_cast<uint16_t>(operand.index + base);
  operand.kind = vector ? OperandKind::kVgpr : OperandKind::kScalar;
  return true;
}

bool parse_number(Text text, Operand& operand) {
  Text digits = text;
  take_prefix(digits, "-");
  if (digits.empty() || digits.front() < '0' || digits.front() > '9') return false;
  operand.kind = OperandKind::kConstant;
  if (text.find('.') != Text::npos) {
    operand.number_is_float = true;
    std::from_chars(text.data(), text.data() + text.size(), operand.number);
    return true;
  }
  operand.integer = static_cast<uint64_t>(integer_of(text));
  operand.literal = digits.starts_with("0x") && operand.integer >> 32 == 0;
  return true;
}

// Leaves kNone for what is no operand of a computation: counters, messages, hardware registers.
Operand parse_operand(Text text) {
  Operand operand;
  if (text.size() > 1 && text[0] == '-' && (text[1] < '0' || text[1] > '9')) {
    operand.negate = true;
    text.remove_prefix(1);
  }
  if (text.starts_with("neg(")) {
    operand.negate = true;
    text = inside(text.substr(3));
  }
  if (text.starts_with("|") || text.starts_with("abs(")) {
    operand.absolute = true;
    text = inside(text.substr(text[0] == '|' ? 0 : 3));
  }
  if (text.starts_with("sext(")) {
    operand.sign_extend = true;
    text = inside(text.substr(4));
  }
  for (const NamedRegister& named : kNamed)
    if (text == named.name) {
      operand.kind = named.kind;
      operand.index = named.index;
      operand.dwords = named.dwords;
      return operand;
    }
  // So LLVM 22 writes a number of 32 bits that could have been one of the few which need no room of their own.
  if (text.starts_with("lit(")) text = inside(text.substr(3));
  const bool is_whole = take_prefix(text, "lit64");  // 64 bits that 32 could have said
  if (is_whole) text = inside(text);
  if (!parse_number(text, operand)) parse_numbered(text, operand);
  if (is_whole) operand.literal = false;
  return operand;
}

Select select_of(Text text) {
  constexpr Text names[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1"};
  for (unsigned i = 0; i < std::size(names); ++i)
    if (text == names[i]) return static_cast<Select>(i);
  return Select::kDword;
}

bool parse_dpp(Text name, Text value, Instruction& instruction) {
  struct Control {
    Text name;
    DppKind kind;
  };
  constexpr Control controls[] = {
      {"row_shl", DppKind::kRowShl},       {"row_shr", DppKind::kRowShr},
      {"row_ror", DppKind::kRowRor},       {"wave_shl", DppKind::kWaveShl},
      {"wave_shr", DppKind::kWaveShr},     {"wave_rol", DppKind::kWaveRol},
      {"wave_ror", DppKind::kWaveRor},     {"row_mirror", DppKind::kRowMirror},
      {"row_share", DppKind::kRowShare},   {"row_half_mirror", DppKind::kRowHalfMirror},
      {"row_xmask", DppKind::kRowXmask},   {"row_newbcast", DppKind::kRowShare},
      {"quad_perm", DppKind::kQuadPerm},   {"dpp8", DppKind::kEight},
      {"row_bcast", DppKind::kRowBcast15},
  };
  Dpp& dpp = instruction.dpp;
  for (const Control& control : controls) {
    if (name != control.name) continue;
    dpp.kind = control.kind;
    instruction.has_dpp = true;
    if (name == "quad_perm" || name == "dpp8") {
      std::vector<uint8_t> lanes = list_of(value);
      for (size_t i = 0; i < lanes.size() && i < dpp.lanes.size(); ++i) dpp.lanes[i] = lanes[i];
    } else if (!value.empty()) {
      dpp.amount = static_cast<uint8_t>(integer_of(value));
    }
    if (name == "row_bcast" && dpp.amount == 31) dpp.kind = DppKind::kRowBcast31;
    return true;
  }
  if (name == "row_mask")
    dpp.row_mask = static_cast<uint8_t>(integer_of(value));
  else if (name == "bank_mask")
    dpp.bank_mask = static_cast<uint8_t>(integer_of(value));
  else if (name == "bound_ctrl")
    dpp.bound_control = true;
  else if (name == "fi")
    dpp.fetch_inactive = value != "0";
  else
    return false;
  return true;
}

bool parse_sdwa(Text name, Text value, Instruction& instruction) {
  if (name == "dst_sel")
    instruction.destination_select = select_of(value);
  else if (name == "dst_unused")
    instruction.unused = value == "UNUSED_PAD"    ? Unused::kPad
                         : value == "UNUSED_SEXT" ? Unused::kSext
                                                  : Unused::kPreserve;
  else if (name == "src0_sel" || name == "src1_sel") {
    // The sources stand behind the destination (and behind VCC where it is one).
    unsigned source = name == "src0_sel" ? 1 : 2;
    if (instruction.operands[1].kind == OperandKind::kScalar && instruction.operands[1].dwords == 2) ++source;
    instruction.operands[source].select = select_of(value);
  } else {
    return false;
  }
  instruction.has_sdwa = true;
  return true;
}

// The kinds of numbers, as the instruction numbers them.
uint8_t matrix_kind_of(Text text) {
  constexpr Text names[] = {"MATRIX_FMT_FP8", "MATRIX_FMT_BF8", "MATRIX_FMT_FP6", "MATRIX_FMT_BF6", "MATRIX_FMT_FP4"};
  return static_cast<uint8_t>(std::find(std::begin(names), std::end(names), text) - std::begin(names));
}

void parse_modifier(Text word, Instruction& instruction) {
  size_t colon = word.find(':');
  Text name = word.substr(0, colon);
  Text value = colon == Text::npos ? Text() : word.substr(colon + 1);
  if (parse_dpp(name, value, instruction) || parse_sdwa(name, value, instruction)) return;
  if (name == "clamp") instruction.clamp = true;
  if (name == "mul") instruction.output_modifier = value == "2" ? 1 : 2;
  if (name == "div") instruction.output_modifier = 3;
  if (name == "op_sel") instruction.op_sel = bits_of(value);
  if (name == "op_sel_hi") instruction.op_sel_hi = bits_of(value);
  if (name == "neg_lo" || name == "neg") instruction.neg_lo = bits_of(value);
  if (name == "neg_hi") instruction.neg_hi = bits_of(value);
  if (name == "offset") instruction.offset = static_cast<int32_t>(integer_of(value));
  if (name == "offset0") instruction.offset0 = static_cast<uint8_t>(integer_of(value));
  if (name == "offset1") instruction.offset1 = static_cast<uint8_t>(integer_of(value));
  if (name == "offen") instruction.offen = true;
  if (name == "idxen") instruction.idxen = true;
  if (name == "glc" || name == "sc0" || word.find("ATOMIC_RETURN") != Text::npos) instruction.returns = true;
  if (name == "lds") instruction.to_lds = true;
  if (name == "bitop3") instruction.truth_table = static_cast<uint8_t>(integer_of(value));
  if (name == "cbsz") instruction.broadcast_size = static_cast<uint8_t>(integer_of(value));
  if (name == "abid") instruction.broadcast_block = static_cast<uint8_t>(integer_of(value));
  if (name == "blgp") instruction.b_permutation = static_cast<uint8_t>(integer_of(value));
  if (name == "scale_offset") instruction.scale_offset = true;
  if (name == "matrix_a_fmt") instruction.a_kind = matrix_kind_of(value);
  if (name == "matrix_b_fmt") instruction.b_kind = matrix_kind_of(value);
  if (name == "matrix_a_scale" && value == "MATRIX_SCALE_ROW1") instruction.scale_rows |= 1;
  if (name == "matrix_b_scale" && value == "MATRIX_SCALE_ROW1") instruction.scale_rows |= 2;
}

// The encoding's suffix is no part of the operation's name.
std::string without_suffix(Text mnemonic) {
  for (Text suffix : {"_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa"})
    if (mnemonic.starts_with("v_") && mnemonic.ends_with(suffix)) {
      mnemonic.remove_suffix(suffix.size());
      break;
    }
  std::string name(mnemonic);
  if (name.starts_with("v_dual_")) name.erase(2, 5);
  return name;
}

// Of gfx1250's registers from 256 on an instruction says the lowest eight bits, and s_set_vgpr_msb the others; the
// disassembler keeps account of that, and writes "v0 /*v256*/".
std::string with_whole_numbers(Text line) {
  std::string out;
  for (size_t begin = line.find(" /*"); begin != Text::npos; begin = line.find(" /*")) {
    const size_t end = line.find("*/", begin);
    const size_t before = line.find_last_not_of("abcdefghijklmnopqrstuvwxyz0123456789[]:", begin - 1);
    out += line.substr(0, before == Text::npos ? 0 : before + 1);
    out += line.substr(begin + 3, end - begin - 3);
    line.remove_prefix(end + 2);
  }
  return out.append(line);
}

// Modifiers of which the printer leaves the default out.
void set_defaults(Instruction& instruction) {
  Text name = instruction.name->mnemonic;
  if (name.starts_with("v_pk_") || name.starts_with("v_dot2")) instruction.op_sel_hi = 7;
  if (name.starts_with("v_mfma_scale")) instruction.op_sel_hi = 7;
  if (name.starts_with("v_swmmac") || name.starts_with("v_wmma")) instruction.op_sel_hi = 7;
}

void unknown(Wave& wave, const Instruction& instruction) {
  wave.fail(instruction.name->line.empty() ? "no instruction that the disassembler knows"
                                           : "the emulator lacks this instruction: " + instruction.name->line);
}

// A 16-bit result on Vega and CDNA clears the register's other half, except of the operations that came with GFX9.
bool keeps_high_half(const Instruction& instruction, Generation generation) {
  if (generation != Generation::kGfx9) return true;
  Text name = instruction.name->mnemonic;
  if (name.starts_with("v_mad_legacy") || name.starts_with("v_fma_legacy") || name.starts_with("v_div_fixup_legacy"))
    return false;
  for (Text stem :
       {"v_mac_f16", "v_fmac_f16", "v_madak_f16", "v_madmk_f16", "v_fma_mix", "v_mad_mix", "v_mad_f16", "v_mad_u16",
        "v_mad_i16", "v_fma_f16", "v_div_fixup_f16", "v_add_i16", "v_sub_i16", "v_min3_", "v_max3_", "v_med3_"})
    if (name.starts_with(stem)) return true;
  return false;
}

bool accumulates(const Instruction& instruction) {
  Text name = instruction.name->mnemonic;
  for (Text stem : {"v_fmac_", "v_mac_", "v_pk_fmac_", "v_dot2c_", "v_dot4c_", "v_dot8c_", "v_dot2acc_"})
    if (name.starts_with(stem)) return true;
  return false;
}

// Whether every operand of a vector instruction is understood. Those of others may be counters, messages, cache
// policies.
bool operands_known(const Instruction& instruction) {
  if (!instruction.name->mnemonic.starts_with("v_")) return true;
  for (unsigned i = 0; i < instruction.operand_count; ++i)
    if (instruction.operands[i].kind == OperandKind::kNone) return false;
  return true;
}

void resolve(Instruction& instruction, const Processor& processor) {
  const Table& table = semantics();
  auto found = table.find(instruction.name->mnemonic);
  instruction.execute = found == table.end() || !operands_known(instruction) ? unknown : found->second;
  instruction.atomic = find_atomic(instruction.name->mnemonic);
  // The sum of v_fmac and the like is a source as well.
  if (accumulates(instruction)) instruction.operands[3] = instruction.operands[0];
  instruction.keeps_high_half = keeps_high_half(instruction, processor.generation);
}

}  // namespace

bool is_known(const Instruction& instruction) { return instruction.execute != unknown; }

Instruction decode_line(LoadedCode& code, const std::string& line) {
  Instruction instruction;
  const std::string whole = with_whole_numbers(line);
  Text rest = whole;
  size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  code.texts.push_back({without_suffix(rest.substr(0, end)), line});
  instruction.name = &code.texts.back();
  rest.remove_prefix(end);
  set_defaults(instruction);
  std::vector<Text> modifiers;
  std::vector<Text> pieces = split(rest, ',');
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::vector<Text> words = split(pieces[i], ' ');
    for (size_t w = 0; w < words.size(); ++w) {
      bool operand = w == 0 && instruction.operand_count < kMaxOperands && words[w].find(':') >= words[w].find('[');
      if (operand)
        instruction.operands[instruction.operand_count++] = parse_operand(words[w]);
      else
        modifiers.push_back(words[w]);
    }
  }
  for (Text modifier : modifiers) parse_modifier(modifier, instruction);
  resolve(instruction, code.processor);
  return instruction;
}

Processor processor_of(const std::string& name) {
  Processor processor;
  processor.name = name;
  if (name.starts_with("gfx10")) processor.generation = Generation::kGfx10;
  if (name.starts_with("gfx11")) processor.generation = Generation::kGfx11;
  if (name.starts_with("gfx12")) processor.generation = Generation::kGfx12;
  processor.fnuz = name.starts_with("gfx94");
  processor.gfx940 = processor.fnuz || name.starts_with("gfx95");
  processor.gfx90a = processor.gfx940 || name == "gfx90a";
  processor.gfx1250 = name.starts_with("gfx125");
  processor.packed_work_items = processor.gfx90a || processor.generation >= Generation::kGfx11;
  return processor;
}

Result<void> decode_text(LoadedCode& code, uint64_t bytes, bool wave64) {
  Result<Disassembler> disassembler = Disassembler::create(code.processor.name, wave64);
  if (!disassembler) return disassembler.error();
  const auto* text = reinterpret_cast<const uint8_t*>(code.text_begin);
  std::vector<size_t> pairs;  // of VOPD, by the index of the instruction
  uint8_t high_registers = 0;
  code.instruction_at.assign(bytes / 4, UINT32_MAX);
  for (uint64_t at = 0; at < bytes;) {
    Disassembler::Printed printed = disassembler->print({text + at, bytes - at}, code.text_begin + at);
    size_t pair = printed.text.find(" :: ");
    Instruction instruction = decode_line(code, printed.text.substr(0, pair));
    instruction.address = code.text_begin + at;
    instruction.bytes = static_cast<uint8_t>(printed.bytes ? printed.bytes : 4);
    std::memcpy(&instruction.encoding, text + at, sizeof instruction.encoding);
    instruction.high_registers = high_registers;
    if (instruction.name->mnemonic == "s_set_vgpr_msb") high_registers = static_cast<uint8_t>(instruction.encoding);
    if (pair != std::string::npos) {
      pairs.push_back(code.instructions.size());
      code.seconds.push_back(decode_line(code, printed.text.substr(pair + 4)));
    }
    code.instruction_at[at / 4] = static_cast<uint32_t>(code.instructions.size());
    at += instruction.bytes;
    code.instructions.push_back(std::move(instruction));
  }
  code.instructions.push_back(decode_line(code, ""));
  for (uint32_t& index : code.instruction_at)
    if (index == UINT32_MAX) index = static_cast<uint32_t>(code.instructions.size() - 1);
  for (size_t i = 0; i < pairs.size(); ++i) {
    Instruction& first = code.instructions[pairs[i]];
    first.second = &code.seconds[i];
    first.first_execute = first.execute;
    first.execute = execute_pair;
  }
  return {};
}

}  // namespace kiln::amdgcn_emulator
