// The state in which a kernel starts; see start.h. Registers that nothing sets hold a NaN that no kernel should meet.
#include "start.h"

#include <algorithm>

namespace kiln::amdgcn_emulator {
namespace {

constexpr uint32_t kPoison = 0x7fc0dead;
constexpr size_t kDynamicStackBytes = 16 << 10;  // of one lane, where the descriptor does not know

// Bits of the descriptor's properties: which user SGPRs there are, in this order.
constexpr unsigned kPrivateSegmentBuffer = 0;
constexpr unsigned kDispatchPointer = 1;
constexpr unsigned kQueuePointer = 2;
constexpr unsigned kArgumentPointer = 3;
constexpr unsigned kDispatchId = 4;
constexpr unsigned kFlatScratchInit = 5;
constexpr unsigned kPrivateSegmentSize = 6;

void put(std::span<std::byte> bytes, size_t offset, uint64_t value, size_t size) {
  if (offset + size <= bytes.size()) std::memcpy(bytes.data() + offset, &value, size);
}

}  // namespace

Start::Start(const LoadedCode& code, const LoadedKernel& kernel, const Launch& launch)
    : code_(code), kernel_(kernel), launch_(launch) {
  for (const MemoryRange& range : launch.memory) memory_.add(range);
  for (const MemoryRange& range : code.segments) memory_.add(range);
  fill_arguments();
  fill_packet();
  memory_.add({arguments_.data(), arguments_.size(), false});
  memory_.add({packet_.data(), packet_.size(), false});

  const unsigned lanes = kernel.kernel.wavefront_size;
  const unsigned waves = (launch.threads + lanes - 1) / lanes;
  size_t lane_bytes = (kernel.descriptor.scratch_bytes + size_t{15}) / 16 * 16;
  if (kernel.kernel.dynamic_stack) lane_bytes += kDynamicStackBytes;
  wave_scratch_bytes_ = lane_bytes * lanes;
  scratch_.resize(wave_scratch_bytes_ * waves);
  memory_.add({scratch_.data(), scratch_.size(), true});
  group_.lds.resize(kernel.descriptor.lds_bytes + launch.dynamic_lds_bytes);
  for (unsigned i = 0; i < waves; ++i) {
    waves_.push_back(std::make_unique<Wave>());
    Wave& wave = *waves_.back();
    wave.index = i;
    wave.lanes = lanes;
    wave.code = &code;
    wave.processor = &code.processor;
    wave.group = &group_;
    wave.memory = &memory_;
    wave.scratch = scratch_.data() + wave_scratch_bytes_ * i;
    wave.scratch_bytes = static_cast<uint32_t>(lane_bytes);
    wave_pointers_.push_back(&wave);
  }
}

void Start::fill_arguments() {
  arguments_.resize(std::max<size_t>(kernel_.kernel.argument_bytes, launch_.arguments.size()) + 64);
  std::copy(launch_.arguments.begin(), launch_.arguments.end(), arguments_.begin());
  for (const Argument& argument : kernel_.kernel.arguments) {
    const std::string& kind = argument.value_kind;
    if (!kind.starts_with("hidden_")) continue;
    size_t dimension = kind.back() >= 'x' && kind.back() <= 'z' ? static_cast<size_t>(kind.back() - 'x') : 0;
    uint64_t value = 0;
    if (kind.starts_with("hidden_block_count")) value = launch_.grid[dimension];
    if (kind.starts_with("hidden_group_size")) value = dimension == 0 ? launch_.threads : 1;
    if (kind == "hidden_grid_dims") value = launch_.grid[2] > 1 ? 3 : launch_.grid[1] > 1 ? 2 : 1;
    if (kind == "hidden_private_base") value = kPrivateBase >> 32;
    if (kind == "hidden_shared_base") value = kSharedBase >> 32;
    if (kind == "hidden_dynamic_lds_size") value = launch_.dynamic_lds_bytes;
    put(arguments_, argument.offset, value, std::min<size_t>(argument.bytes, 8));
  }
}

void Start::fill_packet() {
  put(packet_, 2, 3, 2);
  put(packet_, 4, launch_.threads, 2);
  put(packet_, 6, 1, 2);
  put(packet_, 8, 1, 2);
  put(packet_, 12, uint64_t{launch_.grid[0]} * launch_.threads, 4);
  put(packet_, 16, launch_.grid[1], 4);
  put(packet_, 20, launch_.grid[2], 4);
  put(packet_, 24, kernel_.descriptor.scratch_bytes, 4);
  put(packet_, 28, kernel_.descriptor.lds_bytes, 4);
  put(packet_, 40, reinterpret_cast<uint64_t>(arguments_.data()), 8);
}

std::span<Wave*> Start::workgroup(std::array<uint32_t, 3> id) {
  group_.id = id;
  for (size_t at = 0; at + 4 <= group_.lds.size(); at += 4) std::memcpy(group_.lds.data() + at, &kPoison, 4);
  for (size_t at = 0; at + 4 <= scratch_.size(); at += 4) std::memcpy(scratch_.data() + at, &kPoison, 4);
  for (Wave* wave : wave_pointers_) start_wave(*wave);
  return wave_pointers_;
}

void Start::start_wave(Wave& wave) {
  const Descriptor& descriptor = kernel_.descriptor;
  const unsigned poisoned =
      std::min(std::max(kernel_.kernel.vgprs, 32u), code_.processor.gfx1250 ? kVectorRegisters : 256u);
  for (unsigned i = 0; i < poisoned; ++i) wave.vgpr[i].fill(kPoison);
  if (code_.processor.generation == Generation::kGfx9)
    for (unsigned i = 0; i < poisoned; ++i) wave.vgpr[256 + i].fill(kPoison);
  wave.sgpr.fill(kPoison);
  wave.set_scalar64(kNull, 0);
  wave.scc = false;
  wave.instruction = nullptr;
  wave.state = WaveState::kRunning;
  wave.mode = descriptor.rsrc1 >> 12 & 0xff;
  if (code_.processor.generation == Generation::kGfx12) {
    wave.mode |= kModeDx10Clamp | kModeIeee;
  } else {
    if (descriptor.rsrc1 >> 21 & 1) wave.mode |= kModeDx10Clamp;
    if (descriptor.rsrc1 >> 23 & 1) wave.mode |= kModeIeee;
  }
  if (descriptor.rsrc1 >> 26 & 1) wave.mode |= kModeOverflow16;
  uint32_t threads = std::min(launch_.threads - wave.index * wave.lanes, wave.lanes);
  wave.set_scalar64(kExec, threads == 64 ? ~uint64_t{0} : (uint64_t{1} << threads) - 1);
  user_registers(wave);
  work_items(wave);
  // What loads arguments where the firmware does not stands before the rest.
  wave.jump(descriptor.entry + (descriptor.preload && !code_.processor.gfx1250 ? 256 : 0));
}

void Start::user_registers(Wave& wave) {
  const Descriptor& descriptor = kernel_.descriptor;
  unsigned next = 0;
  auto push = [&](uint32_t value) { wave.sgpr[next++] = value; };
  auto push64 = [&](uint64_t value) {
    push(static_cast<uint32_t>(value));
    push(static_cast<uint32_t>(value >> 32));
  };
  auto has = [&](unsigned bit) { return descriptor.properties >> bit & 1; };
  if (has(kPrivateSegmentBuffer)) {
    // A swizzled buffer over the private memory of all waves: 4-byte elements of 64 lanes side by side, the lane added
    // to the index by the hardware.
    push64(reinterpret_cast<uint64_t>(scratch_.data()) | uint64_t{1} << 63);
    push(static_cast<uint32_t>(scratch_.size()));
    push(uint32_t{1} << 23 | uint32_t{3} << 21 | uint32_t{1} << 19);
  }
  if (has(kDispatchPointer)) push64(reinterpret_cast<uint64_t>(packet_.data()));
  if (has(kQueuePointer)) push64(0);
  if (has(kArgumentPointer)) push64(reinterpret_cast<uint64_t>(arguments_.data()));
  if (has(kDispatchId)) push64(0);
  if (has(kFlatScratchInit)) push64(reinterpret_cast<uint64_t>(scratch_.data()));
  if (has(kPrivateSegmentSize)) push(wave.scratch_bytes);
  // Arguments that the hardware loads in advance: how many dwords, from which dword on.
  unsigned preloaded = descriptor.preload & 0x7f;
  unsigned first = descriptor.preload >> 7;
  for (unsigned i = 0; i < preloaded && (first + i + 1) * 4 <= arguments_.size(); ++i) {
    uint32_t value;
    std::memcpy(&value, arguments_.data() + (first + i) * 4, sizeof value);
    push(value);
  }
  workgroup_registers(wave, descriptor.rsrc2 >> 1 & 31);
}

void Start::workgroup_registers(Wave& wave, unsigned next) {
  uint32_t rsrc2 = kernel_.descriptor.rsrc2;
  const std::array<uint32_t, 3>& id = group_.id;
  if (code_.processor.generation == Generation::kGfx12) {
    wave.sgpr[kTrap + 9] = id[0];
    wave.sgpr[kTrap + 7] = (id[1] & 0xffff) | id[2] << 16;
    return;
  }
  for (unsigned dimension = 0; dimension < 3; ++dimension)
    if (rsrc2 >> (7 + dimension) & 1) wave.sgpr[next++] = id[dimension];
  if (rsrc2 >> 10 & 1) wave.sgpr[next++] = 0;
  bool architected = code_.processor.gfx940 || code_.processor.generation >= Generation::kGfx11;
  if ((rsrc2 & 1) && !architected) wave.sgpr[next++] = static_cast<uint32_t>(wave_scratch_bytes_ * wave.index);
}

void Start::work_items(Wave& wave) {
  unsigned ids = kernel_.descriptor.rsrc2 >> 11 & 3;
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    wave.vgpr[0][lane] = wave.index * wave.lanes + lane;  // y and z are 0: packed or not
    if (code_.processor.packed_work_items) continue;
    if (ids >= 1) wave.vgpr[1][lane] = 0;
    if (ids >= 2) wave.vgpr[2][lane] = 0;
  }
}

}  // namespace kiln::amdgcn_emulator
