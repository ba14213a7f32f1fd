// Program flow, EXEC, hardware registers, and what has no effect here: waits, hints, caches.
#include "scalar.h"

namespace kiln::amdgcn_emulator {

namespace {

uint64_t after(const Instruction& instruction) { return instruction.address + instruction.bytes; }

void branch(Wave& wave, const Instruction& instruction, bool taken) {
  if (taken) wave.jump(after(instruction) + static_cast<uint64_t>(int64_t{immediate16(instruction)} * 4));
}

void add_branches(Table& table) {
  table["s_branch"] = [](Wave& wave, const Instruction& i) { branch(wave, i, true); };
  table["s_cbranch_scc0"] = [](Wave& wave, const Instruction& i) { branch(wave, i, !wave.scc); };
  table["s_cbranch_scc1"] = [](Wave& wave, const Instruction& i) { branch(wave, i, wave.scc); };
  table["s_cbranch_vccz"] = [](Wave& wave, const Instruction& i) { branch(wave, i, wave.vcc() == 0); };
  table["s_cbranch_vccnz"] = [](Wave& wave, const Instruction& i) { branch(wave, i, wave.vcc() != 0); };
  table["s_cbranch_execz"] = [](Wave& wave, const Instruction& i) { branch(wave, i, wave.exec() == 0); };
  table["s_cbranch_execnz"] = [](Wave& wave, const Instruction& i) { branch(wave, i, wave.exec() != 0); };
  for (const char* debug :
       {"s_cbranch_cdbgsys", "s_cbranch_cdbguser", "s_cbranch_cdbgsys_or_user", "s_cbranch_cdbgsys_and_user"})
    table[debug] = [](Wave&, const Instruction&) {};
  table["s_getpc_b64"] = table["s_get_pc_i64"] = [](Wave& wave, const Instruction& i) {
    write_scalar<U64>(wave, i.operands[0], after(i));
  };
  table["s_setpc_b64"] = table["s_set_pc_i64"] = [](Wave& wave, const Instruction& i) {
    wave.jump(read_scalar<U64>(wave, i.operands[0]));
  };
  table["s_add_pc_i64"] = [](Wave& wave, const Instruction& i) {
    wave.jump(after(i) + read_scalar<U64>(wave, i.operands[0]));
  };
  table["s_swappc_b64"] = table["s_swap_pc_i64"] = [](Wave& wave, const Instruction& i) {
    uint64_t target = read_scalar<U64>(wave, i.operands[1]);
    write_scalar<U64>(wave, i.operands[0], after(i));
    wave.jump(target);
  };
  table["s_call_b64"] = table["s_call_i64"] = [](Wave& wave, const Instruction& i) {
    write_scalar<U64>(wave, i.operands[0], after(i));
    branch(wave, i, true);
  };
  table["s_endpgm"] = table["s_endpgm_saved"] = [](Wave& wave, const Instruction&) { wave.state = WaveState::kEnded; };
  table["s_trap"] = [](Wave& wave, const Instruction&) { wave.fail("the kernel trapped"); };
}

void add_barriers(Table& table) {
  table["s_barrier"] =
      table["s_barrier_wait"] = [](Wave& wave, const Instruction&) { wave.state = WaveState::kAtBarrier; };
  // The barrier of the workgroup: its waves meet at s_barrier_wait.
  table["s_barrier_signal"] = [](Wave& wave, const Instruction& i) {
    if (i.operands[0].kind != OperandKind::kConstant || static_cast<int64_t>(i.operands[0].integer) != -1)
      wave.fail("only the workgroup's barrier is known: " + i.name->line);
  };
}

// s_and_saveexec_b64 and its relatives: D = EXEC; EXEC = operation(source, EXEC); SCC = EXEC != 0.
template <class K, class F, bool WritesNewMask>
void save_exec(Wave& wave, const Instruction& instruction) {
  auto source = read_scalar<K>(wave, instruction.operands[1]);
  auto old = static_cast<typename K::Value>(K::width == 64 ? wave.scalar64(kExec) : wave.sgpr[kExec]);
  auto mask = F{}(source, old);
  write_scalar<K>(wave, instruction.operands[0], WritesNewMask ? mask : old);
  if constexpr (K::width == 64)
    wave.set_scalar64(kExec, mask);
  else
    wave.sgpr[kExec] = mask;
  wave.scc = mask != 0;
}

template <class K>
void add_save_exec(Table& table, const std::string& type) {
  using V = typename K::Value;
  auto add = [&]<class F>(F, std::initializer_list<const char*> names) {
    for (std::string name : names) {
      table["s_" + name + "_saveexec_" + type] = save_exec<K, F, false>;
      table["s_" + name + "_wrexec_" + type] = save_exec<K, F, true>;
    }
  };
  add([](V s, V exec) { return s & exec; }, {"and"});
  add([](V s, V exec) { return s | exec; }, {"or"});
  add([](V s, V exec) { return s ^ exec; }, {"xor"});
  add([](V s, V exec) { return s & ~exec; }, {"andn2", "and_not1"});
  add([](V s, V exec) { return s | ~exec; }, {"orn2", "or_not1"});
  add([](V s, V exec) { return ~s & exec; }, {"andn1", "and_not0"});
  add([](V s, V exec) { return ~s | exec; }, {"orn1", "or_not0"});
  add([](V s, V exec) { return ~(s & exec); }, {"nand"});
  add([](V s, V exec) { return ~(s | exec); }, {"nor"});
  add([](V s, V exec) { return ~(s ^ exec); }, {"xnor"});
}

// hwreg(id, offset, width) as the encoding holds it.
struct HardwareRegister {
  unsigned id;
  unsigned offset;
  uint32_t mask;
};

HardwareRegister hardware_register(const Instruction& instruction) {
  uint32_t bits = instruction.encoding & 0xffff;
  return {bits & 63, bits >> 6 & 31, static_cast<uint32_t>((uint64_t{1} << ((bits >> 11) + 1)) - 1)};
}

constexpr unsigned kRegisterMode = 1;
constexpr unsigned kRegisterBases = 15;   // SH_MEM_BASES
constexpr unsigned kRegisterStatus = 28;  // IB_STS2, whose bits from 6 on count a cluster's workgroups: none here
constexpr unsigned kRegisterCycles = 29;  // SHADER_CYCLES of RDNA

constexpr uint32_t kMessageGetRealTime = 0x83;

void get_register(Wave& wave, const Instruction& instruction) {
  HardwareRegister hardware = hardware_register(instruction);
  uint32_t value = 0;
  if (hardware.id == kRegisterMode)
    value = wave.mode;
  else if (hardware.id == kRegisterBases)
    value = static_cast<uint32_t>(kPrivateBase >> 48 | kSharedBase >> 48 << 16);
  else if (hardware.id == kRegisterStatus && wave.processor->gfx1250)
    value = 0;
  else if (hardware.id == kRegisterCycles && wave.processor->generation != Generation::kGfx9)
    value = static_cast<uint32_t>(wave.instructions);
  else
    return wave.fail("the emulator lacks this hardware register: " + instruction.name->line);
  write_scalar<U32>(wave, instruction.operands[0], value >> hardware.offset & hardware.mask);
}

void set_register(Wave& wave, const Instruction& instruction, uint32_t value) {
  HardwareRegister hardware = hardware_register(instruction);
  if (hardware.id != kRegisterMode)
    return wave.fail("the emulator lacks this hardware register: " + instruction.name->line);
  uint32_t mask = hardware.mask << hardware.offset;
  wave.mode = (wave.mode & ~mask) | (value << hardware.offset & mask);
}

void add_registers(Table& table) {
  table["s_getreg_b32"] = get_register;
  table["s_setreg_b32"] = table["s_setreg_imm32_b32"] = [](Wave& wave, const Instruction& i) {
    set_register(wave, i, read_scalar<U32>(wave, i.operands[1]));
  };
  table["s_round_mode"] = [](Wave& wave, const Instruction& i) {
    wave.mode = (wave.mode & ~0xfu) | (i.encoding & 0xf);
  };
  table["s_denorm_mode"] = [](Wave& wave, const Instruction& i) {
    wave.mode = (wave.mode & ~0xf0u) | (i.encoding & 0xf) << 4;
  };
  auto clock = [](Wave& wave, const Instruction& i) { write_scalar<U64>(wave, i.operands[0], wave.instructions); };
  table["s_memtime"] = table["s_memrealtime"] = clock;
  // Of the messages that answer only the clock's.
  table["s_sendmsg_rtn_b64"] = [](Wave& wave, const Instruction& i) {
    if ((i.encoding & 0xff) != kMessageGetRealTime) return wave.fail("no answer to this message: " + i.name->line);
    write_scalar<U64>(wave, i.operands[0], wave.instructions);
  };
}

constexpr const char* kNoEffect[] = {
    "s_nop",
    "s_waitcnt",
    "s_waitcnt_vscnt",
    "s_waitcnt_vmcnt",
    "s_waitcnt_lgkmcnt",
    "s_waitcnt_expcnt",
    "s_waitcnt_depctr",
    "s_wait_idle",
    "s_wait_event",
    "s_wait_loadcnt",
    "s_wait_storecnt",
    "s_wait_samplecnt",
    "s_wait_bvhcnt",
    "s_wait_expcnt",
    "s_wait_dscnt",
    "s_wait_kmcnt",
    "s_wait_loadcnt_dscnt",
    "s_wait_storecnt_dscnt",
    "s_wait_alu",
    "s_wait_xcnt",
    "s_wait_asynccnt",
    "s_wait_tensorcnt",
    "s_set_vgpr_msb",
    "s_setprio_inc_wg",
    "s_monitor_sleep",
    "s_delay_alu",
    "s_clause",
    "s_sleep",
    "s_sleep_var",
    "s_setprio",
    "s_sendmsg",
    "s_sendmsghalt",
    "s_wakeup",
    "s_atc_probe",
    "s_atc_probe_buffer",
    "s_dcache_discard",
    "s_dcache_discard_x2",
    "s_icache_inv",
    "s_dcache_inv",
    "s_dcache_wb",
    "s_dcache_wb_vol",
    "s_dcache_inv_vol",
    "s_gl1_inv",
    "s_inst_prefetch",
    "s_set_inst_prefetch_distance",
    "s_prefetch_inst",
    "s_prefetch_inst_pc_rel",
    "s_prefetch_data",
    "s_prefetch_data_pc_rel",
    "s_buffer_prefetch_data",
    "s_version",
    "s_code_end",
    "s_incperflevel",
    "s_decperflevel",
    "s_ttracedata",
    "s_ttracedata_imm",
    "s_sethalt",
    "s_singleuse_vdst",
    "buffer_gl0_inv",
    "buffer_gl1_inv",
    "buffer_wbinvl1",
    "buffer_wbinvl1_vol",
    "buffer_wbl2",
    "buffer_invl2",
    "buffer_inv",
    "global_wb",
    "global_wbinv",
    "global_inv",
    "v_nop",
    "ds_nop",
    "v_pipeflush",
    "v_clrexcp",
};

}  // namespace

void add_scalar_control(Table& table) {
  add_branches(table);
  add_barriers(table);
  add_save_exec<U32>(table, "b32");
  add_save_exec<U64>(table, "b64");
  add_registers(table);
  for (const char* name : kNoEffect) table[name] = [](Wave&, const Instruction&) {};
}

}  // namespace kiln::amdgcn_emulator
