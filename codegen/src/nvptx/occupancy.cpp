#include "nvptx/occupancy.h"

#include <algorithm>
#include <functional>
#include <set>

#include "kiln/target/gpu.h"

namespace kiln::codegen::nvptx {
namespace {

using target::blocks_by_registers;
using target::NvidiaGpu;

constexpr int64_t kFewBlocks = 3, kEnoughThreads = 1024;
constexpr int64_t kFewSpilledBytes = 32;
// A kernel with so many barriers (a sort) waits for its own warps: others are worth addresses that are spilled.
constexpr int64_t kManyBarriers = 12, kWorthManyBarriers = 64;
// What a thread may spill for a third block of products of four warps: attention by 64 queries and 128 keys is a tenth
// faster by three blocks that spill 128 bytes, most of them outside the loop, than by two that spill nothing.
constexpr int64_t kWorthThirdBlock = 128;
// A third block that spills nothing is worth it even where the assembler then lets one product of a program wait for
// the other (C7512): others run meanwhile. The gradient of attention's keys, 64 wide, is an eighth faster on an H200.

// Layer norms of rows of 8 KiB on an H200: 3.3 TB/s by four blocks, 3.5 by five, 3.8 by six.
int64_t bytes_under_way(const NvidiaGpu& gpu) { return gpu.units.kib_under_way * 1024; }

int64_t blocks_but_for_registers(const BlockNeeds& needs, const NvidiaGpu& gpu) {
  return target::blocks_but_for_registers(gpu, needs.threads, needs.shared_bytes);
}

// With a directive behind that of the number of threads.
std::string aiming_at(const std::string& ptx, int blocks) {
  const size_t threads = ptx.find(".maxntid");
  if (threads == std::string::npos) return ptx;
  return std::string(ptx).insert(threads, ".minnctapersm " + std::to_string(blocks) + "\n");
}

// Two blocks of four warps that spill nothing, by which most registers are taken.
bool has_room_for_third(const Resources& resources, const BlockNeeds& needs, const NvidiaGpu& gpu) {
  return resources.registers > 0 && resources.spill_store_bytes == 0 && needs.threads == 4 * 32 &&
         blocks_by_registers(gpu, resources.registers, needs.threads) == 2 && blocks_but_for_registers(needs, gpu) > 2;
}

bool waits_often(const std::string& ptx) {
  int64_t barriers = 0;
  for (size_t at = 0; (at = ptx.find("bar.sync", at)) != std::string::npos; ++at) ++barriers;
  return barriers >= kManyBarriers;
}

}  // namespace

int blocks_at_once(const std::optional<Resources>& resources, const BlockNeeds& needs, const NvidiaGpu& gpu) {
  int64_t out = blocks_but_for_registers(needs, gpu);
  if (resources && resources->registers > 0) {
    out = std::min(out, blocks_by_registers(gpu, resources->registers, needs.threads));
  }
  return static_cast<int>(std::max<int64_t>(out, 1));
}

std::optional<int> blocks_in_reach(const Resources& resources, const BlockNeeds& needs, const NvidiaGpu& gpu) {
  if (resources.registers == 0) return std::nullopt;
  const int64_t now = blocks_by_registers(gpu, resources.registers, needs.threads);
  const int64_t most = blocks_but_for_registers(needs, gpu);
  if (now >= most || now == 0 || now > kFewBlocks) return std::nullopt;
  constexpr int64_t kUnit = target::NvidiaGpu::kRegisterUnit;
  const int64_t left = gpu.registers / ((now + 1) * needs.threads) / kUnit * kUnit;
  if (left < resources.registers - resources.registers / 5) return std::nullopt;
  return static_cast<int>(now + 1);
}

std::optional<int> blocks_of_products(const Resources& resources, const BlockNeeds& needs, const NvidiaGpu& gpu,
                                      bool by_groups) {
  // nvJitLink takes registers that it could do without where there is room for them.
  if (auto blocks = blocks_in_reach(resources, needs, gpu)) return blocks;
  return by_groups && has_room_for_third(resources, needs, gpu) ? std::optional(3) : std::nullopt;
}

bool are_worth_it(const Resources& before, const Resources& after, int threads, int blocks, bool by_groups,
                  const NvidiaGpu& gpu) {
  const bool is_third = blocks == 3 && by_groups;
  const int64_t worth = is_third ? kWorthThirdBlock : 0;
  const bool may_serialise = is_third && after.spill_store_bytes == 0;
  return after.spill_store_bytes <= before.spill_store_bytes + worth &&
         (may_serialise || after.warnings == before.warnings) &&
         blocks_by_registers(gpu, after.registers, threads) >= blocks;
}

Result<std::optional<Assembled>> assemble_for_products(const std::string& ptx, const NvidiaGpu& gpu,
                                                       const BlockNeeds& needs, bool line_tables) {
  auto first = assemble(ptx, gpu.name, line_tables);
  if (!first || !*first) return first;
  const bool by_groups = ptx.find("wgmma.mma_async") != std::string::npos;
  const auto blocks = blocks_of_products((*first)->resources, needs, gpu, by_groups);
  if (!blocks) return first;
  auto second = assemble(aiming_at(ptx, *blocks), gpu.name, line_tables);
  if (!second || !*second) return first;
  Resources &before = (*first)->resources, &after = (*second)->resources;
  const int64_t both = before.assembler_us + after.assembler_us;
  before.assembler_us = after.assembler_us = both;
  return are_worth_it(before, after, needs.threads, *blocks, by_groups, gpu) ? second : first;
}

std::vector<int> worthwhile_blocks(const Resources& resources, const BlockNeeds& needs, const NvidiaGpu& gpu) {
  const auto enough = static_cast<int>(kEnoughThreads / needs.threads);
  const int64_t now = resources.registers == 0 ? enough : blocks_by_registers(gpu, resources.registers, needs.threads);
  std::set<int, std::greater<>> wanted;
  for (int blocks = std::max(2, enough); blocks > std::max<int64_t>(now, 1); blocks /= 2) wanted.insert(blocks);
  if (needs.loaded_bytes > 0) {
    const int64_t wide = (bytes_under_way(gpu) + needs.loaded_bytes - 1) / needs.loaded_bytes;
    const int64_t most = std::min(wide, blocks_but_for_registers(needs, gpu));
    for (int64_t blocks : {most, (most + now + 1) / 2}) {
      if (blocks > std::max<int64_t>(now, 1)) wanted.insert(static_cast<int>(blocks));
    }
  }
  std::erase_if(wanted, [&](int blocks) {
    return 5 * (gpu.registers / (int64_t{blocks} * needs.threads)) < 3 * resources.registers;
  });
  return {wanted.begin(), wanted.end()};
}

Result<std::optional<Assembled>> assemble_for_memory(const std::string& ptx, const NvidiaGpu& gpu,
                                                     const BlockNeeds& needs, bool line_tables) {
  auto first = assemble(ptx, gpu.name, line_tables);
  if (!first || !*first) return first;
  int64_t spent = (*first)->resources.assembler_us;
  const int64_t worth = waits_often(ptx) ? kWorthManyBarriers : 0;
  for (int blocks : worthwhile_blocks((*first)->resources, needs, gpu)) {
    auto again = assemble(aiming_at(ptx, blocks), gpu.name, line_tables);
    if (!again || !*again) return first;
    spent += (*again)->resources.assembler_us;
    (*again)->resources.assembler_us = spent;
    if ((*again)->resources.spill_store_bytes <= std::max(blocks == 2 ? kFewSpilledBytes : 0, worth)) return again;
  }
  (*first)->resources.assembler_us = spent;
  return first;
}

}  // namespace kiln::codegen::nvptx
